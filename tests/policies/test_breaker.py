"""Breakers: when they open, what probes do, when they close."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock.policies import Breaker, CircuitOpen


def test_a_breaker_opens_probes_and_closes(time):
    kinds = []
    breaker = Breaker(2, window=10, cooldown=5, on_event=lambda event: kinds.append(event.kind), name="shop")
    healthy = False

    @breaker
    async def call():
        if not healthy:
            raise ConnectionError

    async def attempt():
        try:
            await call()
        except ConnectionError:
            return "failed"
        except CircuitOpen as error:
            return error.retry_after
        return "done"

    async def main():
        nonlocal healthy
        answers = [await attempt(), await attempt(), await attempt()]
        await asyncio.sleep(5)
        answers += [await attempt(), await attempt()]
        await asyncio.sleep(5)
        healthy = True
        return [*answers, await attempt(), await attempt()]

    assert ["failed", "failed", 5, "failed", 5, "done", "done"] == time.run(main())
    assert ["opened", "rejected", "half_open", "opened", "rejected", "half_open", "closed"] == kinds


def test_old_failures_are_forgotten_and_what_is_no_failure_does_not_count(time):
    breaker = Breaker(2, window=1, is_failure=lambda error: isinstance(error, OSError))

    async def main():
        for error in (OSError, LookupError, OSError):
            with pytest.raises(error):
                async with breaker:
                    raise error
            await asyncio.sleep(1)
        return breaker.state

    assert "closed" == time.run(main())


def test_what_began_before_it_opened_says_nothing_afterwards(time):
    breaker = Breaker(1, cooldown=1)

    @breaker
    async def call(seconds, error=None):
        await asyncio.sleep(seconds)
        if error:
            raise error

    async def main():
        stale = asyncio.create_task(call(1.5))
        await asyncio.sleep(0)
        with pytest.raises(OSError):
            await call(0, OSError())
        await asyncio.sleep(1.2)
        probe = asyncio.create_task(call(0.5, OSError()))
        await stale
        during = breaker.state
        with pytest.raises(OSError):
            await probe
        return during, breaker.state

    assert ("half_open", "open") == time.run(main())


def test_a_fallback_answers_in_place_of_an_open_breaker(time):
    breaker = Breaker(1, fallback=lambda number: -number)

    @breaker
    def call(number):
        raise OSError

    with pytest.raises(OSError):
        call(1)
    assert -2 == call(2)


def test_a_probe_that_hangs_does_not_wedge_the_breaker(time):
    breaker = Breaker(1, cooldown=1)
    healthy = []

    @breaker
    async def call(mode):
        if mode == "fail":
            raise ConnectionError
        await (asyncio.sleep(10_000) if mode == "hang" else asyncio.sleep(0))
        healthy.append(mode)

    async def main():
        with pytest.raises(ConnectionError):
            await call("fail")
        await asyncio.sleep(1)
        hung = asyncio.create_task(call("hang"))
        await asyncio.sleep(0)
        with pytest.raises(CircuitOpen):
            await call("fine")
        await asyncio.sleep(1)
        await call("fine")
        state = breaker.state
        hung.cancel()
        await asyncio.gather(hung, return_exceptions=True)
        return state

    assert "closed" == time.run(main())
    assert ("closed", ["fine"]) == (breaker.state, healthy)


def test_no_more_probes_than_allowed_reach_the_backend(time):
    breaker = Breaker(1, cooldown=1, probes=2)
    reached = []

    @breaker
    async def call(fails):
        reached.append(fails)
        await asyncio.sleep(0.1)
        if fails:
            raise ConnectionError

    async def main():
        with pytest.raises(ConnectionError):
            await call(fails=True)
        refused = await asyncio.gather(*(call(fails=False) for _ in range(5)), return_exceptions=True)
        await asyncio.sleep(1)
        reached.clear()
        answers = await asyncio.gather(*(call(fails=False) for _ in range(50)), return_exceptions=True)
        return refused, answers

    refused, answers = time.run(main())

    assert [CircuitOpen] * 5 == [type(answer) for answer in refused]
    assert 2 == len(reached)
    assert 48 == sum(isinstance(answer, CircuitOpen) for answer in answers)
    assert "closed" == breaker.state


def test_a_closed_breaker_lets_threads_run_side_by_side():
    breaker = Breaker(5)
    together = threading.Barrier(10)

    @breaker
    def call():
        return together.wait(timeout=20)

    with ThreadPoolExecutor(10) as threads:
        answers = [threads.submit(call) for _ in range(10)]

        assert set(range(10)) == {answer.result(timeout=30) for answer in answers}
