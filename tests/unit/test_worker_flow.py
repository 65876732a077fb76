"""What is claimed and settled, when, and how much of it at once."""

import asyncio
import threading

import pytest

from penstock.clock import SECOND, SystemClock
from penstock.errors import InvalidError, StoreBusyError
from penstock.job import NewJob
from penstock.lifecycle.outcomes import Done, HandedBack
from penstock.lifecycle.states import State
from penstock.worker import Worker, current_job, pump
from tests.support.stub_engine import StubEngine
from tests.support.working import handlers, holding, work, working


@pytest.fixture
def engine():
    return StubEngine()


async def quick():
    pass


def plain():
    pass


def test_jobs_are_claimed_and_settled_in_batches(engine):
    engine.enqueue("quick", count=1000)
    work(engine, quick, concurrency=100)

    assert len(engine.outcomes) == 1000
    assert max(engine.batches) > 10
    assert len(engine.batches) < 100


def test_async_handlers_run_at_once_up_to_the_limit_and_no_further(engine):
    running, most = 0, 0

    async def sleep():
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.002)
        running -= 1

    engine.enqueue("sleep", count=50)
    work(engine, sleep, concurrency=7)

    assert most == 7


def test_plain_functions_run_in_as_many_threads_as_allowed(engine):
    meeting = threading.Barrier(3)

    def meet():
        meeting.wait(10)
        return threading.current_thread().name

    engine.enqueue("meet", count=9)
    work(engine, meet, threads=3)

    assert len(set(engine.outcomes.values())) == 3
    assert all(asked <= 3 for _, asked, _ in engine.claims)


def test_with_both_kinds_no_more_is_claimed_than_either_could_begin(engine):
    engine.enqueue("quick", count=20)
    engine.enqueue("plain", count=20)
    work(engine, quick, plain, concurrency=50, threads=2)

    assert len(engine.outcomes) == 40
    assert max(asked for _, asked, _ in engine.claims) == 2


def test_nothing_is_claimed_while_no_hand_is_free(engine):
    hold, _, release = holding()
    first = engine.enqueue("hold", count=2)
    with working(engine, hold, threads=2):
        engine.until(lambda: len(engine.claims) >= 1)
        engine.enqueue("hold", count=5)
        engine.change()

        assert not engine.outcomes
        assert sum(taken for _, _, taken in engine.claims) == 2
        release.set()
        engine.ended(first, "job-7")


def test_an_idle_worker_is_woken_by_a_new_job(engine):
    with working(engine, quick):
        engine.until(lambda: engine.claims)
        for _ in range(20):
            engine.ended(engine.enqueue("quick"))


def test_a_job_that_comes_while_a_claim_finds_nothing_is_not_overlooked(engine, monkeypatch):
    monkeypatch.setattr(pump, "FALLBACK", 3600 * SECOND)
    claim, late = engine.claim, []

    def empty_handed(*args, **options):
        answer = claim(*args, **options)
        if not late:
            late.append(engine.enqueue("quick"))
        return answer

    engine.claim = empty_handed
    with working(engine, quick):
        engine.until(lambda: late)
        engine.ended(*late)


def test_an_idle_worker_leaves_the_store_alone(engine):
    with working(engine, quick):
        engine.ended(engine.enqueue("quick"))
        before = len(engine.claims)
        threading.Event().wait(0.3)

        # One claim may still have been under way, for the change that the settling was.
        assert len(engine.claims) <= before + 2


def test_a_claim_that_has_more_is_followed_by_another_at_once(engine):
    engine.more = True
    work(engine, quick)

    assert len(engine.claims) == 2


def test_a_worker_looks_again_when_the_store_said_to(engine):
    engine.next_at = engine.clock.now() + 30_000
    with working(engine, quick):
        engine.until(lambda: engine.claims)
        first = len(engine.claims)
        engine.until(lambda: len(engine.claims) > first)

        assert engine.clock.now() >= engine.next_at
        engine.next_at = None


def test_until_idle_waits_for_what_runs_elsewhere(engine):
    engine.running_elsewhere = 1
    worker = Worker(engine, handlers(quick))
    thread = threading.Thread(target=worker.run, kwargs={"until_idle": True})
    thread.start()
    engine.ended(engine.enqueue("quick"))
    thread.join(0.1)
    assert thread.is_alive()

    engine.running_elsewhere = 0
    engine.change()

    thread.join(10)
    assert not thread.is_alive()


@pytest.mark.parametrize("waiting", ["parked", "scheduled"])
def test_until_idle_waits_for_what_is_to_come(engine, waiting):
    engine.next_at = engine.clock.now() + 50_000
    setattr(engine, waiting, 1)

    def release(verb):
        if verb == "claim" and engine.next_at and engine.clock.now() >= engine.next_at:
            engine.next_at = None
            setattr(engine, waiting, 0)
            engine.enqueue("quick")

    engine.hook = release
    work(engine, quick)

    assert len(engine.outcomes) == 1


@pytest.mark.parametrize("waiting", ["parked", "scheduled"])  # by a limit that opens by itself no more
def test_until_idle_does_not_wait_for_a_person(engine, waiting):
    setattr(engine, waiting, 1)
    work(engine, quick)


def test_until_idle_does_not_wait_for_a_clock_that_changes_nothing_here(engine):
    engine.next_at = engine.clock.now() + 3600 * SECOND
    work(engine, quick)


def test_a_handler_that_can_begin_in_time_tells_when_it_did(engine):
    hold, _, release = holding()
    before = engine.clock.now()
    job = engine.enqueue("hold", begin_in=SECOND)
    with working(engine, hold):
        engine.until(lambda: job in engine.began)
        assert before <= engine.began[job] <= engine.clock.now()
        release.set()
        engine.ended(job)

    assert engine.settlements[job].began_after == engine.began[job]


def test_a_handler_that_ends_at_once_tells_with_its_outcome_when_it_began(engine):
    before = engine.clock.now()
    jobs = [engine.enqueue("quick", begin_in=SECOND), engine.enqueue("quick")]
    work(engine, quick)

    gated, free = (engine.settlements[job] for job in jobs)
    assert before <= gated.began_after <= engine.clock.now()
    assert free.began_after is None


@pytest.mark.parametrize("kind", [quick, plain])
def test_a_handler_that_would_begin_too_late_is_handed_back_unbegun(engine, kind):
    job = engine.enqueue(kind.__name__, begin_in=4_000)
    work(engine, kind)

    assert engine.outcomes[job] == HandedBack(begun=False)
    assert engine.settlements[job].began_after is None


def test_a_batch_whose_first_handler_blocks_the_loop_hands_the_others_back(engine):
    begun = []

    async def block():
        begun.append(engine.clock.now())
        threading.Event().wait(0.1)

    engine.enqueue("block", begin_in=50_000, count=5)
    work(engine, block)

    assert len(begun) == 1
    assert [engine.outcomes[f"job-{n}"] for n in range(1, 6)] == [Done(), *[HandedBack(begun=False)] * 4]


class SetClock:
    """The time of this machine, but for a *step* by which it was set."""

    def __init__(self):
        self.step = 0
        self._clock = SystemClock()

    def now(self):
        return self._clock.now() + self.step


@pytest.mark.parametrize("step", [-3600 * SECOND, 3600 * SECOND])
@pytest.mark.parametrize("moment", ["claim", "handler"])
def test_the_time_to_begin_does_not_follow_a_clock_that_is_set(engine, step, moment):
    engine.clock = clock = SetClock()
    begun = []

    def set_clock(when):
        if when == moment:
            clock.step = step

    async def hold():
        begun.append(True)
        set_clock("handler")
        threading.Event().wait(0.1)

    engine.hook = set_clock
    engine.enqueue("hold", begin_in=50_000, count=3)
    work(engine, hold)

    assert len(begun) <= 1
    assert list(engine.outcomes.values()).count(HandedBack(begun=False)) >= 2


def test_a_store_that_fails_for_a_while_loses_nothing(engine):
    failures = {"claim": 2, "settle": 2}

    def fail(verb):
        if failures.get(verb, 0):
            failures[verb] -= 1
            raise StoreBusyError("locked")

    engine.hook = fail
    engine.enqueue("quick", count=5)
    work(engine, quick)

    assert len(engine.outcomes) == 5


def test_an_outcome_the_engine_chokes_on_takes_no_other_with_it(engine):
    settle = engine.settle

    def choke(settlements):
        if any(settlement.outcome == Done('"poison"') for settlement in settlements):
            raise ValueError("cannot write this")
        return settle(settlements)

    engine.settle = choke

    async def say(word):
        return word

    ids = [engine.enqueue("say", word) for word in ("good", "poison", "fine")]
    work(engine, say)

    good, poison, fine = (engine.outcomes[job] for job in ids)
    assert (good, fine) == (Done('"good"'), Done('"fine"'))
    assert poison.kind == "ValueError"


def test_a_worker_can_run_again(engine):
    worker = Worker(engine, handlers(quick))
    for _ in range(3):
        job = engine.enqueue("quick")
        worker.run(until_idle=True)
        assert job in engine.outcomes


def test_a_handler_may_enqueue_more_work(engine):
    async def chain(left):
        if left:
            engine.enqueue("chain", left - 1)
        return current_job().id

    engine.enqueue("chain", 20)
    work(engine, chain)

    assert len(engine.outcomes) == 21


@pytest.mark.parametrize(
    "options",
    [
        {"concurrency": 0}, {"threads": True}, {"lease": 0}, {"queues": []}, {"queues": ["a", "a"]}, {"queues": [""]},
        {"queues": {"a": 0}}, {"queues": {"a": 1.5}}, {"queues": {"a": 1}, "strict": True},
    ],
)  # fmt: skip
def test_a_worker_made_wrongly_says_so(engine, options):
    with pytest.raises(InvalidError):
        Worker(engine, {}, **options)


def test_a_worker_asks_for_the_tasks_that_it_knows_and_is_idle_beside_others(live):
    @live.task
    def known():
        return 1

    live.engine.enqueue([NewJob(task="stranger"), NewJob(task="stranger", due=2**52)])
    job = known.enqueue()
    live.work(until_idle=True)

    assert 1 == job.result(timeout=0)
    assert {State.WAITING: 1, State.SCHEDULED: 1} == live.engine.count(task="stranger")
