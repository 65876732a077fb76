"""Several limits at once: all or nothing, without deadlock or starvation; and a warning where limits are nested."""

import asyncio
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import wraps
from inspect import iscoroutine

import pytest

from penstock.dialects.routecraft import Route
from penstock.policies import (
    Breaker,
    Bulkhead,
    BulkheadFull,
    InvalidPolicyError,
    Limits,
    NestedLimitsWarning,
    RateExceeded,
    RateLimiter,
    Retrying,
    Throttler,
    Timeout,
)
from penstock.testing import VirtualTime
from tests.support.tasks import together


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

    xy, yx = Limits(x, y), Limits(y, x)
    time.run(asyncio.wait_for(together(*(one(each) for _ in range(20) for each in (xy, yx))), 100))

    assert 40 == len(done)
    assert (0, 0) == (x.stats().in_use, y.stats().in_use)


def test_a_call_that_needs_two_busy_limits_is_not_starved(time):
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

    time.run(together(*(one(1) for _ in range(4))))

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


def test_a_limit_directly_around_another_warns_and_names_both():
    outer, inner = Bulkhead(5, name="overall"), RateLimiter(3, per=1, name="egress")

    with pytest.warns(
        NestedLimitsWarning, match=r"overall is put .* egress.*Limits\(overall, egress\)"
    ) as told:
        outer(inner(len))

    assert __file__ == told[0].filename
    assert ("overall", "egress") == (told[0].message.outer, told[0].message.inner)


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
def test_closing_refuses_calls_that_need_several_once_the_drain_is_over(closed):
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


def test_a_cold_key_starts_at_once_behind_a_hot_one(time, watch):
    limits = Limits(Bulkhead(2, name="all"), Bulkhead(1, key=lambda key, *_: key, name="each"))
    call = limits(watch.work)

    time.run(together(*(call(key, 0.1) for key in "aaab")))

    assert [("a", 0), ("b", 0), ("a", 0.1), ("a", 0.2)] == [
        (who, pytest.approx(at)) for who, at in watch.starts
    ]


def test_what_the_key_refuses_costs_the_others_nothing(time):
    limits = Limits(
        RateLimiter(20, per=1, mode="reject", name="all"),
        RateLimiter(1, per=1, mode="reject", key=lambda tenant: tenant, name="each"),
    )

    @limits
    async def send(tenant):
        return tenant

    tenants = [f"tenant-{n}" for n in range(19)]
    *hog, others = time.run(
        together(*(send("hog") for _ in range(20)), together(*map(send, tenants)), return_exceptions=True)
    )

    assert 19 == sum(isinstance(answer, RateExceeded) for answer in hog)
    assert tenants == others


@pytest.mark.filterwarnings("ignore::penstock.policies.NestedLimitsWarning")
def test_decorators_at_import_serve_one_event_loop_after_another():
    bulkhead, throttle, rate = Bulkhead(1), Throttler(1000, per=1), RateLimiter(1000, per=1)
    both = Limits(Bulkhead(1), Throttler(1000, per=1))

    @Retrying(2)
    @Breaker()
    @Timeout(30)
    @both
    @bulkhead
    @throttle
    @rate
    async def work(n):
        await asyncio.sleep(0)
        return n

    for _ in range(2):
        assert [0, 1, 2, 3, 4] == asyncio.run(together(*map(work, range(5))))
    assert 0 == bulkhead.stats().in_use
