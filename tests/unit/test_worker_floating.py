"""Floating limits are computed by workers, and rubbish is refused."""

import asyncio
import threading

import pytest

from penstock.clock import MILLISECOND, SECOND
from penstock.errors import InvalidLimitError
from penstock.job import Refresh
from penstock.worker import floating
from penstock.worker.floating import AT_ONCE, Refresher, whole
from tests.support.stub_engine import StubEngine
from tests.support.working import working

SOON = 50 * MILLISECOND


def refresh(handler, gate=1, **facts):
    return Refresh(gate, "api", "", handler, 5, "{}", 1, None, **facts)


def values(refreshers, *handlers):
    engine = StubEngine(due=[refresh(handler) for handler in handlers])
    with working(engine, refreshers={name: Refresher(compute) for name, compute in refreshers.items()}):
        engine.until(lambda: len(engine.values) == len(handlers))
    return engine.values


@pytest.fixture
def quick(monkeypatch):
    """Look every few milliseconds what is due and what took too long."""
    monkeypatch.setattr(floating, "EVERY", 0.01)
    monkeypatch.setattr(floating, "TO_CANCEL", 200 * MILLISECOND)


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


def test_a_refresher_that_ends_its_thread_is_reported():
    def leave(_):
        raise SystemExit(3)

    assert values({"leave": leave}, "leave") == [("api", None, "SystemExit: 3")]


def test_a_timeout_of_its_own_is_told_as_it_is():
    async def fail(_):
        raise TimeoutError("the pool said nothing")

    assert values({"fail": fail}, "fail") == [("api", None, "TimeoutError: the pool said nothing")]


def test_more_refreshes_than_run_at_once_are_all_done():
    assert len(values({"plain": lambda _: 1}, *["plain"] * 9)) == 9


def test_a_value_outside_of_its_bounds_is_moved_to_the_nearest_and_told(caplog):
    engine = StubEngine(due=[refresh("few", least=2), refresh("many", least=2, most=9)])
    computing = {"few": Refresher(lambda _: 0), "many": Refresher(lambda _: 100)}

    with working(engine, refreshers=computing):
        engine.until(lambda: len(engine.values) == 2)

    assert [("api", 2, ""), ("api", 9, "")] == sorted(engine.values)
    assert (
        "limit api: 100 was computed, but it must be at least 2 and at most 9; 9 is used" in caplog.messages
    )
    assert "limit api: 0 was computed, but it must be at least 2; 2 is used" in caplog.messages


class TestTimeLimit:
    def test_a_coroutine_that_takes_too_long_is_cancelled(self, quick):
        cancelled = threading.Event()

        async def hang(_):
            try:
                await asyncio.sleep(60)
            finally:
                cancelled.set()

        engine = StubEngine(due=[refresh("hang")])
        with working(engine, refreshers={"hang": Refresher(hang, SOON)}):
            engine.until(lambda: engine.values)
            assert cancelled.wait(10)

        assert [("api", None, "TimeoutError: it took longer than 50ms")] == engine.values

    def test_a_function_that_hangs_is_given_up_and_makes_room_for_others(self, quick):
        """Four that hung were all that a worker had, and it computed nothing ever after."""
        free = threading.Event()
        engine = StubEngine(due=[refresh("hang", gate) for gate in range(AT_ONCE)])
        computing = {"hang": Refresher(lambda _: free.wait(30), SOON), "plain": Refresher(lambda _: 7)}

        with working(engine, refreshers=computing):
            engine.until(lambda: len(engine.values) == AT_ONCE)
            engine.due = [refresh("plain")]
            engine.until(lambda: len(engine.values) == AT_ONCE + 1)
            free.set()

        assert ("api", 7, "") == engine.values[-1]
        assert {"TimeoutError: it took longer than 50ms"} == {error for _, _, error in engine.values[:-1]}

    def test_a_handler_of_which_several_calls_hang_is_not_called_until_one_ends(self, quick):
        free = threading.Event()
        engine = StubEngine(due=[refresh("hang", gate) for gate in range(AT_ONCE)])
        asked = []
        engine.wanted = asked.append
        computing = {"hang": Refresher(lambda _: free.wait(30) and 1, SOON), "plain": Refresher(lambda _: 7)}

        with working(engine, refreshers=computing):
            engine.until(lambda: len(engine.values) == AT_ONCE)
            engine.until(lambda: asked[-1:] == [["plain"]])
            free.set()
            engine.until(lambda: asked[-1] == ["hang", "plain"])

        assert AT_ONCE == len(engine.values)  # what they returned in the end counts for nothing

    def test_a_refresh_that_takes_long_is_renewed(self, quick):
        free = threading.Event()
        engine = StubEngine(due=[refresh("slow", 3)])

        with working(engine, refreshers={"slow": Refresher(lambda _: free.wait(30) and 4)}, lease=0.06):
            engine.until(lambda: len(engine.renewed) > 2)
            free.set()
            engine.until(lambda: engine.values)

        assert {(3, 1)} == set(engine.renewed)
        assert [("api", 4, "")] == engine.values

    def test_half_a_minute_is_what_a_refresher_has_unless_it_says_otherwise(self):
        assert 30 * SECOND == Refresher(lambda _: 1).timeout


@pytest.mark.parametrize(("value", "number"), [(0, 0), (7, 7), (5.0, 5)])
def test_whole_numbers_are_taken(value, number):
    assert whole(value) == number


@pytest.mark.parametrize("value", [True, -1, 1.5, float("nan"), float("inf"), "5", None, [], 2**60, -0.5])
def test_rubbish_is_refused(value):
    with pytest.raises(InvalidLimitError):
        whole(value)
