"""The parts of a remote engine by themselves: whom it asks, what time it is there, what has changed."""

import threading
import time

import pytest

from penstock import Client, Concurrency, InvalidError, InvalidJobError, JobHandle, StoreDownError, Unique
from penstock.client import server_address
from penstock.client.changes import Changes
from penstock.client.clock import RemoteClock
from penstock.client.engine import enqueued_before, named
from penstock.client.errors import from_wire, to_wire
from penstock.client.wire import encode, reports_of, settlements_of
from penstock.clock import SECOND, since_boot
from penstock.errors import (
    AccessError,
    DuplicateJobError,
    InvalidLimitError,
    NotFoundError,
    PenstockError,
    QueueFullError,
    StoreBusyError,
    WrongStateError,
)
from penstock.job import Enqueued, NewJob, Settlement
from penstock.lifecycle.outcomes import Again, Cancelled, Done, Failed, HandedBack, Limited

SECRET = "a-token-that-is-never-shown"
HERE = "http://127.0.0.1:8080"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (HERE, HERE),
        ("http://localhost", "http://localhost:80"),
        ("https://jobs.example/queue/", "https://jobs.example:443/queue"),
        ("http://[::1]:8080", "http://[::1]:8080"),
        (f"http://:{SECRET}@localhost:1", "http://localhost:1"),
        (f"http://{SECRET}@localhost:1", "http://localhost:1"),
    ],
)
def test_an_address_is_shown_without_its_token(url, shown):
    found = server_address(url)

    assert shown == str(found)
    assert SECRET not in repr(found)
    assert found.token == (SECRET if SECRET in url else None)


@pytest.mark.parametrize("url", ["ftp://here", "http://", "http://here:port", "http://here?a=b"])
def test_what_is_no_address_is_refused(url):
    with pytest.raises(InvalidError, match="url"):
        server_address(url)


def test_an_argument_goes_before_the_url_and_the_url_before_the_environment(monkeypatch):
    monkeypatch.setenv("PENSTOCK_TOKEN", "from-the-environment")

    assert "given" == server_address("http://:in-the-url@here", "given").token
    assert "in/url" == server_address("http://:in%2Furl@here").token
    assert "in-the-url" == server_address("http://:in-the-url@here").token
    assert "from-the-environment" == server_address("http://here").token


def test_the_servers_time_is_never_reckoned_too_early():
    clock = RemoteClock()
    ahead = 40 * SECOND
    # It took a while to get there, and the answer took longer.
    sent = since_boot() - 50_000
    clock.learn(sent, sent + 300 + ahead)

    before = since_boot() + ahead
    reckoned = clock.now()

    assert before <= reckoned <= since_boot() + ahead + 300 + SECOND // 100


def test_the_servers_clock_may_be_a_little_faster_than_ours():
    clock = RemoteClock()
    sent = since_boot() - 100 * SECOND
    clock.learn(sent, sent)

    assert clock.now() >= since_boot() + 50_000


def test_an_answer_that_was_long_under_way_teaches_nothing_about_the_time():
    clock = RemoteClock()
    now = since_boot()
    clock.learn(now, now + 100)
    clock.learn(now - 20 * SECOND, now + 5 * SECOND)

    assert clock.now() < now + SECOND


@pytest.mark.parametrize(
    "error",
    [
        InvalidJobError("queue", "must be text"),
        InvalidLimitError("slots", "must be a number"),
        NotFoundError("job", "x"),
        DuplicateJobError("x"),
        WrongStateError("x", "done", "a job that runs"),
        QueueFullError("mail", 10, 10),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_is_the_same_on_both_sides(error):
    found = from_wire(400, encode(to_wire(error)), HERE)

    assert type(error) is type(found)
    assert str(error) == str(found)
    assert vars(error) == vars(found)


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (401, b'{"error":{"code":"unauthorized","message":"a token is needed"}}', AccessError),
        (403, b'{"error":{"code":"forbidden","message":"this needs the role worker"}}', AccessError),
        (404, b"<html>", StoreDownError),
        (404, b'{"error":{"code":"not_found","message":"there is nothing at this path"}}', StoreDownError),
        (413, b"", InvalidError),
        (502, b"bad gateway", StoreDownError),
        (503, b'{"error":{"code":"store_busy","message":"locked"}}', StoreBusyError),
        (500, b"\xff", PenstockError),
    ],
)
def test_what_a_server_refuses_is_an_error_that_names_it(status, body, kind):
    found = from_wire(status, body, HERE)

    assert kind is type(found)
    assert HERE in str(found) or status == 413


@pytest.mark.parametrize(
    "outcome",
    [
        Done("[1]"),
        Failed("ValueError", "no", "trace", ("ValueError", "Exception")),
        Again(3, "later"),
        Limited(7, "key", "429"),
        Cancelled("enough"),
        HandedBack(begun=True, after=2),
    ],
    ids=lambda outcome: type(outcome).__name__,
)
def test_every_outcome_can_be_sent(outcome):
    settlement = Settlement(1, 2, outcome, 3)

    assert [settlement] == settlements_of(reports_of([settlement]))


class Asked:
    """A server's side of waiting: answers as the test says."""

    def __init__(self):
        self.revision = 7
        self.questions = []
        self.failing = False
        self.changed = threading.Condition()

    def __call__(self, revision, timeout):
        with self.changed:
            self.questions.append(revision)
            self.changed.notify_all()
            if self.failing:
                raise StoreDownError("away")
            self.changed.wait_for(lambda: self.revision != revision or self.failing, timeout)
            if self.failing:
                raise StoreDownError("away")
            return self.revision

    def change(self, **facts):
        with self.changed:
            vars(self).update(facts)
            self.changed.notify_all()

    def until(self, true):
        with self.changed:
            assert self.changed.wait_for(true, 5)


@pytest.fixture
def asked():
    return Asked()


@pytest.fixture
def changes(asked):
    changes = Changes(asked, "test")
    yield changes
    changes.close()
    asked.change(revision=-1)


def test_the_server_is_not_asked_while_no_caller_waits(asked, changes):
    changes.revision()
    asked.until(lambda: asked.questions == [None, 7])
    asked.change(revision=8)
    time.sleep(0.5)

    assert [None, 7] == asked.questions


def test_a_caller_that_waits_hears_of_a_change_after_its_token(asked, changes):
    revision = changes.revision()
    asked.change(revision=8)

    assert revision != changes.wait(revision, 5)


def test_changes_are_told_of_a_hundred_times_a_second_at_most(asked, changes):
    revision, told = changes.revision(), 0
    end = time.monotonic() + 0.3
    while time.monotonic() < end:
        asked.change(revision=asked.revision + 1)
        before, revision = revision, changes.wait(revision, 0.001)
        told += before != revision

    assert 3 <= told <= 40


def test_a_wait_without_a_change_ends_in_time(changes):
    revision = changes.revision()

    assert revision == changes.wait(revision, 0.01)


def test_a_caller_that_waits_looks_for_itself_when_the_server_is_gone_and_when_it_is_back(asked, changes):
    revision = changes.revision()
    asked.change(failing=True)
    gone = changes.wait(revision, 5)
    asked.change(failing=False, revision=100)

    assert revision != gone
    assert gone != changes.wait(gone, 5)


class Kept:
    """An engine that knows some jobs."""

    def __init__(self, *known):
        self.known = known
        self.enqueued = []

    def job(self, job_id, _tenant):
        if job_id not in self.known:
            raise NotFoundError("job", job_id)
        return NewJob("task", id=job_id)

    def enqueue(self, jobs, *, connection=None):
        self.enqueued += jobs
        return [Enqueued("earlier", reused=True) for _ in jobs]


def test_jobs_are_named_by_the_client_that_enqueues_them():
    jobs, made = named([NewJob("a"), NewJob("b", id="mine")])

    assert {jobs[0].id} == made
    assert "mine" == jobs[1].id


def test_what_was_enqueued_before_is_not_enqueued_again():
    jobs, _ = named([NewJob("a"), NewJob("b", unique=Unique("k")), NewJob("c", unique=Unique("l"))])
    engine = Kept(jobs[1].id)

    found = enqueued_before(engine, jobs)

    assert [Enqueued(jobs[0].id), Enqueued(jobs[1].id), Enqueued("earlier", reused=True)] == found
    assert [jobs[2]] == engine.enqueued


def test_a_client_without_a_url_says_how_to_name_one(monkeypatch):
    monkeypatch.delenv("PENSTOCK_URL", raising=False)
    with pytest.raises(InvalidError, match="PENSTOCK_URL"):
        Client().job("x")


def test_a_client_enqueues_by_name(tmp_path):
    with Client(tmp_path / "jobs.db") as client:
        job = client.enqueue(
            "tasks.sync",
            1,
            kwargs={"account": "acme"},
            queue="mail",
            limits=[Concurrency(1, key="a:{account}")],
        )
        view = client.job(job.id).refresh()

        assert isinstance(job, JobHandle)
        assert ("tasks.sync", "mail") == (view.task, view.queue)
        assert '{"args":[1],"kwargs":{"account":"acme"}}' == view.args
        assert "a:acme" == view.limits[0].key
        assert "cancelled" == client.cancel(job.id)


@pytest.mark.parametrize(
    ("arguments", "options", "problem"),
    [
        ((object(),), {}, "cannot be written as JSON"),
        ((), {"limits": [Concurrency(1, key="a:{account}")]}, "account"),
        ((), {"queue": "bad\nqueue"}, "queue"),
    ],
)
def test_a_client_refuses_what_can_never_run(tmp_path, arguments, options, problem):
    with Client(tmp_path / "jobs.db") as client, pytest.raises(InvalidError, match=problem):
        client.enqueue("tasks.sync", *arguments, **options)
