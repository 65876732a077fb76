"""What operators see and do, over HTTP."""

import time

import pytest

from tests.support.server import served

FAILS = {"retry": {"max_attempts": 1}}
NOBODY = "0197a0d2-5f7c-7c3e-9d3a-2b1f0c4d5e6f"


def add(server, queue="mail", type_="mail.send", **options):
    return server.enqueue({"type": type_, "args": [], "options": {"queue": queue, **options}})


def one_of_each(server):
    """Have a job in each state; return them by state."""
    jobs = {name: add(server, **FAILS) for name in ("completed", "discarded")}
    for name in ("completed", "discarded"):
        (job,) = server.fetch("mail")
        assert jobs[name]["id"] == job["id"]
        server.ack(job) if name == "completed" else server.nack(job)
    jobs["retryable"] = add(server, retry={"initial_interval": "PT1H"})
    server.nack(server.fetch("mail")[0])
    jobs["active"] = add(server)
    server.fetch("mail")
    jobs["cancelled"] = add(server)
    server.delete(f"/ojs/v1/jobs/{jobs['cancelled']['id']}")
    jobs["scheduled"] = add(server, delay_until="+PT1H")
    jobs["available"] = add(server)
    return jobs


def test_stats_tell_of_everything(server):
    one_of_each(server)
    server.post("/ojs/v1/workers/heartbeat", {"worker_id": "w1", "active_jobs": []})

    stats = server.get("/ojs/v1/admin/stats")

    counted = {name: number for name, number in stats["jobs"].items() if number}
    states = ("completed", "discarded", "retryable", "active", "cancelled", "scheduled", "available")
    assert dict.fromkeys(states, 1) == counted
    assert (1, 1) == (stats["queues"], stats["workers"])
    assert {"processed_per_minute": 1, "failed_per_minute": 1} == stats["throughput"]
    assert stats["uptime_seconds"] > 0


def test_queues_are_listed_with_what_is_in_them(server):
    add(server, "a"), add(server, "b"), add(server, "b")
    server.post("/ojs/v1/admin/queues/c/pause")

    listed = server.get("/ojs/v1/admin/queues?per_page=2")
    seen = server.get("/ojs/v1/admin/queues/b")

    assert [("a", 1), ("b", 2)] == [(one["name"], one["counts"]["available"]) for one in listed["items"]]
    assert (3, 1, 2) == tuple(listed["pagination"][name] for name in ("total", "page", "per_page"))
    assert ("b", "active", False) == tuple(seen[name] for name in ("name", "state", "paused"))
    assert 2 == seen["counts"]["available"]
    (last,) = server.get("/ojs/v1/admin/queues?per_page=2&page=2")["items"]
    assert ("c", "paused", True) == (last["name"], last["state"], last["paused"])


def test_a_paused_queue_hands_out_nothing(server):
    add(server)

    paused = server.post("/ojs/v1/admin/queues/mail/pause")
    assert (200, "mail", True) == (paused.status, paused["name"], paused["paused"])
    assert [] == server.fetch("mail")
    resumed = server.post("/ojs/v1/admin/queues/mail/resume")
    assert (200, "mail", False) == (resumed.status, resumed["name"], resumed["paused"])
    assert 1 == len(server.fetch("mail"))


def test_jobs_are_found_by_each_state(server):
    for state, job in one_of_each(server).items():
        found = server.get(f"/ojs/v1/admin/jobs?state={state}")

        assert ([job["id"]], 1) == ([one["id"] for one in found["items"]], found["pagination"]["total"]), (
            state
        )
        assert state == found["items"][0]["state"]


def test_jobs_are_found_by_queue_type_and_time(server):
    add(server, "a", "mail.send"), add(server, "b", "mail.read"), add(server, "b", "film.cut")

    def found(query):
        return sorted(one["type"] for one in server.get(f"/ojs/v1/admin/jobs?{query}")["items"])

    assert ["film.cut", "mail.read"] == found("queue=b")
    assert ["mail.read", "mail.send"] == found("type=mail.*")
    assert ["film.cut"] == found("type=film.cut")
    assert [] == found("since=2099-01-01T00:00:00Z")
    assert 3 == len(found("until=2099-01-01T00:00:00Z"))
    assert ["film.cut"] == found("per_page=1")
    assert ["mail.send"] == found("per_page=1&page=3")


@pytest.mark.parametrize(
    "query", ["state=lost", "queue=No%20Queue", "type=%2A%2Ax", "since=yesterday", "page=0"]
)
def test_what_cannot_be_looked_for_is_refused(server, query):
    answer = server.get(f"/ojs/v1/admin/jobs?{query}")

    assert (400, query.partition("=")[0]) == (answer.status, answer["error"]["details"]["field"])


def test_one_job_is_shown_bare(server):
    job = add(server)

    seen = server.get(f"/ojs/v1/admin/jobs/{job['id']}")

    assert (200, job["id"], "available") == (seen.status, seen["id"], seen["state"])
    assert 404 == server.get(f"/ojs/v1/admin/jobs/{NOBODY}").status


def test_one_job_is_cancelled_and_tried_again(server):
    job = add(server)

    assert "cancelled" == server.post(f"/ojs/v1/admin/jobs/{job['id']}/cancel")["state"]
    assert 409 == server.post(f"/ojs/v1/admin/jobs/{job['id']}/cancel").status
    assert "available" == server.post(f"/ojs/v1/admin/jobs/{job['id']}/retry")["state"]
    assert 409 == server.post(f"/ojs/v1/admin/jobs/{job['id']}/retry").status


@pytest.mark.parametrize("action", ["retry", "cancel", "delete"])
@pytest.mark.parametrize("body", [{"filter": {}}, {"filter": {}, "confirm": False}, {}])
def test_nothing_happens_to_many_jobs_unless_it_is_meant(server, action, body):
    job = add(server)

    answer = server.post(f"/ojs/v1/admin/jobs/bulk/{action}", body)

    assert (400, "confirm") == (answer.status, answer["error"]["details"]["field"])
    assert "available" == server.job(job)["state"]


def test_many_jobs_at_once(server):
    jobs = one_of_each(server)

    def bulk(action, **chosen):
        answer = server.post(f"/ojs/v1/admin/jobs/bulk/{action}", {"confirm": True, **chosen})
        assert 200 == answer.status, answer.body
        return tuple(answer[name] for name in ("action", "matched", "succeeded", "failed"))

    assert ("retry", 1, 1, 0) == bulk("retry", filter={"state": "discarded", "queue": "mail"})
    assert "available" == server.job(jobs["discarded"])["state"]
    assert ("delete", 1, 1, 0) == bulk("delete", filter={"state": "completed"})
    assert 404 == server.get(f"/ojs/v1/jobs/{jobs['completed']['id']}").status
    assert ("cancel", 2, 2, 0) == bulk("cancel", filter={"state": "available"})
    assert ("cancel", 2, 1, 1) == bulk("cancel", job_ids=[jobs["scheduled"]["id"], NOBODY])
    assert ("retry", 1, 0, 1) == bulk("retry", filter={"state": "active"})
    assert ["job.retry 1", "job.forget 1", "job.cancel 2", "job.cancel 1", "job.retry 0"] == bulk_changes(
        server
    )
    assert 400 == server.post("/ojs/v1/admin/jobs/bulk/retry", {"confirm": True}).status
    assert (
        400 == server.post("/ojs/v1/admin/jobs/bulk/retry", {"confirm": True, "filter": {"stat": "x"}}).status
    )


def test_a_queue_is_purged_of_what_has_ended(server):
    jobs = one_of_each(server)

    def purge(**body):
        return server.call(
            "DELETE", "/ojs/v1/admin/queues/mail/jobs", {"states": ["completed", "discarded"], **body}
        )

    assert 400 == purge().status
    assert 0 == purge(confirm=True, older_than="2001-01-01T00:00:00Z")["purged_count"]
    assert 2 == purge(confirm=True)["purged_count"]
    assert 404 == server.get(f"/ojs/v1/jobs/{jobs['discarded']['id']}").status
    assert "cancelled" == server.job(jobs["cancelled"])["state"]


def test_workers_are_listed_with_a_summary(server):
    facts = {"hostname": "h1", "pid": 7, "queues": ["mail"], "concurrency": 3}
    server.post("/ojs/v1/workers/heartbeat", {"worker_id": "w1", "active_jobs": [], **facts})
    server.post("/ojs/v1/workers/beat", {"worker_id": "w2", "state": "drain", "active_jobs": 2})
    server.fetch("mail", worker_id="w3")

    listed = server.get("/ojs/v1/admin/workers")

    assert [("w1", "running"), ("w2", "draining"), ("w3", "running")] == [
        (one["id"], one["state"]) for one in listed["items"]
    ]
    assert facts == {name: listed["items"][0][name] for name in facts}
    assert 2 == listed["items"][1]["active_jobs"]
    assert {"total": 3, "running": 2, "quiet": 1, "stale": 0} == listed["summary"]
    assert "h1" == server.get("/ojs/v1/admin/workers/w1")["hostname"]
    assert 404 == server.get("/ojs/v1/admin/workers/w9").status
    assert 409 == server.delete("/ojs/v1/admin/workers/w1").status


@pytest.mark.parametrize("wanted", ["quiet", "terminate"])
def test_a_worker_is_told_what_to_do_and_gets_no_more_jobs(server, wanted):
    beat = {"worker_id": "w1", "active_jobs": []}
    server.post("/ojs/v1/workers/heartbeat", beat)
    add(server)

    assert wanted == server.post(f"/ojs/v1/admin/workers/w1/{wanted}")["directive"]
    assert wanted == server.post("/ojs/v1/workers/heartbeat", beat)["state"]
    assert [] == server.fetch("mail", worker_id="w1")
    server.post("/ojs/v1/admin/workers/w1/resume")
    assert "running" == server.post("/ojs/v1/workers/heartbeat", beat)["state"]
    assert 1 == len(server.fetch("mail", worker_id="w1"))


def test_a_drained_worker_gets_no_more_jobs_until_it_runs_again(server):
    add(server)
    beat = server.post("/ojs/v1/workers/beat", {"worker_id": "w1", "state": "drain", "active_jobs": 2})
    assert (200, True) == (beat.status, beat["acknowledged"])

    health = server.get("/ojs/v1/workers/w1/health")
    assert health.status in (200, 503)
    assert health["state"] in ("drain", "draining", "shutting_down")
    assert [] == server.fetch("mail", worker_id="w1")
    server.post("/ojs/v1/workers/beat", {"worker_id": "w1", "state": "running", "active_jobs": 0})
    assert 1 == len(server.fetch("mail", worker_id="w1"))
    assert "running" == server.get("/ojs/v1/workers/w1/health")["state"]
    assert 404 == server.get("/ojs/v1/workers/w9/health").status


def test_a_worker_may_be_busy_like_any_other(server):
    add(server)
    server.post("/ojs/v1/workers/heartbeat", {"worker_id": "w1", "state": "busy", "active_job_ids": []})

    assert 1 == len(server.fetch("mail", worker_id="w1"))
    assert 1 == server.get("/ojs/v1/admin/workers")["summary"]["running"]


def test_other_workers_go_on_while_one_is_drained(server):
    add(server)
    server.post("/ojs/v1/workers/beat", {"worker_id": "w1", "state": "drain", "active_jobs": 0})

    assert 1 == len(server.fetch("mail", worker_id="w2"))


def test_during_maintenance_jobs_are_taken_in_but_not_handed_out(server):
    body = {"enabled": True, "reason": "moving house", "estimated_duration": "PT30M"}
    begun = server.post("/ojs/v1/admin/system/maintenance", body)
    add(server)

    assert (200, True, "moving house") == (begun.status, begun["maintenance"], begun["reason"])
    assert begun["estimated_end"] > begun["enabled_at"]
    assert [] == server.fetch("mail")
    assert server.get("/ojs/v1/admin/system/maintenance")["maintenance"]
    assert not server.post("/ojs/v1/admin/system/maintenance", {"enabled": False})["maintenance"]
    assert 1 == len(server.fetch("mail"))


def test_workers_of_our_own_kind_get_nothing_during_maintenance(server):
    add(server)
    take = {"queues": ["mail"], "count": 5, "worker": "w", "lease": 15_000_000, "grace": 50_000}
    server.put("/ojs/v1/admin/maintenance", {"enabled": True})

    assert [] == server.post("/penstock/v1/claim", take)["jobs"]
    assert [] == server.post("/penstock/v1/exchange", {"reports": [], "take": take})["claim"]["jobs"]
    server.put("/ojs/v1/admin/maintenance", {"enabled": False})
    assert 1 == len(server.post("/penstock/v1/claim", take)["jobs"])


def test_a_fetch_during_maintenance_waits_rather_than_asks_again_at_once(server):
    server.put("/ojs/v1/admin/maintenance", {"enabled": True})
    add(server)
    began = time.monotonic()

    assert [] == server.fetch("mail", wait_ms=400)
    assert 0.35 < time.monotonic() - began


def test_a_fetch_without_a_tenant_means_the_queues_of_all_tenants(server):
    add(server)
    theirs = server.enqueue({"type": "a.b", "args": [], "options": {"queue": "mail"}}, X_OJS_Tenant="acme")

    server.post("/ojs/v1/admin/queues/mail/pause")
    assert [] == server.fetch("mail", X_OJS_Tenant="acme")
    server.post("/ojs/v1/admin/queues/mail/resume")
    assert theirs["id"] == server.fetch("mail", X_OJS_Tenant="acme")[0]["id"]
    assert 2 == server.get("/ojs/v1/admin/jobs?queue=mail")["pagination"]["total"]
    assert 1 == server.get("/ojs/v1/admin/jobs?queue=mail", X_OJS_Tenant="acme")["pagination"]["total"]
    done = server.post("/ojs/v1/admin/jobs/bulk/cancel", {"confirm": True, "filter": {"queue": "mail"}})
    assert (2, 2) == (done["matched"], done["succeeded"])


def test_two_servers_of_one_store_soon_agree(server, address):
    with served(address) as other:
        add(server)
        other.post("/ojs/v1/workers/heartbeat", {"worker_id": "w1", "active_jobs": []})
        server.post("/ojs/v1/workers/heartbeat", {"worker_id": "w1", "active_jobs": []})
        server.post("/ojs/v1/admin/system/maintenance", {"enabled": True})
        server.post("/ojs/v1/admin/workers/w1/quiet")
        beat = {"worker_id": "w1", "active_jobs": []}
        other.until(lambda: other.post("/ojs/v1/workers/heartbeat", beat)["state"] == "quiet")
        assert [] == other.fetch("mail")
        server.post("/ojs/v1/admin/system/maintenance", {"enabled": False})
        assert 1 == len(other.until(lambda: other.fetch("mail")))


def test_a_tenants_operator_sees_only_its_own(server):
    add(server)
    server.enqueue({"type": "a.b", "args": [], "options": {"queue": "own"}}, X_OJS_Tenant="acme")
    server.post("/ojs/v1/workers/heartbeat", {"worker_id": "w1", "active_jobs": []})

    stats = server.get("/ojs/v1/admin/stats", X_OJS_Tenant="acme")
    assert (1, 0, 1) == (stats["queues"], stats["workers"], stats["jobs"]["available"])
    assert ["own"] == [q["name"] for q in server.get("/ojs/v1/admin/queues", X_OJS_Tenant="acme")["items"]]
    assert ["a.b"] == [one["type"] for one in server.get("/ojs/v1/admin/jobs", X_OJS_Tenant="acme")["items"]]
    assert [] == server.get("/ojs/v1/admin/workers", X_OJS_Tenant="acme")["items"]
    assert 404 == server.post("/ojs/v1/admin/workers/w1/quiet", X_OJS_Tenant="acme").status
    done = server.post("/ojs/v1/admin/jobs/bulk/cancel", {"confirm": True, "filter": {}}, X_OJS_Tenant="acme")
    assert 1 == done["matched"]


def bulk_changes(server):
    """Return which bulk operations were written down, and how many jobs each touched."""
    found = server.post("/penstock/v1/audit", {"kind": "jobs"}).body
    return [f"{entry['verb']} {entry['touched']}" for entry in reversed(found)]
