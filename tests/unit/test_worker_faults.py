"""Whatever a worker has taken out of a list is settled, begun or put back, whatever raises in between."""

import asyncio
import logging
import threading

import pytest

from penstock import App, Rate
from penstock.background import periodic
from penstock.clock import SECOND
from penstock.engine import Engine
from penstock.errors import StoreBusyError
from penstock.job import Refresh
from penstock.lifecycle.states import State
from penstock.worker import (
    attempt,
    beginnings,
    crew,
    current_job,
    exchanges,
    floating,
    grace,
    job_log,
    leases,
    loop,
    pump,
    relay,
    settlements,
    starter,
    threads,
    wakeups,
    watchdog,
)
from penstock.worker.floating import AT_ONCE, Refresher
from tests.support.stub_engine import StubEngine
from tests.support.working import holding, working

JOBS = 40


class Fault:
    """Raises *error* at the call of a step that comes after *calls* others, once; then the step is as it was."""

    def __init__(self, monkeypatch, owner, name, error=RuntimeError, calls=0):
        self.met = threading.Event()
        self._error = error
        self._left = calls
        step = getattr(owner, name)

        def faulty(*args, **kwargs):
            if not self.met.is_set() and self._due():
                self.met.set()
                raise error("a fault")
            return step(*args, **kwargs)

        monkeypatch.setattr(owner, name, faulty)

    def _due(self):
        self._left -= 1
        return self._left < 0


STEPS = {
    "the pause in which others may end": (pump, "pause"),
    "learning how late handlers begin": (grace.Grace, "learn"),
    "making reports of outcomes": (attempt.Attempt, "settlement"),
    "writing progress": (leases.Leases, "write_progress"),
    "telling how attempts ended": (job_log.JobLog, "tell"),
    "telling when handlers began": (pump.Pump, "_tell_begun"),
    "looking whether there is more to do": (pump.Pump, "_rest"),
    "watching the store": (wakeups.Wakeups, "watch"),
    "making an attempt of a claimed job": (exchanges, "Attempt"),
    "beginning a batch": (exchanges.Exchanges, "_begin"),
    "giving a batch to the crew": (watchdog.Watchdog, "begin"),
    "keeping places for a claim": (crew.Crew, "reserve"),
    "giving these places to attempts": (crew.Crew, "take"),
    "noting what begins": (beginnings.Beginnings, "add"),
    "planning starts": (starter.Starter, "plan"),
    "sending what is due": (starter.Starter, "send_due"),
    "giving a batch to the loop": (loop.Loop, "begin"),
    "waking the loop": (loop.asyncio.AbstractEventLoop, "call_soon_threadsafe"),
    "making a task": (loop.Loop, "_attend"),
    "giving a call to a thread": (threads.Threads, "begin"),
}


@pytest.mark.parametrize("calls", [0, 2])
@pytest.mark.parametrize("step", STEPS)
def test_all_jobs_end_and_all_hands_are_free_though_a_step_raises_once(step, calls, monkeypatch, tmp_path):
    monkeypatch.setattr(pump, "LEAST_MOMENT", 0)
    monkeypatch.setattr(loop, "new_event_loop", loop.asyncio.new_event_loop)
    owner, name = STEPS[step]
    if step == "waking the loop":
        owner = loop.asyncio.SelectorEventLoop
    fault = Fault(monkeypatch, owner, name, calls=calls)
    limits = [Rate(1_000, per="1s", key="all")]
    with App(tmp_path / "jobs.db") as app:

        @app.task(limits=limits)
        def plain() -> None:
            current_job().progress(1)

        @app.task(limits=limits)
        async def waits() -> None:
            current_job().progress(1)

        @app.task(limits=limits)
        async def lasts() -> None:
            await asyncio.sleep(
                3 * beginnings.BEGINNING / SECOND
            )  # it is told of when it began before it ends

        for task in (plain, waits, lasts, lasts):
            for _ in range(JOBS // 4):
                task.enqueue()
        worker = app.worker(threads=4, concurrency=4, lease="2s")
        thread = threading.Thread(target=worker.run, kwargs={"until_idle": True})
        thread.start()
        thread.join(20)
        worker.stop_now()
        thread.join()

        assert fault.met.is_set() or calls
        assert {State.DONE: JOBS} == app.engine.count()
        assert {1} == {job.attempt for job in app.engine.jobs(limit=JOBS)}  # none was left to its lease
        assert [] == app.engine.doctor()


@pytest.mark.parametrize("calls", [0, 1, 2, 5])
@pytest.mark.parametrize(
    "step",
    [
        "making reports of outcomes",
        "telling how attempts ended",
        "making an attempt of a claimed job",
        "beginning a batch",
        "keeping places for a claim",
        "giving these places to attempts",
        "giving a batch to the loop",
    ],
)
def test_all_jobs_end_and_all_hands_are_free_though_a_step_raises_once_in_one_of_two_exchanges(
    step, calls, monkeypatch, tmp_path
):
    monkeypatch.setattr(pump, "LEAST_SHARE", 2)
    monkeypatch.setattr(Engine, "overlaps", True)
    fault = Fault(monkeypatch, *STEPS[step], calls=calls)
    with App(tmp_path / "jobs.db") as app:

        @app.task
        async def waits() -> None:
            pass

        waits.enqueue_many([()] * JOBS)
        worker = app.worker(concurrency=8, lease="2s")
        thread = threading.Thread(target=worker.run, kwargs={"until_idle": True})
        thread.start()
        thread.join(20)
        worker.stop_now()
        thread.join()

        assert fault.met.is_set()
        assert {State.DONE: JOBS} == app.engine.count()
        assert {1} == {job.attempt for job in app.engine.jobs(limit=JOBS)}  # none was left to its lease
        assert [] == app.engine.doctor()


@pytest.fixture
def engine():
    return StubEngine()


async def quick():
    pass


def fails_once(engine, verb, error):
    """Have the engine raise *error* the first time it is asked for *verb*; return what tells that it did."""
    met = threading.Event()

    def hook(name):
        if name == verb and not met.is_set():
            met.set()
            raise error

    engine.hook = hook
    return met


def test_the_start_of_a_handler_is_told_again_if_the_store_could_not_take_it(engine):
    met = fails_once(engine, "begun", StoreBusyError("busy"))
    hold, _, go_on = holding()

    job = engine.enqueue("hold", begin_in=10_000_000)
    with working(engine, hold):
        try:
            engine.until(lambda: job in engine.began)
        finally:
            go_on.set()

    assert met.is_set()


def test_progress_is_written_again_if_the_store_could_not_take_it(engine):
    met = fails_once(engine, "progress", StoreBusyError("busy"))
    hold, _, go_on = holding()

    def moves():
        current_job().progress("half")
        hold()

    job = engine.enqueue("moves")
    with working(engine, moves):
        try:
            engine.until(lambda: job in engine.shown)
        finally:
            go_on.set()

    assert met.is_set()
    assert ['"half"'] == engine.shown[job]


@pytest.mark.parametrize("reason", ["can be logged", "cannot be logged"])
def test_an_outcome_that_the_engine_can_settle_in_no_way_holds_up_no_other(engine, reason, request):
    if reason == "cannot be logged":
        request.getfixturevalue("raising_filter")
    poison = engine.enqueue("quick")
    others = [engine.enqueue("quick") for _ in range(9)]
    settle = engine.settle

    def choking(settlements):
        if any(f"job-{each.seq}" == poison for each in settlements):
            raise ValueError("cannot be settled")
        return settle(settlements)

    engine.settle = choking
    with working(engine, quick, concurrency=4):
        engine.ended(*others)

    assert poison not in engine.outcomes


def test_what_was_claimed_begins_though_the_log_cannot_be_written_for_a_while(engine, monkeypatch):
    """Else its lease runs out before it is kept."""
    read, began = threading.Event(), threading.Event()
    tell = job_log.JobLog.tell

    def blocking(self, *told):
        assert read.wait(10)
        tell(self, *told)

    def first():
        pass

    def second():
        began.set()

    monkeypatch.setattr(job_log.JobLog, "tell", blocking)
    jobs = [engine.enqueue("first"), engine.enqueue("second")]
    with working(engine, first, second, threads=1):
        try:
            assert began.wait(30)
        finally:
            read.set()
        engine.ended(*jobs)


@pytest.fixture
def raising_filter(monkeypatch):
    """A filter of the user's that expects of every warning what only records of jobs have."""

    def refuse(record):
        if record.levelno >= logging.WARNING:
            raise AttributeError("job_id")
        return True

    for logger in (periodic.log, settlements.log, loop.log):
        monkeypatch.setattr(logger, "filters", [refuse])


def test_a_failing_store_whose_failure_cannot_be_logged_does_not_end_the_worker(engine, raising_filter):
    met = fails_once(engine, "claim", StoreBusyError("busy"))
    job = engine.enqueue("quick")
    with working(engine, quick):
        engine.ended(job)

    assert met.is_set()


def test_a_handler_that_ends_the_loop_takes_no_other_along_though_that_cannot_be_logged(
    engine, raising_filter
):
    ended = threading.Event()

    async def ends():
        if not ended.is_set():
            ended.set()
            loop.asyncio.get_running_loop().stop()

    engine.enqueue("ends")
    with working(engine, ends, quick):
        assert ended.wait(10)
        engine.ended(engine.enqueue("quick"))


def test_a_refresh_whose_thread_cannot_start_keeps_no_place(engine, monkeypatch):
    engine.due = [Refresh(n, f"key-{n}", "", "count", 1, "{}", 1, None) for n in range(2 * AT_ONCE)]
    monkeypatch.setattr(floating, "EVERY", 0.01)
    start = threading.Thread.start
    faults = iter(range(1))

    def starts(thread):
        if thread.name == "penstock-refresh" and next(faults, None) is not None:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", starts)
    with working(engine, refreshers={"count": Refresher(lambda _: 3)}):
        engine.until(lambda: engine.values)

    assert {3} == {value for _, value, _ in engine.values}


def test_what_is_too_much_for_one_transaction_is_settled_in_several(monkeypatch):
    monkeypatch.setattr(settlements, "MOST", 3)
    monkeypatch.setattr(settlements, "MOST_CHARACTERS", 20)
    sizes = [1, 1, 1, 1, 16, 30, 1, 16]  # with its quotes each is longer by two
    results = iter(sizes)
    engine = StubEngine()

    async def act():
        return "x" * next(results)

    engine.enqueue("act")
    engine.enqueue("act", count=len(sizes) - 1, after=True)
    monkeypatch.setattr(relay, "WITHIN", 20 * SECOND)
    with working(engine, act, concurrency=1):
        engine.until(lambda: len(engine.outcomes) == len(sizes))

    assert engine.batches == [3, 1, 1, 1, 1, 1]
    assert [len(end.result) - 2 for end in engine.outcomes.values()] == sizes
