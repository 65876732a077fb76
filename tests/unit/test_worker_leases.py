"""Who keeps a job, and who learns that it was lost or is no longer wanted."""

import asyncio
import threading

import pytest

from penstock.clock import SECOND
from penstock.errors import StoreDownError
from penstock.lifecycle.outcomes import Cancelled, Done, HandedBack
from penstock.worker import current_job, leases
from tests.support.stub_engine import StubEngine
from tests.support.working import holding, working

LEASE = "300ms"


@pytest.fixture
def engine():
    return StubEngine()


def end_while_working(engine, function, *, cancelled=False, lease=LEASE):
    """Return how a job of *function* ends in a worker that goes on."""
    job = engine.enqueue(function.__name__)
    if cancelled:
        engine.cancelled.add(job)
    with working(engine, function, lease=lease):
        engine.ended(job)
    return engine.outcomes[job]


async def hang():
    await asyncio.sleep(60)


def wait_until_the_lease_is_lost():
    while not current_job().lease_lost:
        threading.Event().wait(0.002)


def test_the_leases_of_long_jobs_are_renewed_and_of_short_ones_not(engine):
    hold, _, release = holding()

    async def quick():
        pass

    held = engine.enqueue("hold")
    with working(engine, hold, quick, lease=LEASE):
        engine.until(lambda: len(engine.beats) >= 4)
        engine.ended(engine.enqueue("quick"))
        release.set()
        engine.ended(held)

    assert all(held in beat for beat in engine.beats)
    assert engine.outcomes[held] == Done()


def test_a_blocked_event_loop_keeps_its_leases(engine):
    async def block():
        engine.until(lambda: len(engine.beats) >= 4)
        return current_job().lease_lost

    assert end_while_working(engine, block) == Done("false")


def test_a_plain_handler_sees_that_its_lease_was_lost_and_its_outcome_is_refused(engine):
    seen = threading.Event()

    def hold():
        wait_until_the_lease_is_lost()
        seen.set()

    job = engine.enqueue("hold")
    engine.lost.add(job)
    with working(engine, hold, lease=LEASE):
        assert seen.wait(10)
        engine.until(lambda: engine.batches)

    assert job not in engine.outcomes


def test_an_async_handler_that_lost_its_lease_is_cancelled(engine):
    cancelled = threading.Event()

    async def hold():
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            assert current_job().lease_lost
            cancelled.set()
            raise

    engine.lost.add(engine.enqueue("hold"))
    with working(engine, hold, lease=LEASE):
        assert cancelled.wait(10)


def test_a_lease_that_cannot_be_renewed_in_time_is_lost_by_the_workers_own_clock(engine):
    cancelled = threading.Event()

    async def hold():
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    def never_answer(verb):
        if verb == "heartbeat":
            assert cancelled.wait(10)
            raise StoreDownError("gone")

    engine.hook = never_answer

    # No other worker had taken it yet, so the store may still have it back.
    assert end_while_working(engine, hold) == HandedBack(begun=True)
    assert cancelled.is_set()


def test_a_heartbeat_that_failed_is_tried_again_soon(engine):
    failed = []

    def fail(verb):
        if verb == "heartbeat" and len(failed) < 2:
            failed.append(verb)
            raise StoreDownError("gone")

    async def hold():
        while len(engine.beats) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.002)

    engine.hook = fail

    assert end_while_working(engine, hold, lease="600ms") == Done()


def test_an_async_handler_is_cancelled_when_that_was_asked(engine):
    assert end_while_working(engine, hang, cancelled=True) == Cancelled("cancelled while running")


def test_a_cancel_is_noticed_long_before_the_next_renewal_is_due(engine, monkeypatch):
    monkeypatch.setattr(leases, "ASK_EVERY", SECOND // 50)
    job = engine.enqueue("hang")
    with working(engine, hang, lease="1h"):
        engine.until(lambda: engine.claims)
        engine.cancelled.add(job)
        engine.change()
        engine.ended(job)

    assert engine.outcomes[job] == Cancelled("cancelled while running")


def test_a_quiet_store_is_not_asked_for_cancels(engine, monkeypatch):
    monkeypatch.setattr(leases, "ASK_EVERY", SECOND // 50)
    hold, _, release = holding()
    job = engine.enqueue("hold")
    with working(engine, hold, lease="1h"):
        release.wait(0.3)
        release.set()
        engine.ended(job)

    assert len(engine.beats) <= 2


def test_a_plain_handler_sees_that_its_cancelling_was_asked(engine):
    def hold():
        while True:
            current_job().raise_if_stopped()
            threading.Event().wait(0.002)

    assert end_while_working(engine, hold, cancelled=True) == Cancelled("cancelled while running")


def test_a_handler_that_will_not_be_cancelled_may_finish(engine):
    async def hold():
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return "finished first"

    assert end_while_working(engine, hold, cancelled=True) == Done('"finished first"')


def test_a_handler_that_cancels_itself_has_failed(engine):
    async def odd():
        raise asyncio.CancelledError

    assert end_while_working(engine, odd).kind == "CancelledError"


def test_progress_refused_by_the_store_means_the_lease_is_lost(engine):
    seen = threading.Event()

    def hold():
        current_job().progress(1)
        wait_until_the_lease_is_lost()
        seen.set()

    engine.lost.add(engine.enqueue("hold"))
    with working(engine, hold):
        assert seen.wait(10)
