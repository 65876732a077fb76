"""What the rate limiting extension demands of a server, row by row, on every store, over HTTP.

Each test fails on a server that ignores its row.
"""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from tests.support.server import guarded
from tests.support.timing import at_once

FETCHERS = 24
SECOND = timedelta(seconds=1)


def a_job(queue="q", kind="api.call", **limit):
    body = {"type": kind, "args": [], "options": {"queue": queue}}
    if limit:
        body["options"]["rate_limit"] = limit
    return body


def fill(server, count, body):
    """Enqueue *count* jobs alike, one after the other; return them."""
    return [server.enqueue(body) for _ in range(count)]


def ids(jobs):
    return [job["id"] for job in jobs]


def when(text):
    return datetime.fromisoformat(text)


def test_rl_001_no_more_than_its_slots_are_assigned_to_workers_that_ask_at_once(server):
    fill(server, 40, a_job(key="db", concurrency=3))

    taken = [job for jobs in at_once(FETCHERS, lambda _: server.fetch("q", count=8)) for job in jobs]

    assert 3 == len(taken) == len(set(ids(taken)))
    assert [] == server.fetch("q", count=8)


def test_rl_001_a_fetch_of_eight_on_a_key_with_three_slots_gets_three(server):
    server.post("/ojs/v1/jobs/batch", {"jobs": [a_job(key="db", concurrency=3) for _ in range(10)]})

    assert 3 == len(server.fetch("q", count=8))


def test_rl_001_an_ack_a_nack_and_a_lost_worker_each_free_one_slot(server):
    added = fill(server, 6, a_job(key="db", concurrency=2))
    first, second = server.fetch("q", count=8)
    assert [] == server.fetch("q")

    server.ack(first)
    (third,) = server.fetch("q", count=8, visibility_timeout_ms=300)
    server.nack(second, {"retryable": False})
    (fourth,) = server.fetch("q", count=8)
    assert [] == server.fetch("q")
    # Nothing is heard of the third any more.
    (again,) = server.until(lambda: server.fetch("q", count=8))

    assert ids(added[:4]) == ids([first, second, third, fourth])
    assert third["id"] == again["id"]
    assert ["LeaseLost"] == [error["code"] for error in again["errors"]]
    assert 2 == again["attempt"]


def test_rl_001_cancelling_an_active_job_keeps_its_slot_until_its_worker_lets_go(server):
    server.enqueue(a_job(key="db", concurrency=1))
    waiting = server.enqueue(a_job(key="db", concurrency=1))
    (job,) = server.fetch("q")

    assert "cancelled" == server.delete(f"/ojs/v1/jobs/{job['id']}")["job"]["state"]
    assert [] == server.fetch("q")
    answer = server.post("/ojs/v1/workers/ack", {"job_id": job["id"]})

    assert (409, "conflict") == (answer.status, answer["error"]["code"])
    assert [waiting["id"]] == ids(server.fetch("q", count=8))
    assert "cancelled" == server.job(job)["state"]


def test_rl_001_nothing_starts_at_a_concurrency_of_0(server):
    server.enqueue(a_job(key="db", concurrency=0))

    assert [] == server.fetch("q")


def test_rl_002_jobs_with_one_key_share_their_counters_and_other_keys_have_their_own(server):
    for key in ("a", "a", "b", "b"):
        server.enqueue(a_job(key=key, concurrency=1))

    jobs = server.fetch("q", count=8)

    assert ["a", "b"] == [job["rate_limit"]["key"] for job in map(server.job, jobs)]


def test_rl_002_a_key_is_shared_by_types_and_queues(server):
    server.enqueue(a_job("left", "some.type", key="shared", concurrency=1))
    server.enqueue(a_job("right", "other.type", key="shared", concurrency=1))

    assert 1 == len(server.fetch("left", "right", count=8))


def test_rl_002_a_key_shared_with_a_queue_nobody_serves_does_not_stop_the_served_queue(server):
    for _ in range(3):
        server.enqueue(a_job("idle", key="shared", concurrency=1))
        server.enqueue(a_job("served", key="shared", concurrency=1))

    done = []
    for _ in range(3):
        (job,) = server.fetch("served", count=8)
        done.append(job)
        server.ack(job)

    assert ["served"] * 3 == [job["queue"] for job in done]


def test_rl_003_what_is_limited_stays_available_and_is_dispatched_later(server):
    server.enqueue(a_job(key="db", concurrency=1))
    waiting = server.enqueue(a_job(key="db", concurrency=1, on_limit="wait"))
    default = server.enqueue(a_job(key="db", concurrency=1))
    (job,) = server.fetch("q", count=8)

    held = [server.job(waiting), server.job(default)]
    server.ack(job)
    (next_one,) = server.fetch("q", count=8)

    assert [("available", 0)] * 2 == [(each["state"], each["attempt"]) for each in held]
    assert waiting["id"] == next_one["id"]


def test_rl_004_the_next_eligible_job_is_assigned_instead(server):
    for _ in range(3):
        server.enqueue(a_job(key="db", concurrency=1) | {"args": ["limited"]})
    other = server.enqueue(a_job(key="mail", concurrency=1))
    free = server.enqueue(a_job())
    server.fetch("q")

    assert [other["id"]] == ids(server.fetch("q"))
    assert [free["id"]] == ids(server.fetch("q"))
    assert [] == server.fetch("q")


def test_rl_004_a_limited_job_of_higher_priority_does_not_stop_a_lower_one(server):
    server.enqueue(a_job(key="db", concurrency=1))
    server.fetch("q")
    limited = a_job(key="db", concurrency=1)
    limited["options"]["priority"] = 50
    high = server.enqueue(limited)
    low = server.enqueue(a_job())

    assert [low["id"]] == ids(server.fetch("q", count=8))
    assert "available" == server.job(high)["state"]


def test_rl_005_a_key_can_be_looked_at_right_after_the_first_enqueue_that_names_it(server):
    limit = {
        "key": "stripe-api",
        "concurrency": 5,
        "rate": {"limit": 100, "period": "PT1M"},
        "throttle": {"limit": 10, "period": "PT1S"},
    }
    server.enqueue(a_job(**limit))

    state = server.get("/ojs/v1/rate-limits/stripe-api").body

    assert ("stripe-api", 1) == (state["key"], state["waiting_count"])
    assert {"limit": 5, "active": 0, "available": 5} == state["concurrency"]
    assert (100, "PT1M", 0) == tuple(state["rate"][name] for name in ("limit", "period", "current_count"))
    assert (10, "PT1S") == tuple(state["throttle"][name] for name in ("limit", "period"))


def test_rl_005_the_numbers_follow_what_happens(server):
    limit = {"key": "api", "concurrency": 3, "rate": {"limit": 10, "period": "PT1H"}}
    fill(server, 5, a_job(**limit))
    first, *_ = server.fetch("q", count=8)
    began = datetime.now(UTC)

    busy = server.get("/ojs/v1/rate-limits/api").body
    server.ack(first)
    freed = server.get("/ojs/v1/rate-limits/api").body

    assert ({"limit": 3, "active": 3, "available": 0}, 2) == (busy["concurrency"], busy["waiting_count"])
    assert 3 == busy["rate"]["current_count"]
    assert abs(when(busy["rate"]["window_resets_at"]) - began - 3600 * SECOND) < 5 * SECOND
    assert ({"limit": 3, "active": 2, "available": 1}, 2) == (freed["concurrency"], freed["waiting_count"])
    assert 3 == freed["rate"]["current_count"]


def test_rl_005_a_key_keeps_showing_its_numbers_when_nobody_waits_any_more(server):
    server.enqueue(a_job(key="api", rate={"limit": 10, "period": "PT1H"}))
    server.ack(server.fetch("q")[0])
    time.sleep(1)  # empty lanes are swept meanwhile

    state = server.get("/ojs/v1/rate-limits/api").body

    assert (10, 1, 0) == (state["rate"]["limit"], state["rate"]["current_count"], state["waiting_count"])


def test_rl_005_a_key_of_jobs_that_are_not_due_yet_can_be_looked_at(server):
    later = a_job(key="later", concurrency=2)
    later["options"]["delay_until"] = "+PT1H"
    server.enqueue(later)

    state = server.get("/ojs/v1/rate-limits/later").body

    assert ({"limit": 2, "active": 0, "available": 2}, 0) == (state["concurrency"], state["waiting_count"])


def test_rl_005_a_key_that_nobody_named_is_not_there(server):
    assert (404, "not_found") == _code(server.get("/ojs/v1/rate-limits/nobody"))


def test_rl_005_keys_with_dots_and_colons_are_found_quoted_or_not(server):
    server.enqueue(a_job(key="tenant:acme:api.stripe", concurrency=1))

    for path in ("tenant:acme:api.stripe", "tenant%3Aacme%3Aapi%2Estripe"):
        assert "tenant:acme:api.stripe" == server.get(f"/ojs/v1/rate-limits/{path}")["key"]


def test_rl_005_keys_are_listed_page_by_page_with_flat_fields_beside(server):
    for n in range(5):
        server.enqueue(a_job(key=f"key-{n}", rate={"limit": 7, "period": "PT1M"}))
    server.fetch("q")

    pages = [server.get(f"/ojs/v1/rate-limits?page={page}&per_page=2").body for page in (1, 2, 3, 4)]

    assert [["key-0", "key-1"], ["key-2", "key-3"], ["key-4"], []] == [
        [item["key"] for item in page["items"]] for page in pages
    ]
    assert {(5, 2)} == {(page["pagination"]["total"], page["pagination"]["per_page"]) for page in pages}
    first, second = pages[0]["items"]
    assert (7, "PT1M", 1, 0) == tuple(first[name] for name in ("limit", "period", "active", "waiting"))
    assert (7, "PT1M", 0, 1) == tuple(second[name] for name in ("limit", "period", "active", "waiting"))


def test_rl_005_a_tenant_sees_its_own_keys_only(server):
    server.enqueue(a_job(key="api", concurrency=1), X_OJS_Tenant="acme")
    server.enqueue(a_job(key="api", concurrency=2), X_OJS_Tenant="globex")

    def limit(tenant):
        answer = server.get("/ojs/v1/rate-limits/api", X_OJS_Tenant=tenant)
        return answer["concurrency"]["limit"] if answer.status == 200 else answer.status

    assert [1, 2, 404] == [limit(tenant) for tenant in ("acme", "globex", "initech")]
    listed = server.get("/ojs/v1/rate-limits", X_OJS_Tenant="acme").body
    assert ["api"] == [item["key"] for item in listed["items"]]
    assert ["acme", "globex"] == sorted(
        item["tenant_id"] for item in server.get("/ojs/v1/rate-limits")["items"]
    )


def test_a_tenant_has_its_own_keys_unless_their_scope_is_global(server):
    for tenant in ("acme", "globex"):
        server.enqueue(a_job("own", key="api", concurrency=1), X_OJS_Tenant=tenant)
        server.enqueue(a_job("all", key="api", concurrency=1, scope="global"), X_OJS_Tenant=tenant)

    assert 2 == len(server.fetch("own", count=8))
    (job,) = server.fetch("all", count=8)
    assert "global" == server.job(job)["rate_limit"]["scope"]
    assert 1 == server.get("/ojs/v1/rate-limits/api")["concurrency"]["active"]


def test_a_token_that_speaks_for_one_tenant_names_no_key_of_all(tmp_path):
    with guarded(tmp_path, "acme-token-0123456789 tenant=acme") as bound:
        me = {"Authorization": "Bearer acme-token-0123456789"}
        shared = a_job(key="api", concurrency=1, scope="global")
        cron = {"name": "x", "expression": "@daily", "job_template": shared}
        flow = {"type": "chain", "steps": [shared]}

        bodies = {"jobs": shared, "jobs/batch": {"jobs": [shared]}, "cron": cron, "workflows": flow}

        for path, body in bodies.items():
            assert 403 == bound.post(f"/ojs/v1/{path}", body, **me).status, path


def test_rl_006_there_are_events_when_a_job_is_held_and_when_it_may_go(server):
    server.enqueue(a_job(key="db", concurrency=1))
    held = server.enqueue(a_job(key="db", concurrency=1))
    (job,) = server.fetch("q", count=8)

    def events(kind):
        answer = server.get(f"/ojs/v1/events?types={kind}&limit=100")
        return [event["data"] for event in answer["events"]]

    assert [[]] * 5 == [server.fetch("q", count=8) for _ in range(5)]
    (exceeded,) = server.until(lambda: events("rate_limit.exceeded"), 5)
    assert [] == events("rate_limit.released")
    server.ack(job)
    server.fetch("q")
    (released,) = server.until(lambda: events("rate_limit.released"), 5)

    assert ("db", "concurrency", 1, 1) == tuple(exceeded[n] for n in ("key", "strategy", "limit", "current"))
    assert ("db", "concurrency", held["id"]) == tuple(released[n] for n in ("key", "strategy", "job_id"))


@pytest.mark.parametrize("first", [True, False], ids=["enqueue then fetch", "fetch then enqueue"])
def test_rl_006_every_job_that_is_held_has_its_events(server, first):
    jobs = fill(server, 5 if first else 1, a_job(key="db", concurrency=1))
    server.fetch("q", count=8)
    if not first:
        batch = {"jobs": [a_job(key="db", concurrency=1) for _ in range(4)]}
        jobs += server.post("/ojs/v1/jobs/batch", batch)["jobs"]

    def events(kind):
        answer = server.get(f"/ojs/v1/events?types={kind}&limit=100")
        return [event["data"]["job_id"] for event in answer["events"]]

    server.until(lambda: sorted(events("rate_limit.exceeded")) == ids(jobs[1:]), 5)
    for job in jobs:
        server.ack(job)
        server.fetch("q", count=8)
    server.until(lambda: sorted(events("rate_limit.released")) == ids(jobs[1:]), 5)
    assert sorted(events("rate_limit.exceeded")) == ids(jobs[1:])


def test_a_dropped_job_has_both_events(server):
    job = server.enqueue(a_job(key="db", concurrency=0, on_limit="drop"))

    for kind in ("rate_limit.exceeded", "rate_limit.dropped"):
        (event,) = server.until(lambda kind=kind: server.get(f"/ojs/v1/events?types={kind}")["events"], 5)
        assert ("db", job["id"]) == (event["data"]["key"], event["data"]["job_id"])


def test_rl_r001_no_window_holds_more_starts_than_the_rate(server):
    fill(server, 30, a_job(key="api", rate={"limit": 5, "period": "PT0.6S"}))

    jobs = _fetched_by_many(server, 15)

    starts = sorted(when(job["started_at"]) for job in jobs)
    assert [] == [gap for gap in _apart(starts, 5) if gap < 0.6 * SECOND]
    # All five may start at once, and nothing is lost.
    assert starts[4] - starts[0] < 0.4 * SECOND
    assert starts[14] - starts[0] < 20 * SECOND


def test_rl_r001_a_retry_is_a_start_too(server):
    body = a_job(key="api", rate={"limit": 1, "period": "PT1H"})
    body["options"]["retry"] = {"max_attempts": 3, "initial_interval": "PT0.1S", "jitter": False}
    job = server.enqueue(body)
    server.nack(server.fetch("q")[0])
    server.until(lambda: server.job(job)["state"] == "available")

    assert [] == server.fetch("q")


def test_rl_r002_starts_are_evenly_spaced(server):
    fill(server, 12, a_job(key="api", throttle={"limit": 10, "period": "PT1S"}))

    jobs = _fetched_by_many(server, 8)

    starts = sorted(when(job["started_at"]) for job in jobs)
    assert [] == [gap for gap in _apart(starts, 1) if gap < 0.1 * SECOND]
    assert starts[-1] - starts[0] < 20 * SECOND


def test_rl_r002_idleness_earns_no_burst(server):
    server.enqueue(a_job(key="api", throttle={"limit": 1, "period": "PT30S"}))
    server.ack(server.fetch("q")[0])
    fill(server, 3, a_job(key="calm", throttle={"limit": 60, "period": "PT30S"}))
    time.sleep(1)

    assert 1 == len(server.fetch("q", count=8))


def test_rl_r003_a_handler_that_met_a_429_keeps_its_key_shut_until_then(server):
    # Moments are shown in milliseconds, rounded down.
    until = (datetime.now(UTC) + 4 * SECOND).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    for key in ("stripe", "stripe", "other"):
        body = a_job(key=key, concurrency=9)
        body["options"]["retry"] = {"initial_interval": "PT1S", "jitter": False}
        server.enqueue(body)
    (job,) = server.fetch("q")

    failed = server.nack(job, {"type": "RateLimitExceeded", "rate_limit_until": until})
    meanwhile = server.fetch("q", count=8)
    shown = server.get("/ojs/v1/rate-limits/stripe").body
    later = server.until(lambda: server.fetch("q", count=8))

    assert "retryable" == failed["state"]
    assert ["other"] == [each["rate_limit"]["key"] for each in map(server.job, meanwhile)]
    assert abs(when(shown["rate_limit_until"]) - when(until)) < timedelta(milliseconds=2)
    assert all(when(each["started_at"]) >= when(until) for each in later)


def test_rl_r003_only_the_keys_of_the_job_are_shut(server):
    until = (datetime.now(UTC) + 60 * SECOND).isoformat().replace("+00:00", "Z")
    both = a_job()
    both["options"]["rate_limit"] = [{"key": "stripe", "concurrency": 9}, {"key": "db", "concurrency": 9}]
    acme = {"X_OJS_Tenant": "acme"}
    for _ in range(2):
        server.enqueue(both, **acme)
    for body in (a_job(), a_job(key="stripe", concurrency=9), a_job(key="db", concurrency=9)):
        server.enqueue(body, **acme)
    (job,) = server.fetch("q", **acme)

    answer = server.nack(job, {"rate_limit_until": until, "rate_limit_key": "stripe"}, **acme)
    other_keys = server.fetch("q", count=8, **acme)
    requeued = {"job_id": other_keys[-1]["id"], "error": {"rate_limit_until": until}, "requeue": True}
    server.post("/ojs/v1/workers/nack", requeued, **acme)
    states = [server.get(f"/ojs/v1/rate-limits/{key}", **acme).body for key in ("stripe", "db")]

    assert "retryable" == answer["state"]
    assert [None, "db"] == [server.job(each).get("rate_limit", {}).get("key") for each in other_keys]
    assert all("rate_limit_until" in state for state in states)
    assert [] == server.fetch("q", count=8, **acme)
    server.enqueue(a_job(), **acme)
    assert 1 == len(server.fetch("q", count=8, **acme))


def test_rl_r004_an_override_beats_the_jobs_own_numbers_until_it_expires(server):
    fill(server, 6, a_job(key="api", concurrency=2))
    until = (datetime.now(UTC) + 1.5 * SECOND).isoformat().replace("+00:00", "Z")

    answer = server.put("/ojs/v1/rate-limits/api", {"concurrency": 0, "expires_at": until})
    meanwhile = server.fetch("q", count=8)
    later = server.until(lambda: server.fetch("q", count=8))

    assert (200, 0) == (answer.status, answer["concurrency"]["limit"])
    assert 0 == answer["override"]["concurrency"]
    assert ([], 2) == (meanwhile, len(later))
    assert datetime.now(UTC) >= when(until)
    assert "override" not in server.get("/ojs/v1/rate-limits/api").body


def test_rl_r004_an_override_can_be_ended(server):
    for path in ("/ojs/v1/rate-limits/api/override", "/ojs/v1/rate-limits/api"):
        server.enqueue(a_job(key="api", concurrency=9))
        server.put("/ojs/v1/rate-limits/api", {"concurrency": 0})
        assert [] == server.fetch("q")

        assert 200 == server.delete(path).status
        assert 1 == len(server.fetch("q"))
    assert (404, "not_found") == _code(server.delete("/ojs/v1/rate-limits/nobody/override"))


def test_rl_r004_an_override_of_one_number_leaves_the_others(server):
    fill(server, 6, a_job(key="api", concurrency=4, rate={"limit": 3, "period": "PT1H"}))

    answer = server.put("/ojs/v1/rate-limits/api", {"concurrency": 2}).body

    assert (2, 3) == (answer["concurrency"]["limit"], answer["rate"]["limit"])
    assert 2 == len(server.fetch("q", count=8))


@pytest.mark.parametrize(
    ("limit", "change", "expected"),
    [
        ({"rate": {"limit": 1, "period": "PT1H"}}, {"limit": 3, "period": "PT1H"}, 3),
        ({"rate": {"limit": 1, "period": "PT1H"}}, {"limit": 3}, 3),
        ({"concurrency": 1}, {"limit": 3}, 3),
        ({"concurrency": 9}, {"limit": 2, "period": "hour"}, 2),
        ({"throttle": {"limit": 1, "period": "PT1H"}}, {"limit": 0}, 0),
    ],
)
def test_rl_r004_the_admin_pages_write_it_flat(server, limit, change, expected):
    fill(server, 6, a_job(key="api", **limit))
    until = "2099-01-01T00:00:00Z"

    answer = server.put("/ojs/v1/rate-limits/api", {**change, "expires_at": until}).body

    assert (change["limit"], until) == (answer["limit"], answer["override"]["expires_at"])
    assert expected == len(server.fetch("q", count=8))


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "body"),
        ({"concurrency": -1}, "concurrency"),
        ({"concurrency": 1.5}, "concurrency"),
        ({"rate": {"limit": 1}}, "rate.period"),
        ({"rate": {"limit": 1, "period": "soon"}}, "rate.period"),
        ({"concurrency": 1, "expires_at": "tomorrow"}, "expires_at"),
        ({"concurency": 1}, "body"),
        ({"limit": 1, "period": "P1Y"}, "period"),
    ],
)
def test_rl_r004_an_override_that_makes_no_sense_names_the_field(server, body, field):
    answer = server.put("/ojs/v1/rate-limits/api", body)

    assert (400, field) == (answer.status, answer["error"]["details"]["field"])


def test_rl_r005_a_queue_limit_holds_for_all_its_jobs_whatever_they_carry(server):
    answer = server.put(
        "/ojs/v1/admin/queues/email/rate-limit", {"concurrency": 3, "rate": {"limit": 1000, "period": "PT1H"}}
    )
    for n in range(8):
        server.enqueue(a_job("email", **({"key": "own", "concurrency": 99} if n % 2 else {})))

    taken = [job for jobs in at_once(8, lambda _: server.fetch("email", count=8)) for job in jobs]
    server.ack(taken[0])

    assert (200, 3) == (answer.status, answer["concurrency"])
    assert 3 == len(taken)
    assert 1 == len(server.fetch("email", count=8))
    assert 3 == server.get("/ojs/v1/admin/queues/email/rate-limit")["concurrency"]
    assert 200 == server.delete("/ojs/v1/admin/queues/email/rate-limit").status
    assert 4 == len(server.fetch("email", count=8))


def test_rl_r005_who_waits_for_a_job_gets_it_as_soon_as_the_queue_lets_it(server):
    server.put("/ojs/v1/admin/queues/email/rate-limit", {"concurrency": 1})
    server.enqueue(a_job("email"))
    server.enqueue(a_job("email"))
    (first,) = server.fetch("email")

    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(server.fetch, "email", wait_ms=20_000)
        time.sleep(0.5)
        assert not waiting.done()
        server.ack(first)
        began = time.monotonic()
        assert 1 == len(waiting.result(20))

    assert time.monotonic() - began < 10


def test_rl_r005_the_most_restrictive_of_queue_and_job_wins(server):
    server.put("/ojs/v1/admin/queues/email/rate-limit", {"concurrency": 5})
    for key in ("a",) * 4 + ("b",) * 8:
        server.enqueue(a_job("email", key=key, concurrency=2 if key == "a" else 99))

    jobs = [server.job(job)["rate_limit"]["key"] for job in server.fetch("email", count=12)]

    assert ["a", "a", "b", "b", "b"] == jobs


def test_rl_r005_a_queue_can_be_rated_through_its_config_and_a_type_through_its_own_limit(server):
    config = {"concurrency": 4, "rate_limit": {"limit": 2, "period": "PT1H"}}
    assert 200 == server.put("/ojs/v1/admin/queues/email/config", config).status
    assert 200 == server.put("/ojs/v1/admin/types/report.generate/rate-limit", {"concurrency": 1}).status
    for body in (a_job("email"), a_job("reports", "report.generate"), a_job("reports", "report.read")):
        fill(server, 4, body)

    assert 2 == len(server.fetch("email", count=8))
    reports = server.fetch("reports", count=8)
    assert ["report.generate"] + ["report.read"] * 4 == sorted(job["type"] for job in reports)
    shown = server.get("/ojs/v1/queues/email/config").body
    assert (4, 2) == (shown["concurrency"], shown["rate_limit"]["limit"])
    assert 1 == server.get("/ojs/v1/admin/types/report.generate/rate-limit")["concurrency"]


def test_reschedule_shows_when_the_limit_is_expected_to_let_it_start(server):
    limit = {"key": "api", "rate": {"limit": 1, "period": "PT1H"}, "on_limit": "reschedule"}
    jobs = fill(server, 2, a_job(**limit))
    server.fetch("q", count=8)

    second = server.job(jobs[1])

    assert "scheduled" == second["state"]
    assert abs(when(second["scheduled_at"]) - datetime.now(UTC) - 3600 * SECOND) < 5 * SECOND


SHUT = {
    "slots": {"concurrency": 1},
    "rate": {"rate": {"limit": 1, "period": "PT1H"}},
    "throttle": {"throttle": {"limit": 1, "period": "PT1H"}},
}


@pytest.mark.parametrize("rule", SHUT.values(), ids=SHUT)
def test_a_rescheduled_job_is_scheduled_in_every_view(server, rule):
    limit = {"key": "api", "on_limit": "reschedule", **rule}
    server.enqueue(a_job(**limit))
    server.fetch("q", count=8)
    answered = [server.enqueue(a_job(**limit)), server.enqueue(a_job(**limit))]
    batch = server.post("/ojs/v1/jobs/batch", {"jobs": [a_job(**limit), a_job(kind="free.call")]})["jobs"]
    held = [*answered, batch[0]]

    for job in held:
        assert "scheduled" == job["state"]
        assert when(job["scheduled_at"]) > datetime.now(UTC) - SECOND
        assert "scheduled" == server.job(job)["state"]
        assert abs(when(server.job(job)["scheduled_at"]) - when(job["scheduled_at"])) < 30 * SECOND
    assert "available" == batch[1]["state"]
    found = server.get("/ojs/v1/admin/jobs?state=scheduled")
    assert ids(reversed(found["items"])) == ids(held)
    assert {"scheduled"} == {job["state"] for job in found["items"]}
    assert all("scheduled_at" in job for job in found["items"])
    assert ids(server.get("/ojs/v1/admin/jobs?state=available")["items"]) == [batch[1]["id"]]
    states = {job["id"]: job["state"] for job in server.get("/ojs/v1/admin/jobs")["items"]}
    assert {"scheduled"} == {states[id_] for id_ in ids(held)}
    stats = server.get("/ojs/v1/queues/q/stats")["stats"]
    assert (3, 1, 1) == (stats["scheduled"], stats["available"], stats["active"])
    counts = server.get("/ojs/v1/admin/queues/q")["counts"]
    assert (3, 1, 1) == (counts["scheduled"], counts["available"], counts["active"])
    assert 3 == server.get("/ojs/v1/rate-limits/api")["waiting_count"]


def test_a_rescheduled_job_is_planned_by_the_end_of_an_override(server):
    until = (datetime.now(UTC) + 3600 * SECOND).isoformat().replace("+00:00", "Z")
    server.put("/ojs/v1/rate-limits/api", {"concurrency": 0, "expires_at": until})

    job = server.enqueue(a_job(key="api", concurrency=1, on_limit="reschedule"))

    for each in (job, server.job(job)):
        assert "scheduled" == each["state"]
        assert abs(when(each["scheduled_at"]) - when(until)) < SECOND


def test_a_rescheduled_job_is_available_again_when_its_limit_opens(server):
    limit = {"key": "api", "concurrency": 1, "on_limit": "reschedule"}
    first = server.enqueue(a_job(**limit))
    server.fetch("q")
    second = server.enqueue(a_job(**limit))
    assert "scheduled" == second["state"]

    server.ack(first)

    assert "available" == server.job(second)["state"]
    assert "scheduled_at" not in server.job(second)
    assert [second["id"]] == ids(server.fetch("q", count=8))


def test_drop_discards_what_cannot_start(server):
    limit = {"key": "push", "rate": {"limit": 2, "period": "PT1H"}, "on_limit": "drop"}
    jobs = fill(server, 5, a_job(**limit))

    assert 2 == len(server.fetch("q", count=8))
    assert ["active"] * 2 + ["discarded"] * 3 == [server.job(job)["state"] for job in jobs]


def test_a_limit_without_a_key_holds_for_the_queue(server):
    fill(server, 3, a_job("slow", max_per_second=1))

    first = server.fetch("slow", count=8)
    at_once_after = server.fetch("slow", count=8)
    time.sleep(1.5)

    assert (1, 0, 1) == (len(first), len(at_once_after), len(server.fetch("slow", count=8)))


def test_a_rate_may_be_written_as_a_number(server):
    for _ in range(3):
        answer = server.post("/ojs/v1/jobs", a_job(key="rps", rate=1, period="second"))
        assert (201, "1") == (answer.status, answer.headers["x-ratelimit-limit"])

    assert 1 == len(server.fetch("q", count=8))


def test_the_headers_tell_what_is_left_of_a_limit(server):
    limit = {"key": "api", "rate": {"limit": 3, "period": "PT1H"}}
    server.enqueue(a_job(**limit))
    server.fetch("q")

    headers = server.post("/ojs/v1/jobs", a_job(**limit)).headers

    assert ("3", "2") == (headers["x-ratelimit-limit"], headers["x-ratelimit-remaining"])
    assert "x-ratelimit-limit" not in server.post("/ojs/v1/jobs", a_job()).headers


def _fetched_by_many(server, wanted):
    """Fetch with many at once, again and again, until there are *wanted* jobs; acknowledge each."""
    jobs, lock, end = [], threading.Lock(), time.monotonic() + 30

    def work(_):
        while len(jobs) < wanted and time.monotonic() < end:
            for job in server.fetch("q", count=4):
                with lock:
                    jobs.append(job)
                server.ack(job)

    at_once(FETCHERS, work)
    return jobs[:wanted]


def _apart(moments, steps):
    """Return how far apart moments are, so many steps from each other."""
    return [later - earlier for earlier, later in zip(moments, moments[steps:], strict=False)]


def _code(answer):
    return answer.status, answer["error"]["code"]


def test_the_list_of_keys_shows_every_key_that_can_be_looked_at(server):
    for name in "bd":
        later = {"queue": "q", "scheduled_at": "+PT1H", "rate_limit": {"key": name, "concurrency": 1}}
        server.enqueue({"type": "api.call", "args": [], "options": later})
    server.post("/ojs/v1/jobs/batch", {"jobs": [a_job(key=name, concurrency=1) for name in "ac"]})

    listed = server.get("/ojs/v1/rate-limits")
    pages = [server.get(f"/ojs/v1/rate-limits?page={n}&per_page=3") for n in (1, 2)]

    assert list("abcd") == [item["key"] for item in listed["items"]]
    assert listed["items"] == [server.get(f"/ojs/v1/rate-limits/{name}").body for name in "abcd"]
    assert [list("abc"), ["d"]] == [[item["key"] for item in page["items"]] for page in pages]
    assert [4, 4] == [page["pagination"]["total"] for page in pages]


def tokens(cost, budget=100):
    return a_job(key="tokens", rate={"limit": budget, "period": "PT1H"}, cost=cost)


def test_each_limit_has_a_cost_of_its_own_and_shows_it(server):
    body = tokens(40)
    body["options"]["rate_limit"] = [
        body["options"]["rate_limit"],
        {"key": "requests", "rate": {"limit": 9, "period": "PT1H"}},
    ]
    fill(server, 3, body)

    taken = server.fetch("q", count=8)
    assert 2 == len(taken)
    shown = {limit["key"]: limit.get("cost", 1) for limit in taken[0]["rate_limit"]}
    assert (
        {"requests": 1, "tokens": 40}
        == shown
        == {limit["key"]: limit.get("cost", 1) for limit in server.job(taken[0])["rate_limit"]}
    )


@pytest.mark.parametrize("by", ["ack", "nack", "progress"])
def test_what_an_attempt_used_takes_the_place_of_its_cost(server, by):
    fill(server, 3, tokens(60))
    (job,) = server.fetch("q", count=8)

    used = {"job_id": job["id"], "used": {"tokens": 10}}
    if by == "progress":
        server.put(f"/ojs/v1/jobs/{job['id']}/progress", used)
    else:
        server.post(f"/ojs/v1/workers/{by}", used)

    assert 1 == len(server.fetch("q", count=8))


def test_a_cost_above_the_rate_and_a_key_that_a_job_does_not_carry_are_refused(server):
    refused = server.post("/ojs/v1/jobs", tokens(101))
    assert (400, True) == (refused.status, "cost" in refused["error"]["message"])
    server.enqueue(tokens(60))
    (job,) = server.fetch("q")

    refused = server.post("/ojs/v1/workers/ack", {"job_id": job["id"], "used": {"token": 1}})

    assert 400 == refused.status
    assert "the keys of this job are 'tokens'" in refused["error"]["message"]
    assert "active" == server.job(job)["state"]
