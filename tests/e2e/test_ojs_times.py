"""Every answer about a job names the same times."""

import threading

import pytest

from penstock.engine import open_engine
from penstock.store.session import Locks

MANY = 40
KEY = {"key": "k", "concurrency": 100}
SHAPES = {
    "plain": {},
    "limited": {"rate_limit": KEY},
    "unique": {"unique": {"keys": ["args"], "on_conflict": "ignore"}},
    "later": {"scheduled_at": "+PT1H"},
}


def body(n=0, **options):
    return {"type": "some.work", "args": [n], "options": {"queue": "times", **options}}


def times(job):
    """Return the times that an answer names, and nothing that is no time."""
    return {name: value for name, value in job.items() if name.endswith("_at")}


@pytest.fixture
def gates_taken(address):
    """Hold the gates of the store, as a transaction of another process would."""
    engine, taken, over = open_engine(address), threading.Event(), threading.Event()
    holder = threading.Thread(
        target=engine.store.write,
        args=[lambda _: (taken.set(), over.wait(30))],
        kwargs={"locks": Locks.GATES},
    )
    holder.start()
    assert taken.wait(30)

    def let_go():
        over.set()
        holder.join(30)

    yield let_go
    let_go()
    engine.close()


@pytest.mark.parametrize("options", SHAPES.values(), ids=list(SHAPES))
def test_a_job_shows_the_times_of_its_201_wherever_it_is_shown(server, options):
    added = [server.enqueue(body(n, **options)) for n in range(MANY)]
    listed = {job["id"]: job for job in server.get("/ojs/v1/admin/jobs?per_page=100")["items"]}

    for job in added:
        assert times(job) == times(server.job(job)) == times(listed[job["id"]])


@pytest.mark.parametrize("options", SHAPES.values(), ids=list(SHAPES))
def test_the_jobs_of_a_batch_show_the_times_of_their_201_wherever_they_are_shown(server, options):
    answer = server.post("/ojs/v1/jobs/batch", {"jobs": [body(n, **options) for n in range(300)]})

    assert 201 == answer.status
    assert 1 == len({job["created_at"] for job in answer["jobs"]})
    for job in answer["jobs"][::30]:
        assert times(job) == times(server.job(job))


@pytest.mark.parametrize("options", [{}, {"rate_limit": KEY}], ids=["plain", "limited"])
def test_the_answers_to_fetch_and_ack_name_the_times_that_a_look_shows(server, options):
    added = {job["id"]: job for job in (server.enqueue(body(n, **options)) for n in range(MANY))}

    for fetched in server.fetch("times", count=MANY):
        job = added.pop(fetched["id"])
        assert times(job).items() <= times(fetched).items()
        assert times(fetched) == times(server.job(job))
        ended = server.ack(job)
        assert times(ended["job"]) == times(server.job(job))
        assert ended["completed_at"] == ended["job"]["completed_at"]
    assert {} == added


def test_events_name_the_times_that_a_look_shows(server):
    job = server.enqueue(body())
    server.fetch("times")
    server.ack(job)

    names = "job.enqueued,job.started,job.completed"
    events = server.until(
        lambda: (
            len(found := server.get(f"/ojs/v1/events?types={names}&queues=times&limit=10")["events"]) == 3
            and {event["type"]: event["time"] for event in found if event["subject"] == job["id"]}
        )
    )
    seen = server.job(job)
    assert {
        "job.enqueued": seen["enqueued_at"],
        "job.started": seen["started_at"],
        "job.completed": seen["completed_at"],
    } == events


@pytest.mark.parametrize("address", ["postgres"], indirect=True)
def test_a_job_that_waits_at_the_door_keeps_its_times(server, gates_taken):
    added = [server.enqueue(body(n, rate_limit=KEY)) for n in range(MANY)]
    for job in added:
        assert times(job) == times(server.job(job))

    gates_taken()
    fetched = {job["id"]: job for job in server.fetch("times", count=MANY)}

    for job in added:
        assert times(job).items() <= times(fetched[job["id"]]).items()
        assert times(fetched[job["id"]]) == times(server.job(job))


def test_a_duplicate_is_answered_with_the_times_of_the_job_that_stands_for_it(server):
    unique = SHAPES["unique"]
    first = server.enqueue(body(**unique))
    again = server.enqueue(body(**unique), status=200)
    batch = server.post("/ojs/v1/jobs/batch", {"jobs": [body(**unique), body(1, **unique)]})

    assert first == again == batch["jobs"][0] == server.job(first)
    assert first["id"] != batch["jobs"][1]["id"]


def test_a_moment_is_spelled_alike_before_and_after_it(server):
    job = server.enqueue(body(scheduled_at="2026-01-02T03:04:05.678901+02:00"))

    assert ("available", "2026-01-02T01:04:05.678Z") == (job["state"], job["scheduled_at"])
    later = server.enqueue(body(scheduled_at="2099-01-02T03:04:05.678901+02:00"))
    assert "2099-01-02T01:04:05.678Z" == later["scheduled_at"] == server.job(later)["scheduled_at"]
    assert later["scheduled_at"] == server.delete(f"/ojs/v1/jobs/{later['id']}")["job"]["scheduled_at"]


def test_a_fetched_job_shows_its_limits_and_its_expiry_as_a_look_does(server):
    options = {"rate_limit": {"key": "k", "rate": {"limit": 5, "period": "PT1M"}}, "expires_at": "+PT1H"}
    server.enqueue(body(0, **options, timeout_ms=1500, tags=["a"], priority=7))
    server.enqueue(body(1, expires_at="2099-12-31T23:59:59Z"))

    for fetched in server.fetch("times", count=2):
        assert server.job(fetched) == fetched
        assert "expires_at" in fetched
        assert ("rate_limit" in fetched) == (fetched["args"] == [0])
