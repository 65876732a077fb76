"""How a worker stops: first gently, then at once."""

import asyncio
import os
import signal
import threading

import pytest

from penstock.lifecycle.outcomes import Done, HandedBack
from penstock.worker import Worker, current_job
from tests.support.stub_engine import StubEngine
from tests.support.working import handlers, holding, working


@pytest.fixture
def engine():
    return StubEngine()


def end_if_stopped(engine, function, begun, stop=Worker.stop_now, **options):
    """Stop a worker once its handler has *begun*; return how the attempt ended, if it did."""
    worker = Worker(engine, handlers(function), **options)
    job = engine.enqueue(function.__name__)
    thread = threading.Thread(target=worker.run)
    thread.start()
    assert begun.wait(10)
    stop(worker)
    thread.join(10)
    assert not thread.is_alive()
    return engine.outcomes.get(job)


async def quick():
    pass


def test_a_stop_claims_nothing_more_and_lets_what_runs_finish(engine):
    begun, release = threading.Event(), threading.Event()

    def hold():
        begun.set()
        release.wait(10)
        return current_job().stopping

    worker = Worker(engine, handlers(hold), threads=1)
    job, left = engine.enqueue("hold"), engine.enqueue("hold")
    thread = threading.Thread(target=worker.run)
    thread.start()
    assert begun.wait(10)
    worker.stop()
    thread.join(0.05)
    assert thread.is_alive()
    release.set()
    thread.join(10)

    assert not thread.is_alive()
    assert engine.outcomes[job] == Done("true")
    assert left not in engine.outcomes


def test_what_was_claimed_but_not_begun_is_handed_back(engine):
    release = threading.Event()

    async def block():
        worker.stop()
        # The loop is held until the stop is known, so no other handler has begun.
        while not current_job().stopping:
            release.wait(0.001)

    worker = Worker(engine, handlers(block))
    ids = [engine.enqueue("block") for _ in range(3)]
    worker.run()

    assert [engine.outcomes[job] for job in ids] == [Done(), *[HandedBack(begun=False)] * 2]


def test_an_attempt_interrupted_before_its_first_step_is_handed_back_too(engine):
    second = []

    async def block():
        # Held until the other attempt was sent to the loop, and after it the interruption.
        second.append(engine.enqueue("block"))
        engine.until(lambda: sum(taken for _, _, taken in engine.claims) == 2)
        worker.stop_now()
        while not current_job()._attempt.shift.over:
            threading.Event().wait(0.001)
        threading.Event().wait(0.05)

    worker = Worker(engine, handlers(block))
    first = engine.enqueue("block")
    worker.run()

    assert [engine.outcomes.get(job) for job in (first, *second)] == [Done(), HandedBack(begun=False)]


def test_a_stop_before_the_run_is_a_stop(engine):
    worker = Worker(engine, handlers(quick))
    worker.stop()
    worker.run()


def test_stopping_now_hands_back_async_handlers_once_they_have_ended(engine):
    begun, order = threading.Event(), []
    settle = engine.settle

    async def hold():
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            order.append("ended")

    def noted(settlements):
        order.append("settled")
        return settle(settlements)

    engine.settle = noted

    assert end_if_stopped(engine, hold, begun) == HandedBack(begun=True)
    assert order == ["ended", "settled"]


def test_stopping_now_interrupts_plain_functions(engine):
    begun = threading.Event()

    def spin():
        begun.set()
        while True:
            pass

    assert end_if_stopped(engine, spin, begun) == HandedBack(begun=True)


def test_a_plain_function_that_will_not_end_keeps_its_job_until_its_lease_runs_out(engine):
    hold, begun, release = holding()

    assert end_if_stopped(engine, hold, begun) is None
    release.set()


def test_a_drain_that_takes_too_long_ends_at_once(engine):
    begun = threading.Event()

    async def hold():
        begun.set()
        await asyncio.sleep(60)

    end = end_if_stopped(engine, hold, begun, Worker.stop, drain_timeout="10ms")
    assert end == HandedBack(begun=True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_stops_and_the_second_ends(engine, number):
    async def hold():
        os.kill(os.getpid(), number)
        while not current_job().stopping:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        os.kill(os.getpid(), number)
        await asyncio.sleep(60)

    before = signal.getsignal(number)
    job = engine.enqueue("hold")
    Worker(engine, handlers(hold)).run(signals=True)

    assert engine.outcomes[job] == HandedBack(begun=True)
    assert signal.getsignal(number) is before


def test_a_keyboard_interrupt_that_is_not_trapped_ends_the_run(engine):
    async def hold():
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(60)

    job = engine.enqueue("hold")
    with pytest.raises(KeyboardInterrupt):
        Worker(engine, handlers(hold)).run()

    assert engine.outcomes[job] == HandedBack(begun=True)


def test_no_thread_outlives_the_run(engine):
    before = set(threading.enumerate())

    def plain():
        pass

    engine.enqueue("quick", count=3)
    engine.enqueue("plain", count=3)
    Worker(engine, handlers(quick, plain)).run(until_idle=True)

    assert set(threading.enumerate()) == before


def test_a_handler_that_ends_the_event_loop_takes_no_other_along(engine, caplog):
    async def murder():
        asyncio.get_running_loop().stop()
        await asyncio.sleep(60)

    deed = engine.enqueue("murder")
    with working(engine, murder, quick):
        engine.ended(deed)
        for _ in range(100):
            # While another loop is being started, jobs are handed back.
            job = engine.enqueue("quick")
            engine.ended(job)
            if engine.outcomes[job] != HandedBack(begun=False):
                break

    assert engine.outcomes[deed] == HandedBack(begun=True)
    assert engine.outcomes[job] == Done()
    assert "ended the event loop" in caplog.text
