"""Floating limits are computed by workers, and rubbish is refused."""

import threading

import pytest

from penstock.errors import InvalidLimitError
from penstock.job import Refresh
from penstock.worker import Worker
from penstock.worker.refresh import whole
from tests.support.stub_engine import StubEngine


def refresh(handler):
    return Refresh(1, "api", "", handler, 5, "{}", 1, None)


def values(refreshers, *handlers):
    engine = StubEngine(due=[refresh(handler) for handler in handlers])
    worker = Worker(engine, {}, refreshers=refreshers)
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        engine.until(lambda: len(engine.values) == len(handlers))
    finally:
        worker.stop()
        thread.join(10)
    return engine.values


def test_a_refresher_may_be_plain_or_async():
    async def waits(asked):
        return asked.current + 2

    assert values({"plain": lambda asked: asked.current + 1}, "plain") == [("api", 6, "")]
    assert values({"waits": waits}, "waits") == [("api", 7, "")]


def test_a_refresher_that_returns_an_awaitable_is_awaited():
    async def answer():
        return 3

    assert values({"odd": lambda _: answer()}, "odd") == [("api", 3, "")]


def test_a_refresher_that_fails_is_reported():
    def fail(_):
        raise ConnectionError("no answer")

    assert values({"fail": fail}, "fail") == [("api", None, "ConnectionError: no answer")]


def test_more_refreshes_than_run_at_once_are_all_done():
    assert len(values({"plain": lambda _: 1}, *["plain"] * 9)) == 9


@pytest.mark.parametrize(("value", "number"), [(0, 0), (7, 7), (5.0, 5)])
def test_whole_numbers_are_taken(value, number):
    assert whole(value) == number


@pytest.mark.parametrize("value", [True, -1, 1.5, float("nan"), float("inf"), "5", None, [], 2**60, -0.5])
def test_rubbish_is_refused(value):
    with pytest.raises(InvalidLimitError):
        whole(value)
