"""Throttles, rates, retries, timeouts, breakers and limits together, each by itself."""

import asyncio
import threading
import time as real_time
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import wraps
from inspect import iscoroutine

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.dialects.routecraft import Route
from penstock.limits.gate import Gate
from penstock.limits.rules import Numbers, Window
from penstock.policies import (
    AttemptTimeout,
    Breaker,
    Bulkhead,
    BulkheadFull,
    CircuitOpen,
    InvalidPolicyError,
    Limits,
    NestedLimitsWarning,
    RateExceeded,
    RateLimiter,
    Retrying,
    Throttler,
    Timeout,
)
from penstock.policies.options import WaitOptions
from penstock.policies.pacing import Spaced
from penstock.testing import VirtualTime


@pytest.fixture
def time():
    return VirtualTime()


def starts_of(time, limit, count, **options):
    starts = []

    async def one():
        async with limit.slot(**options):
            starts.append(round(time.now(), 6))

    async def main():
        await asyncio.gather(*(one() for _ in range(count)))

    time.run(main())
    return starts


def test_a_throttle_spreads_starts(time):
    assert [0, 0.1, 0.2, 0.3] == starts_of(time, Throttler(10, per=1), 4)


def test_a_burst_comes_first(time):
    assert [0, 0, 0, 0.1, 0.2] == starts_of(time, Throttler(10, per=1, burst=3), 5)


def test_a_rate_counts_in_any_window(time):
    assert [0, 0, 0, 1, 1, 1, 2] == starts_of(time, RateLimiter(3, per=1), 7)


def test_heavy_starts_pay_for_their_weight(time):
    assert [0, 0.3, 0.6] == starts_of(time, Throttler(10, per=1), 3, weight=3)
    assert [0, 1, 2] == starts_of(time, RateLimiter(3, per=1), 3, weight=2)
    with pytest.raises(ValueError, match="never fits"):
        starts_of(time, RateLimiter(3, per=1), 1, weight=4)


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


@given(st.integers(1, 5), st.lists(st.tuples(st.integers(0, 40), st.integers(1, 3)), max_size=30))
def test_a_throttle_without_a_burst_is_that_of_the_engine(limit, asked):
    window = Window(limit, 10)
    gate, spaced = Gate(0), Spaced(window, 1, WaitOptions("any"))
    gate.remember(window.period, 0)
    now = 0
    for step, weight in asked:
        now += step
        by_gate = gate.opens_at(Numbers(throttle=window), weight, now)
        by_pace = spaced.opens_at(None, weight, now)

        assert (by_gate <= now) == (by_pace <= now)
        if by_gate > now:
            assert by_gate == by_pace
            continue
        gate.start(now, weight)
        spaced.take(None, weight, now, None)


def test_retry_tries_again_and_gives_up_with_the_last_error(time):
    waits = []
    calls = []

    @Retrying(4, backoff=0.1, factor=2, max_backoff=0.3, on_retry=lambda *told: waits.append(told[2]))
    async def fails():
        calls.append(time.now())
        raise LookupError(len(calls))

    with pytest.raises(LookupError, match="4"):
        time.run(fails())
    assert [0.1, 0.2, 0.3] == waits
    assert [0, 0.1, 0.3, 0.6] == [pytest.approx(at) for at in calls]


@pytest.mark.parametrize(
    "on", [LookupError, (LookupError, OSError), lambda error: isinstance(error, LookupError)]
)
def test_retry_covers_what_it_is_told_to(on):
    calls = []

    @Retrying(3, backoff=0, on=on)
    def fails(error):
        calls.append(error)
        raise error

    with pytest.raises(LookupError):
        fails(LookupError())
    with pytest.raises(ZeroDivisionError):
        fails(ZeroDivisionError())
    assert 4 == len(calls)


def test_retry_believes_an_error_about_itself(time):
    error = RuntimeError()
    error.retryable = False
    polite = RuntimeError()
    polite.retry_after = 5
    calls = []

    @Retrying(2, backoff=0)
    async def fails(which):
        calls.append(time.now())
        raise which

    for which, at in ((error, [0]), (polite, [0, 5])):
        calls.clear()
        with pytest.raises(RuntimeError):
            time.run(fails(which))
        assert at == [pytest.approx(each) for each in calls]


def test_retry_in_blocks(time):
    async def main():
        numbers = []
        async for attempt in Retrying(3, backoff=1):
            with attempt:
                numbers.append(attempt.number)
                if attempt.number < 3:
                    raise LookupError
        return numbers

    assert [1, 2, 3] == time.run(main())
    numbers = []

    def fails():
        for attempt in Retrying(2, backoff=0):
            with attempt:
                numbers.append(attempt.number)
                raise LookupError

    with pytest.raises(LookupError):
        fails()
    assert [1, 2] == numbers


@pytest.mark.parametrize("options", [{"attempts": 0}, {"backoff": -1}, {"factor": 0}])
def test_wrong_retries_are_refused(options):
    with pytest.raises(ValueError):
        Retrying(**options)


def test_a_timeout_cancels_a_task_and_says_so(time):
    @Timeout(0.5)
    async def slow():
        await asyncio.sleep(10)

    @Timeout(5)
    async def fails():
        raise TimeoutError("its own")

    async def block():
        async with Timeout(0.5):
            await asyncio.sleep(10)

    for late in (slow, block):
        with pytest.raises(AttemptTimeout) as caught:
            time.run(late())
        assert isinstance(caught.value, TimeoutError)
        assert pytest.approx(0.5) == time.now()
    with pytest.raises(TimeoutError, match="its own"):
        time.run(fails())


def test_the_earlier_of_two_timeouts_wins(time):
    @Timeout(5)
    @Timeout(1)
    async def slow():
        await asyncio.sleep(10)

    with pytest.raises(AttemptTimeout, match="1 s"):
        time.run(slow())


def test_a_plain_function_is_left_behind_and_keeps_its_slot_until_it_ends():
    bulkhead = Bulkhead(1)
    go, ended = threading.Event(), threading.Event()

    slots = []

    @Timeout(0.05)
    def slow():
        with bulkhead as slot:
            slots.append(slot)
            go.wait(30)
        ended.set()

    with pytest.raises(AttemptTimeout):
        slow()
    assert (1, 1, True) == (bulkhead.stats().in_use, bulkhead.stats().abandoned, slots[0].abandoned)
    # Another one stands in line until its own time is over, and never runs.
    with pytest.raises(AttemptTimeout):
        slow()
    until(lambda: bulkhead.stats().queued == 0)
    go.set()
    assert ended.wait(30)
    until(lambda: bulkhead.stats().in_use == 0)
    assert 1 == bulkhead.stats().acquired


def until(condition):
    ends = real_time.monotonic() + 30
    while not condition():
        assert real_time.monotonic() < ends
        threading.Event().wait(0.001)


def test_a_plain_function_in_time_gives_its_answer_or_its_error():
    @Timeout(30)
    def quick(number):
        return 10 // number

    assert 5 == quick(2)
    with pytest.raises(ZeroDivisionError):
        quick(0)
    with Timeout(30):
        pass


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


def test_limits_take_all_or_nothing(time):
    one, other = Bulkhead(1, name="one"), Bulkhead(1, name="other")
    both = Limits(one, other)

    slot = other.try_acquire()
    assert both.try_acquire() is None
    assert 0 == one.stats().in_use
    slot.release()
    slot = both.try_acquire()
    assert (1, 1) == (one.stats().in_use, other.stats().in_use)
    slot.release()
    assert (0, 0) == (one.stats().in_use, other.stats().in_use)


def test_opposite_orders_do_not_deadlock(time):
    x, y = Bulkhead(1), Bulkhead(1)
    done = []

    async def one(limits):
        async with limits:
            await asyncio.sleep(0.1)
            done.append(1)

    async def main():
        xy, yx = Limits(x, y), Limits(y, x)
        await asyncio.wait_for(asyncio.gather(*(one(each) for _ in range(20) for each in (xy, yx))), 100)

    time.run(main())

    assert 40 == len(done)
    assert (0, 0) == (x.stats().in_use, y.stats().in_use)


def test_who_needs_two_busy_limits_is_not_starved(time):
    x, y = Bulkhead(2), Bulkhead(2)
    got = []

    async def crowd(limit, seconds):
        while not got:
            async with limit:
                await asyncio.sleep(seconds)

    async def main():
        crowds = [
            asyncio.create_task(crowd(limit, span)) for limit, span in ((x, 0.1), (y, 0.13)) for _ in range(6)
        ]
        await asyncio.sleep(1)
        async with Limits(x, y):
            got.append(time.now())
        await asyncio.gather(*crowds)

    time.run(asyncio.wait_for(main(), 60))

    assert got[0] < 10


def test_limits_with_a_rate_spend_it_only_together_with_the_slots(time):
    slots, rate = Bulkhead(1), RateLimiter(2, per=10)
    both = Limits(slots, rate)
    starts = []

    async def one(seconds):
        async with both:
            starts.append(time.now())
            await asyncio.sleep(seconds)

    async def main():
        await asyncio.gather(*(one(1) for _ in range(4)))

    time.run(main())

    assert [0, 1, 10, 11] == [pytest.approx(at) for at in starts]


def test_cancelled_waits_for_several_limits_leave_nothing_behind(time):
    x, y = Bulkhead(1), Bulkhead(1)
    both = Limits(x, y)

    async def one():
        async with both:
            await asyncio.sleep(1)

    async def main():
        tasks = [asyncio.create_task(one()) for _ in range(10)]
        await asyncio.sleep(0.5)
        for task in tasks[1::2]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return time.now()

    assert 5 == pytest.approx(time.run(main()))
    assert (0, 0, 0, 0) == (x.stats().in_use, x.stats().queued, y.stats().in_use, y.stats().queued)
    assert {} == both._joints


def test_limits_refuse_as_their_members_do(time):
    both = Limits(Bulkhead(5), Bulkhead(1, mode="reject", name="small"))
    waiting = Limits(Bulkhead(1, max_wait=0.5, shed=False), Bulkhead(1))

    async def main():
        async with both:
            with pytest.raises(BulkheadFull, match="small"):
                await asyncio.create_task(entered(both))
        async with waiting:
            with pytest.raises(BulkheadFull) as caught:
                await asyncio.create_task(entered(waiting))
        return caught.value.reason

    assert "wait_timeout" == time.run(main())


async def entered(limits):
    async with limits:
        pytest.fail("it came in")


def test_threads_pass_several_limits():
    x, y = Bulkhead(2), Bulkhead(1, key="name", name="y")
    both = Limits(x, y)
    counts = []

    @both
    def work(name):
        counts.append(name)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, "abcd" * 25))

    assert 100 == len(counts)
    assert (0, 0) == (x.stats().in_use, y.stats().keys)


def test_events_balance_whatever_happens(time):
    counts = {}

    def listen(event):
        counts[event.kind] = counts.get(event.kind, 0) + 1
        raise RuntimeError("a listener that fails changes nothing")

    bulkhead = Bulkhead(2, max_wait=1.5, on_event=listen, max_queue=30, shed=False)

    async def main():
        async def one(number):
            async with bulkhead:
                await asyncio.sleep(0.3)
                if number % 3 == 0:
                    raise LookupError

        tasks = [asyncio.create_task(one(number)) for number in range(40)]
        await asyncio.sleep(0.4)
        for task in tasks[::5]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    time.run(main())
    stats = bulkhead.stats()

    ends = counts["acquired"] - 2 + counts["cancelled"] + stats.rejected["wait_timeout"]
    assert counts["queued"] == ends
    assert counts["acquired"] == counts["released"] == stats.acquired
    assert (0, 0) == (stats.in_use, stats.queued)
    assert counts["rejected"] == sum(stats.rejected.values())


def test_a_limit_directly_around_another_warns_and_names_both():
    outer, inner = Bulkhead(5, name="everybody"), RateLimiter(3, per=1, name="egress")

    with pytest.warns(
        NestedLimitsWarning, match=r"everybody is put .* egress.*Limits\(everybody, egress\)"
    ) as told:
        outer(inner(len))

    assert __file__ == told[0].filename
    assert ("everybody", "egress") == (told[0].message.outer, told[0].message.inner)


def test_a_limit_around_several_names_all_of_them():
    several = Limits(Bulkhead(1, name="a"), Bulkhead(1, name="b"))

    with pytest.warns(NestedLimitsWarning, match=r"Limits\(c, a, b\)"):
        Bulkhead(1, name="c")(several(len))


@pytest.mark.parametrize(
    "nested",
    [
        lambda: Bulkhead(1)(Retrying(2)(Bulkhead(1)(len))),
        lambda: Bulkhead(1)(Timeout(2)(Bulkhead(1)(len))),
        lambda: Bulkhead(1)(Breaker(2)(Bulkhead(1)(len))),
        lambda: Bulkhead(1)(wraps(Bulkhead(1)(len))(lambda text: 0)),
        lambda: Bulkhead(1, fair_by=lambda text: text)(Bulkhead(1)(len)),
        lambda: Bulkhead(1).call(Bulkhead(1)(len), ""),
        lambda: Route("two").concurrency(max=1).concurrency(max=2).throttle(1).source([]).to(len).run(),
    ],
    ids=["retry", "timeout", "breaker", "other", "fair", "call", "route"],
)
def test_there_is_no_warning_where_limits_would_not_do(nested):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = nested()
        if iscoroutine(result):
            asyncio.run(result)


def test_a_limit_twice_around_the_same_is_no_case_for_limits():
    bulkhead = Bulkhead(1, reentrant=True)

    assert 3 == bulkhead(bulkhead(len))("abc")


def test_a_bulkhead_with_fair_shares_is_refused_among_limits():
    with pytest.raises(InvalidPolicyError, match="has fair_by"):
        Limits(Bulkhead(1, fair_by="tenant"), Bulkhead(1))


@pytest.mark.parametrize("closed", [0, 1])
def test_closing_refuses_everybody_who_wants_several_once_the_drain_is_over(closed):
    limits = (Bulkhead(1, name="first"), Bulkhead(1, name="second"))
    both = Limits(*limits)

    async def main():
        slots = [await limit.aacquire() for limit in limits]
        waiting = [asyncio.create_task(both.aacquire()) for _ in range(3)]
        await asyncio.sleep(0.1)
        limits[closed].close(drain=1)
        await asyncio.sleep(10)
        for slot in slots:
            slot.release()
        return await asyncio.gather(*waiting, return_exceptions=True)

    assert ["closed"] * 3 == [answer.reason for answer in VirtualTime().run(main())]


def test_a_rate_limiter_has_no_burst():
    with pytest.raises(TypeError, match="burst"):
        RateLimiter(10, burst=3)
