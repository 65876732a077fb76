"""Throttlers and rate limiters: starts spread out, or counted in any window."""

import asyncio
import time as real_time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.limits.gate import Gate
from penstock.limits.rules import Numbers, Window
from penstock.policies import RateExceeded, RateLimiter, Throttler, Timeout
from penstock.policies.options import WaitOptions
from penstock.policies.pacing import Spaced
from tests.support.tasks import together


def starts_of(time, limit, count, **options):
    starts = []

    async def one():
        async with limit.slot(**options):
            starts.append(round(time.now(), 6))

    time.run(together(*(one() for _ in range(count))))
    return starts


@pytest.mark.parametrize(
    ("limit", "starts"),
    [
        (lambda: Throttler(10, per=1), [0, 0.1, 0.2, 0.3]),
        (lambda: Throttler(10, per=1, burst=3), [0, 0, 0, 0.1, 0.2]),
        (lambda: RateLimiter(3, per=1), [0, 0, 0, 1, 1, 1, 2]),
    ],
    ids=["spread by a throttle", "with a burst first", "counted in any window"],
)
def test_starts_are(time, limit, starts):
    assert starts == starts_of(time, limit(), len(starts))


def test_heavy_starts_pay_for_their_weight(time):
    assert [0, 0.3, 0.6] == starts_of(time, Throttler(10, per=1), 3, cost=3)
    assert [0, 1, 2] == starts_of(time, RateLimiter(3, per=1), 3, cost=2)
    with pytest.raises(ValueError, match="never fits"):
        starts_of(time, RateLimiter(3, per=1), 1, cost=4)


def test_reject_mode_says_when_to_come_back(time):
    async def main(limit):
        async with limit:
            pass
        with pytest.raises(RateExceeded) as caught:
            async with limit:
                pytest.fail("it came in")
        return caught.value

    for limit in (Throttler(10, per=1, mode="reject"), RateLimiter(1, per=0.1, mode="reject")):
        error = time.run(main(limit))
        assert ("busy", pytest.approx(0.1), True) == (error.reason, error.retry_after, error.retryable)


def test_waits_for_a_start_are_bounded(time):
    async def main():
        throttle = Throttler(1, per=10, max_wait=1, shed=False)
        async with throttle:
            pass
        with pytest.raises(RateExceeded) as caught:
            async with throttle:
                pytest.fail("it came in")
        return caught.value.reason, time.now()

    assert ("wait_timeout", pytest.approx(1)) == time.run(main())


def test_threads_and_tasks_keep_one_rate():
    throttle = Throttler(200, per=1)
    starts = []

    def in_thread():
        for _ in range(5):
            with throttle:
                starts.append(real_time.monotonic())

    async def in_task():
        for _ in range(5):
            async with throttle:
                starts.append(real_time.monotonic())

    with ThreadPoolExecutor(4) as threads:
        done = [threads.submit(in_thread) for _ in range(2)] + [
            threads.submit(lambda: asyncio.run(in_task())) for _ in range(2)
        ]
        for each in done:
            each.result(timeout=60)

    assert 20 == len(starts) == throttle.stats().acquired
    assert max(starts) - min(starts) >= 19 * 0.005 - 0.004


@given(
    st.integers(1, 5),
    st.integers(1, 4),
    st.lists(st.tuples(st.integers(0, 40), st.integers(1, 5)), max_size=30),
)
def test_a_throttler_is_the_throttle_of_the_engine(limit, burst, asked):
    window = Window(limit, 10, burst)
    gate, spaced = Gate(0), Spaced(Window(limit, 10), burst, WaitOptions("any"))
    now = 1
    for step, weight in asked:
        now += step
        gate.remember(Numbers(throttle=window), now)
        by_gate = gate.opens_at(Numbers(throttle=window), weight, now)
        by_pace = spaced.opens_at(None, weight, now)

        assert (by_gate <= now) == (by_pace <= now)
        if by_gate > now:
            assert by_gate == by_pace
            continue
        gate.start(now, weight)
        spaced.take(None, weight, now, None)


def test_a_heavy_start_waits_until_the_burst_holds_its_weight(time):
    throttle = Throttler(10, per=1, burst=3)

    assert [0, 0.3, 0.6] == starts_of(time, throttle, 3, cost=3)


@pytest.mark.parametrize(
    "limit", [partial(RateLimiter, 2), partial(Throttler, 1, burst=2)], ids=["rate", "throttle"]
)
def test_keys_that_do_not_matter_any_more_are_forgotten(time, limit):
    limit = limit(key=str)

    async def main():
        for key in ("a", "b"):
            with limit.slot(key):
                assert limit.stats().keys
        await asyncio.sleep(2)
        return limit.stats().keys

    assert 0 == time.run(main())
    assert [] == limit.pool._looks


@pytest.mark.parametrize("limit", [RateLimiter, Throttler])
def test_a_key_that_does_not_matter_any_more_makes_room_for_another(time, limit):
    limit = limit(1, per=1, key=str, max_keys=1)

    async def main():
        async with limit.slot("a"):
            assert limit.try_acquire("b") is None
        await asyncio.sleep(1)
        async with limit.slot("b"):
            return limit.stats().keys

    assert 1 == time.run(main())


def test_a_rate_limiter_has_no_burst():
    with pytest.raises(TypeError, match="burst"):
        RateLimiter(10, burst=3)


def test_waits_that_were_given_up_delay_no_other_call(time, watch):
    throttle = Throttler(20, per=1)
    call = throttle(watch.work)

    async def main():
        await call("first", 0)
        callers = [asyncio.create_task(Timeout(0.04)(call)(n, 0)) for n in range(40)]
        await asyncio.gather(*callers, return_exceptions=True)
        began = time.now()
        await call("next", 0)
        return time.now() - began

    waited = time.run(main())

    assert waited <= 1 / 20
    assert ["first", "next"] == watch.order


@pytest.mark.parametrize("limit", [RateLimiter, Throttler])
def test_an_exhausted_key_delays_no_other(time, watch, limit):
    call = limit(1, per=10, key=lambda key, *_: key)(watch.work)

    async def main():
        began = time.now()
        blocked = [asyncio.create_task(call("a", 0)) for _ in range(3)]
        await asyncio.sleep(0)
        await call("b", 0)
        waited = time.now() - began
        for task in blocked:
            task.cancel()
        await asyncio.gather(*blocked, return_exceptions=True)
        return waited

    assert 0 == time.run(main())
    assert ["a", "b"] == watch.order
