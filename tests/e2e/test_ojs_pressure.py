"""Full queues: what producers hear, how they wait for room, and what makes way."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

CONFIG = "/ojs/v1/admin/queues/{}/config"


def a_job(n=0, queue="q"):
    return {"type": "some.work", "args": [n], "options": {"queue": queue}}


def bounded(server, most, queue="q", **more):
    answer = server.put(CONFIG.format(queue), {"backpressure": {"max_depth": most, **more}})

    assert 200 == answer.status, answer.body
    return answer


def test_one_too_many_is_refused_and_told_why(server):
    bounded(server, 2)
    server.enqueue(a_job())
    delayed = a_job()
    delayed["options"]["delay_until"] = "+PT1H"
    server.enqueue(delayed)

    answer = server.post("/ojs/v1/jobs", a_job())

    assert (429, "QUEUE_FULL", True) == (answer.status, answer["error"]["code"], answer["error"]["retryable"])
    names = ("x-ojs-queue-depth", "x-ojs-queue-bound")
    assert ("2", "2") == tuple(answer.headers[name] for name in names)
    assert float(answer.headers["retry-after"]) > 0


def test_what_runs_takes_no_room_and_what_failed_does(server):
    bounded(server, 1)
    server.enqueue(a_job())
    (job,) = server.fetch("q")
    server.enqueue(a_job())
    server.fetch("q")
    assert "retryable" == server.nack(job)["state"]

    assert 429 == server.post("/ojs/v1/jobs", a_job()).status


def test_what_waits_for_its_limit_takes_room(server):
    bounded(server, 2)
    limited = a_job()
    limited["options"]["rate_limit"] = {"key": "k", "concurrency": 0}
    server.enqueue(limited)
    server.enqueue(limited)

    assert 429 == server.post("/ojs/v1/jobs", limited).status


def test_no_more_fit_in_however_many_producers_there_are(server):
    bounded(server, 10)

    with ThreadPoolExecutor(16) as threads:
        answers = list(threads.map(lambda n: server.post("/ojs/v1/jobs", a_job(n)).status, range(64)))

    assert (10, 54) == (answers.count(201), answers.count(429))
    assert 10 == server.get("/ojs/v1/queues/q/stats")["stats"]["depth"]


def test_a_batch_fits_in_as_a_whole_or_not_at_all(server):
    bounded(server, 3)
    server.enqueue(a_job())

    assert 429 == server.post("/ojs/v1/jobs/batch", {"jobs": [a_job(n) for n in range(3)]}).status
    assert 1 == server.get("/ojs/v1/queues/q/stats")["stats"]["depth"]
    assert 201 == server.post("/ojs/v1/jobs/batch", {"jobs": [a_job(n) for n in range(2)]}).status


def test_other_queues_have_room(server):
    bounded(server, 1)
    server.enqueue(a_job())
    server.enqueue(a_job(queue="other"))
    server.enqueue(a_job(), X_OJS_Tenant="acme")

    assert 429 == server.post("/ojs/v1/jobs", a_job()).status


def test_the_oldest_makes_way_if_that_is_wanted(server):
    bounded(server, 2, strategy="drop_oldest")

    jobs = [server.enqueue(a_job(n)) for n in range(4)]

    assert ["discarded", "discarded", "available", "available"] == [server.job(job)["state"] for job in jobs]
    assert [2, 3] == [job["args"][0] for job in server.fetch("q", count=8)]


def test_a_producer_may_wait_for_room(server):
    bounded(server, 1, strategy="block")
    server.enqueue(a_job())
    began = time.monotonic()
    freed = threading.Timer(0.5, lambda: server.fetch("q"))
    freed.start()

    answer = server.post("/ojs/v1/jobs", a_job(1), OJS_Block_Timeout="20")
    took = time.monotonic() - began
    freed.join()

    assert 201 == answer.status
    assert 0.4 < took < 18


def test_waiting_for_room_ends_when_the_producer_said(server):
    bounded(server, 1, strategy="block")
    server.enqueue(a_job())

    began = time.monotonic()
    waited = server.post("/ojs/v1/jobs", a_job(), OJS_Block_Timeout="0.4").status
    took = time.monotonic() - began

    assert (429, 429) == (waited, server.post("/ojs/v1/jobs", a_job()).status)
    assert 0.35 < took < 20
    assert 400 == server.post("/ojs/v1/jobs", a_job(), OJS_Block_Timeout="soon").status


def test_nobody_waits_for_room_that_will_never_be(server):
    bounded(server, 1, strategy="block")
    bounded(server, 1, "strict")
    server.enqueue(a_job(queue="strict"))
    began = time.monotonic()

    too_long = {"jobs": [a_job(), a_job()]}
    refused = {"jobs": [a_job(), a_job(queue="strict")]}
    answers = [
        server.post("/ojs/v1/jobs/batch", each, OJS_Block_Timeout="20") for each in (too_long, refused)
    ]

    assert [429, 429] == [answer.status for answer in answers]
    assert time.monotonic() - began < 20


def test_many_requests_that_wait_hold_no_other_up(server):
    bounded(server, 1, strategy="block")
    server.enqueue(a_job())

    with ThreadPoolExecutor(40) as threads:
        blocked = [
            threads.submit(server.post, "/ojs/v1/jobs", a_job(n), OJS_Block_Timeout="25") for n in range(40)
        ]
        time.sleep(0.3)
        began = time.monotonic()
        server.enqueue(a_job(queue="other"))
        took = time.monotonic() - began
        for _ in blocked:
            server.until(lambda: server.fetch("q"))
        answers = {each.result().status for each in blocked}

    assert took < 10
    assert {201} == answers


def test_a_queue_that_is_nearly_full_says_so(server):
    bounded(server, 10, warning_threshold=0.5)

    headers = [server.post("/ojs/v1/jobs", a_job(n)).headers for n in range(6)]

    assert [False] * 4 + [True] * 2 == ["x-ojs-queue-pressure" in each for each in headers]
    names = ("x-ojs-queue-pressure", "x-ojs-queue-depth", "x-ojs-queue-bound")
    assert ("0.6", "6", "10") == tuple(headers[-1][name] for name in names)


def test_the_bound_can_be_seen_changed_and_removed(server):
    bounded(server, 1, strategy="block", warning_threshold=0.9)
    shown = server.get(CONFIG.format("q")).body
    server.put("/ojs/v1/queues/q/config", {"concurrency": 7})
    both = server.get("/ojs/v1/queues/q/config").body
    server.enqueue(a_job())
    assert 1 == server.get("/ojs/v1/queues/q/stats")["stats"]["max_depth"]

    server.put(CONFIG.format("q"), {"backpressure": None})
    server.enqueue(a_job())

    expected = {"max_depth": 1, "strategy": "block", "warning_threshold": 0.9}
    assert expected == shown["backpressure"] == both["backpressure"]
    assert 7 == both["concurrency"] == server.get(CONFIG.format("q"))["concurrency"]
    assert "backpressure" not in server.get(CONFIG.format("q")).body


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"backpressure": {"max_depth": 0}}, "backpressure.max_depth"),
        ({"backpressure": {"strategy": "reject"}}, "backpressure.max_depth"),
        ({"backpressure": {"max_depth": 1, "strategy": "explode"}}, "backpressure.strategy"),
        ({"backpressure": {"max_depth": 1, "warning_threshold": 2}}, "backpressure.warning_threshold"),
        ({"concurrency": "many"}, "concurrency"),
        ({"rate_limit": {"limit": 5}}, "rate_limit.period"),
    ],
)
def test_a_config_that_makes_no_sense_names_the_field(server, body, field):
    answer = server.put(CONFIG.format("q"), body)

    assert (400, field) == (answer.status, answer["error"]["details"]["field"])
