"""Who keeps a job, and who learns that it was lost or is no longer wanted."""

import asyncio
import threading

import pytest

from penstock.clock import SECOND
from penstock.errors import StoreDownError
from penstock.lifecycle.outcomes import Cancelled, Done, HandedBack
from penstock.worker import current_job, leases
from tests.support.stub_engine import StubEngine
from tests.support.working import working

LEASE = "300ms"


@pytest.fixture
def engine():
    return StubEngine()


def test_the_leases_of_long_jobs_are_renewed_and_of_short_ones_not(engine):
    release = threading.Event()

    def hold():
        release.wait(10)

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

    job = engine.enqueue("block")
    with working(engine, block, lease=LEASE):
        engine.ended(job)

    assert engine.outcomes[job] == Done("false")


def test_a_plain_handler_sees_that_its_lease_was_lost_and_its_outcome_is_refused(engine):
    seen = threading.Event()

    def hold():
        while not current_job().lease_lost:
            threading.Event().wait(0.002)
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

    def hang(verb):
        if verb == "heartbeat":
            assert cancelled.wait(10)
            raise StoreDownError("gone")

    engine.hook = hang
    job = engine.enqueue("hold")
    with working(engine, hold, lease=LEASE):
        assert cancelled.wait(10)
        engine.ended(job)

    # Nobody else had taken it yet, so the store may still have it back.
    assert engine.outcomes[job] == HandedBack(begun=True)


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
    job = engine.enqueue("hold")
    with working(engine, hold, lease="600ms"):
        engine.ended(job)

    assert engine.outcomes[job] == Done()


def test_an_async_handler_is_cancelled_when_that_was_asked(engine):
    async def hold():
        await asyncio.sleep(60)

    job = engine.enqueue("hold")
    engine.cancelled.add(job)
    with working(engine, hold, lease=LEASE):
        engine.ended(job)

    assert engine.outcomes[job] == Cancelled("cancelled while running")


def test_a_cancel_is_noticed_long_before_the_next_renewal_is_due(engine, monkeypatch):
    monkeypatch.setattr(leases, "ASK_EVERY", SECOND // 50)

    async def hold():
        await asyncio.sleep(60)

    job = engine.enqueue("hold")
    with working(engine, hold, lease="1h"):
        engine.until(lambda: engine.claims)
        engine.cancelled.add(job)
        engine.change()
        engine.ended(job)

    assert engine.outcomes[job] == Cancelled("cancelled while running")


def test_a_quiet_store_is_not_asked_for_cancels(engine, monkeypatch):
    monkeypatch.setattr(leases, "ASK_EVERY", SECOND // 50)
    release = threading.Event()

    def hold():
        release.wait(10)

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

    job = engine.enqueue("hold")
    engine.cancelled.add(job)
    with working(engine, hold, lease=LEASE):
        engine.ended(job)

    assert engine.outcomes[job] == Cancelled("cancelled while running")


def test_a_handler_that_will_not_be_cancelled_may_finish(engine):
    async def hold():
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return "finished first"

    job = engine.enqueue("hold")
    engine.cancelled.add(job)
    with working(engine, hold, lease=LEASE):
        engine.ended(job)

    assert engine.outcomes[job] == Done('"finished first"')


def test_a_handler_that_cancels_itself_has_failed(engine):
    async def odd():
        raise asyncio.CancelledError

    job = engine.enqueue("odd")
    with working(engine, odd):
        engine.ended(job)

    assert engine.outcomes[job].kind == "CancelledError"


def test_progress_refused_by_the_store_means_the_lease_is_lost(engine):
    seen = threading.Event()

    def hold():
        current_job().progress(1)
        while not current_job().lease_lost:
            threading.Event().wait(0.002)
        seen.set()

    engine.lost.add(engine.enqueue("hold"))
    with working(engine, hold):
        assert seen.wait(10)
