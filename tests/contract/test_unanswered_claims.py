"""Whatever raises between a claim and its answer gives back what was claimed, and counts as no attempt."""

import asyncio
from contextlib import suppress
from inspect import iscoroutinefunction

import pytest

from penstock.clock import SECOND
from penstock.dialects.native import attempts, endpoint, idempotency
from penstock.dialects.ojs.format import envelope
from penstock.dialects.ojs.routes import jobs, workers
from penstock.errors import StoreBusyError
from penstock.http import asgi, backpressure, fetch_order, worker_directives, writing
from penstock.http.engine_service import Claims, EngineService
from penstock.job import Bound, NewJob, Settlement
from penstock.lifecycle.outcomes import HandedBack
from penstock.lifecycle.states import State
from tests.support.asgi import ask, serving, settled

FETCH = "/ojs/v1/workers/fetch"
TAKE = {"queues": ["q"], "count": 9, "worker": "w", "lease": 15 * SECOND, "grace": SECOND}
NAMES = ["a", "b", "c"]
ERRORS = (RuntimeError, StoreBusyError, asyncio.CancelledError)


class Mishap:
    """Has a function raise, once, as soon as the engine has claimed something, or added something."""

    def __init__(self, monkeypatch, engine, place, name, error=RuntimeError):
        self._patch = monkeypatch.setattr
        self._error = error
        self.claimed = False
        self.raised = False
        for verb in ("claims", "batch", "exchange", "enqueue"):
            self._patch(engine, verb, self._noting(getattr(engine, verb)))
        self._strike(place, name)

    def _strike(self, place, name):
        original = getattr(place, name)

        def struck(*args, **kwargs):
            self._perhaps()
            return original(*args, **kwargs)

        async def struck_later(*args, **kwargs):
            self._perhaps()
            return await original(*args, **kwargs)

        self._patch(place, name, struck_later if iscoroutinefunction(original) else struck)

    def _perhaps(self):
        if self.claimed and not self.raised:
            self.raised = True
            raise self._error("here")

    def _noting(self, verb):
        def noted(*args, **kwargs):
            answer = verb(*args, **kwargs)
            self.claimed = True
            return answer

        return noted


def waits(engine):
    """Assert that all wait as they did before, and were never tried."""
    assert {State.WAITING: len(NAMES)} == engine.count(queue="q")
    claim = engine.claim(["q"], 9, worker="other")

    assert NAMES == [job.id for job in claim.jobs]
    assert {1} == {job.attempt for job in claim.jobs}
    engine.settle([Settlement(job.seq, job.fence, HandedBack()) for job in claim.jobs])


def asked(engine, path, body, **how):
    """Send one request to a server; return the status and the answer."""

    async def play():
        async with serving(engine) as site:
            return await ask(site, path, body, **how)

    return asyncio.run(play())


@pytest.fixture
def engine(desk):
    desk.engine.enqueue([NewJob("task", id=name, queue="q") for name in NAMES])
    return desk.engine


def failing(engine, path, body, place, name, error=RuntimeError, **headers):
    """Ask while a step fails after the claim; return the status of the answer, None if there is none."""

    async def play():
        async with serving(engine) as site:
            try:
                status, _ = await ask(site, path, body, **headers)
            except ERRORS:
                status = None
            await settled(site.service)
            return status

    with pytest.MonkeyPatch.context() as patch:
        mishap = Mishap(patch, engine, place, name, error)
        status = asyncio.run(play())
    assert mishap.raised
    return status


@pytest.mark.parametrize(
    ("place", "name"),
    [
        (EngineService, "remember"),
        (fetch_order.Queues, "went"),
        (worker_directives, "_is_idle"),
        (worker_directives, "directive"),
        (workers, "_envelopes"),
        (EngineService, "in_time"),
        (workers, "Reply"),
        (asgi, "encoded"),
        (writing, "_is_gone"),
        (writing, "encoded"),
        (writing, "_head"),
    ],
)
def test_a_fetch_that_fails_after_its_claim_gives_the_jobs_back(engine, place, name):
    body = {"queues": ["q"], "count": 9, "worker_id": "w", "wait_ms": 10}

    for error in ERRORS:
        status = failing(engine, FETCH, body, place, name, error)

        assert status in (None, 500, 503)
        waits(engine)


@pytest.mark.parametrize("error", [StoreBusyError, asyncio.CancelledError])
def test_a_job_that_cannot_be_looked_up_just_now_is_given_back_with_the_others(engine, error):
    status = failing(engine, FETCH, {"queues": ["q"], "count": 9}, workers, "_handed_out", error)

    assert status in (None, 503)
    waits(engine)


def test_a_job_that_no_worker_can_be_told_of_is_put_off_and_the_others_are_told(desk):
    """Else it would be claimed first by every fetch, and given back, for ever."""
    engine = desk.engine
    engine.enqueue([NewJob("task", '{"args":', id="bad", queue="q"), NewJob("task", id="good", queue="q")])

    status, answer = asked(engine, FETCH, {"queues": ["q"], "count": 1})

    assert (200, ["good"]) == (status, [job["id"] for job in answer["jobs"]])
    bad = engine.job("bad")
    assert (State.SCHEDULED, 0) == (bad.state, bad.attempt)
    assert "no worker can be told of it" in bad.reason


def hanging_up(part):
    """Return what ends the connection when that part of the answer comes."""

    def send(message):
        if message["type"] == f"http.response.{part}":
            raise OSError("the other side has gone")

    return send


def test_an_answer_that_cannot_be_begun_gives_the_jobs_back(engine):
    with pytest.raises(OSError, match="gone"):
        asked(engine, FETCH, {"queues": ["q"], "count": 9}, send=hanging_up("start"))

    waits(engine)


def test_an_answer_that_is_on_its_way_keeps_its_jobs_because_its_worker_may_have_begun(engine):
    with pytest.raises(OSError, match="gone"):
        asked(engine, FETCH, {"queues": ["q"], "count": 9}, send=hanging_up("body"))

    assert {State.RUNNING: len(NAMES)} == engine.count()


@pytest.mark.parametrize("verb", ["claim", "exchange"])
@pytest.mark.parametrize(
    ("place", "name"),
    [
        (attempts, "_known"),
        (attempts, "_without"),
        (attempts, "KeptAnswer"),
        (idempotency.AnswerMemory, "_forget"),
        (endpoint, "Reply"),
        (endpoint, "monotonic"),
        (asgi, "encoded"),
        (writing, "_is_gone"),
        (writing, "_head"),
    ],
)
def test_a_worker_of_ours_whose_claim_cannot_be_answered_leaves_nothing_behind(engine, verb, place, name):
    body = TAKE if verb == "claim" else {"reports": [], "take": TAKE}

    for error in ERRORS:
        status = failing(engine, f"/penstock/v1/{verb}", body, place, name, error, idempotency_key="one")

        assert status in (None, 500, 503)
        waits(engine)


@pytest.mark.parametrize(
    ("place", "name"), [(idempotency.AnswerMemory, "_forget"), (endpoint, "Reply"), (writing, "_head")]
)
def test_a_worker_that_asks_again_after_a_failure_is_not_told_of_jobs_that_were_given_back(
    engine, monkeypatch, place, name
):
    mishap = Mishap(monkeypatch, engine, place, name)

    async def play():
        async with serving(engine) as site:
            with suppress(RuntimeError):
                await ask(site, "/penstock/v1/claim", TAKE, idempotency_key="one")
            await settled(site.service)
            other = engine.claim(["q"], 9, worker="other").jobs
            return other, await ask(site, "/penstock/v1/claim", TAKE, idempotency_key="one")

    other, (status, claim) = asyncio.run(play())
    assert mishap.raised
    assert NAMES == [job.id for job in other]
    assert (200, []) == (status, claim["jobs"])


def test_jobs_that_cannot_be_given_back_at_once_are_given_back_when_the_store_is_there_again(
    engine, monkeypatch
):
    settle, tries = engine.settle, []

    def fails_twice(settlements):
        tries.append(settlements)
        if len(tries) < 3:
            raise StoreBusyError("just now")
        return settle(settlements)

    monkeypatch.setattr(engine, "settle", fails_twice)
    monkeypatch.setattr("penstock.http.engine_service.AGAIN", 0.01)

    assert 500 == failing(engine, FETCH, {"queues": ["q"], "count": 9}, workers, "_envelopes")
    waits(engine)


def acknowledged_after_it_was_given_back(engine, meanwhile=lambda: None):
    """Fail to answer a fetch of job *a*, have its worker acknowledge it all the same, and return the answer."""

    async def play():
        async with serving(engine) as site:
            await ask(site, FETCH, {"queues": ["q"], "count": 1, "worker_id": "w"})
            await settled(site.service)
            meanwhile()
            return await ask(site, "/ojs/v1/workers/ack", {"job_id": "a", "worker_id": "w"})

    with pytest.MonkeyPatch.context() as patch:
        Mishap(patch, engine, workers, "_envelopes")
        return asyncio.run(play())


def test_a_job_that_was_given_back_is_not_remembered_as_ours(engine):
    """Else an ack at this server would be refused though its worker had fetched the job at another."""
    status, answer = acknowledged_after_it_was_given_back(
        engine, meanwhile=lambda: engine.claim(["q"], 1, worker="w")
    )

    assert (200, "completed") == (status, answer["state"])


def test_an_ack_of_a_job_that_was_given_back_is_refused(engine):
    """Its attempt counts for nothing, so neither does what its worker says of it."""
    status, _ = acknowledged_after_it_was_given_back(engine)

    assert 409 == status
    waits(engine)


def test_an_exchange_whose_asker_was_cancelled_gives_back_what_it_claimed(engine, monkeypatch):
    """The thread cannot be stopped: it claims after the request is over."""

    async def play():
        async with serving(engine) as site:
            begun, go, told = asyncio.Event(), asyncio.Event(), asyncio.Event()
            loop = asyncio.get_running_loop()

            def slow(engine):
                loop.call_soon_threadsafe(begun.set)
                asyncio.run_coroutine_threadsafe(go.wait(), loop).result(30)
                return None, engine.claim(["q"], 9, worker="w")

            asked = asyncio.ensure_future(site.service.run_claiming(slow, Claims()))
            await begun.wait()
            asked.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asked
            leave = site.service._give_back_soon
            monkeypatch.setattr(site.service, "_give_back_soon", lambda jobs: (leave(jobs), told.set()))
            go.set()
            await told.wait()
            await settled(site.service)

    asyncio.run(asyncio.wait_for(play(), 30))
    waits(engine)


# What was added is answered.


@pytest.mark.parametrize(
    ("place", "name", "bounded"),
    [
        (envelope, "of_new", False),
        (jobs, "_limit_headers", False),
        (backpressure, "_fullest", True),
        (backpressure, "_depth", True),
    ],
)
@pytest.mark.parametrize("batch", [False, True])
def test_what_was_stored_is_answered_whatever_fails_afterwards(
    desk, monkeypatch, place, name, bounded, batch
):
    engine = desk.engine
    if bounded:
        engine.bound("q", Bound(10))
    options = {"queue": "q", "rate_limit": {"key": "k", "concurrency": 1}}
    job = {"type": "a.b", "args": [1], "options": options}
    mishap = Mishap(monkeypatch, engine, place, name, StoreBusyError)
    path, body = ("/ojs/v1/jobs/batch", {"jobs": [job, job]}) if batch else ("/ojs/v1/jobs", job)

    status, answer = asked(engine, path, body)
    ids = [each["id"] for each in (answer["jobs"] if batch else [answer["job"]])]
    assert 201 == status
    assert mishap.raised or (batch and name == "_limit_headers")
    assert sorted(ids) == sorted(view.id for view in engine.jobs())


@pytest.mark.parametrize("verb", ["ack", "nack"])
@pytest.mark.parametrize(("place", "name"), [(envelope, "of_done"), (workers, "show")])
def test_an_attempt_that_was_settled_is_acknowledged_whatever_fails_afterwards(
    engine, monkeypatch, verb, place, name
):
    broken = []

    def fails(*_):
        broken.append(True)
        raise StoreBusyError("just now")

    async def play():
        async with serving(engine) as site:
            _, fetched = await ask(site, FETCH, {"queues": ["q"], "count": 1})
            monkeypatch.setattr(place, name, fails)
            return await ask(site, f"/ojs/v1/workers/{verb}", {"job_id": fetched["jobs"][0]["id"]})

    status, answer = asyncio.run(play())
    assert (200, "a") == (status, answer["id"])
    assert (verb == "ack") == (answer.get("state") == "completed")
    assert broken or (verb, name) in (("ack", "show"), ("nack", "of_done"))
    assert State.RUNNING is not engine.job("a").state
