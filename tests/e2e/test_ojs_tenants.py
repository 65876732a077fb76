"""What tenants have and may use, over HTTP."""

import pytest

from tests.support.server import guarded, served
from tests.support.timing import at_once

TENANT = {"X_OJS_Tenant": "acme"}


def add(server, queue="mail", count=1, **headers):
    jobs = [{"type": "mail.send", "args": [], "options": {"queue": queue}}] * count
    return server.post("/ojs/v1/jobs/batch", {"jobs": jobs}, **(headers or TENANT))


def limit(server, **limits):
    answer = server.put("/ojs/v1/admin/tenants/acme/limits", limits)
    assert 200 == answer.status, answer.body
    return answer


def refused(answer):
    assert 429 == answer.status, answer.body
    assert ("TENANT_LIMIT_EXCEEDED", True) == (answer["error"]["code"], answer["error"]["retryable"])
    assert int(answer.headers["retry-after"]) >= 1
    return answer["error"]["details"]["limit"]


def test_a_tenants_figures(server):
    add(server, count=3), add(server, "film"), add(server, X_OJS_Tenant="other")
    server.ack(server.fetch("mail", **TENANT)[0], **TENANT)

    stats = server.get("/ojs/v1/admin/tenants/acme/stats")

    assert (200, "acme", 4) == (stats.status, stats["tenant_id"], stats["total_jobs"])
    assert (3, 1, 1) == tuple(stats["jobs"][name] for name in ("available", "completed", "completed_24h"))
    assert {"mail", "film"} == set(stats["queues"])
    assert 1 == stats["throughput"]["processed_per_minute"]
    assert ["acme", "other"] == [one["tenant_id"] for one in server.get("/ojs/v1/admin/tenants")["items"]]
    assert 0 == server.get("/ojs/v1/admin/tenants/nobody/stats")["total_jobs"]


def test_no_more_jobs_of_a_tenant_run_at_once_than_it_may_whatever_their_queue(server):
    add(server, "a", 5), add(server, "b", 5)
    limit(server, max_concurrency=3)

    running = server.fetch("a", "b", count=10, **TENANT)
    assert 3 == len(running)
    assert [] == server.fetch("b", "a", count=10, **TENANT)
    server.ack(running[0], **TENANT)
    assert 1 == len(server.fetch("b", "a", count=10, **TENANT))
    limits = server.get("/ojs/v1/admin/tenants/acme/stats")["limits"]
    assert {"limit": 3, "current": 3} == limits["max_concurrency"]
    limit(server, max_concurrency=None)
    assert 6 == len(server.fetch("a", "b", count=10, **TENANT))


def test_two_tenants_do_not_share_a_limit(server):
    limit(server, max_concurrency=1)
    add(server, count=2), add(server, count=2, X_OJS_Tenant="other")

    assert 1 == len(server.fetch("mail", count=2, **TENANT))
    assert 2 == len(server.fetch("mail", count=2, X_OJS_Tenant="other"))


def test_a_tenants_own_limit_shows_on_no_job(server):
    job = server.enqueue({"type": "a.b", "args": []}, **TENANT)

    assert "rate_limit" not in job
    assert "rate_limit" not in server.job(job, **TENANT)


def test_twenty_four_producers_never_have_more_waiting_than_they_may(server):
    limit(server, max_queue_depth=10)
    answers = at_once(24, lambda _: add(server))

    assert 10 == sum(answer.status == 201 for answer in answers)
    assert {"max_queue_depth"} == {refused(answer) for answer in answers if answer.status != 201}
    assert 10 == server.get("/ojs/v1/admin/tenants/acme/stats")["jobs"]["available"]
    server.fetch("mail", **TENANT)
    assert 201 == add(server).status
    assert "max_queue_depth" == refused(add(server))
    assert 201 == add(server, X_OJS_Tenant="other").status


def test_scheduled_jobs_have_a_bound_of_their_own(server):
    limit(server, max_scheduled=1)
    later = {"type": "a.b", "args": [], "options": {"delay_until": "+PT1H"}}
    server.enqueue(later, **TENANT)

    assert "max_scheduled" == refused(server.post("/ojs/v1/jobs", later, **TENANT))
    assert 201 == add(server, count=5).status


@pytest.mark.parametrize("rate", [3, {"limit": 3, "period": "PT1S"}])
def test_a_tenant_adds_no_faster_than_it_may(server, rate):
    limit(server, max_enqueue_rate=rate)

    assert [201, 201, 201] == [add(server).status for _ in range(3)]
    assert "max_enqueue_rate" == refused(add(server))
    server.until(lambda: add(server).status == 201, 3)


def test_workflows_count_as_well(server):
    limit(server, max_queue_depth=1)
    steps = [{"type": "a.b", "args": []}] * 2

    assert "max_queue_depth" == refused(
        server.post("/ojs/v1/workflows", {"type": "group", "jobs": steps}, **TENANT)
    )
    assert [] == server.fetch("default", **TENANT)


def test_limits_are_replaced_changed_and_taken_away(server):
    put = server.put("/ojs/v1/admin/tenants/acme", {"limits": {"max_concurrency": 2, "max_queue_depth": 5}})
    assert (200, {"max_concurrency": 2, "max_queue_depth": 5}) == (put.status, put["limits"])
    assert {"max_concurrency": 4, "max_queue_depth": 5} == limit(server, max_concurrency=4)["limits"]
    assert {"max_concurrency": 4, "max_queue_depth": 5} == server.get("/ojs/v1/admin/tenants/acme")["limits"]
    assert 200 == server.delete("/ojs/v1/admin/tenants/acme").status
    assert {} == server.get("/ojs/v1/admin/tenants/acme")["limits"]
    assert 201 == add(server, count=9).status
    assert 9 == len(server.fetch("mail", count=10, **TENANT))
    assert 404 == server.delete("/ojs/v1/admin/tenants/acme").status


@pytest.mark.parametrize(
    "limits",
    [{"max_concurrency": -1}, {"max_enqueue_rate": {"limit": 1}}, {"max_enqueue_rate": {"limit": 1, "period": "x"}}],
)  # fmt: skip
def test_limits_that_make_no_sense_are_refused(server, limits):
    answer = server.put("/ojs/v1/admin/tenants/acme/limits", limits)

    assert 400 == answer.status
    assert answer["error"]["details"]["field"].startswith(next(iter(limits)))
    assert {} == server.get("/ojs/v1/admin/tenants/acme")["limits"]


def test_a_tenant_changes_no_limits_and_no_maintenance(tmp_path):
    with guarded(tmp_path, "acme-token-0123456789 tenant=acme") as server:
        me = {"Authorization": "Bearer acme-token-0123456789"}

        assert 403 == server.put("/ojs/v1/admin/tenants/acme/limits", {"max_concurrency": 9}, **me).status
        assert 403 == server.post("/ojs/v1/admin/system/maintenance", {"enabled": True}, **me).status
        assert 404 == server.get("/ojs/v1/admin/tenants/other/stats", **me).status
        assert 200 == server.get("/ojs/v1/admin/tenants/acme/stats", **me).status
        assert [] == server.get("/ojs/v1/admin/tenants", **me)["items"]


def test_what_was_decided_outlives_the_server(tmp_path):
    with served(tmp_path / "jobs.db") as server:
        limit(server, max_concurrency=1, max_queue_depth=2)
        server.post("/ojs/v1/admin/system/maintenance", {"enabled": True})
        server.kill()
        server.restart()

        assert 201 == add(server, count=2).status
        assert "max_queue_depth" == refused(add(server))
        assert [] == server.fetch("mail", **TENANT)
        server.post("/ojs/v1/admin/system/maintenance", {"enabled": False})
        assert 1 == len(server.fetch("mail", count=2, **TENANT))
