"""Too much at once: deadlines, shedding, priorities, fair shares, limits that find their own number."""

import asyncio
import random
from contextlib import nullcontext

import pytest

from penstock.policies import AIMD, Bulkhead, BulkheadFull, Vegas, deadline_scope
from tests.support.tasks import together


async def offered(bulkhead, time, *, load, seconds, deadline, work, ambient=False):
    """Offer *load* times what the ten slots can do; return what share of the possible was answered in time."""
    good = 0
    chance = random.Random(7)

    async def one():
        nonlocal good
        began = time.now()
        try:
            with deadline_scope(deadline) if ambient else nullcontext():
                async with bulkhead if ambient else bulkhead.slot(deadline=deadline):
                    await asyncio.sleep(work)
        except BulkheadFull:
            return
        good += time.now() - began <= deadline

    rate = load * 10 / work
    async with asyncio.TaskGroup() as group:
        while time.now() < seconds:
            group.create_task(one())
            await asyncio.sleep(chance.expovariate(rate))
    return good / (10 / work * seconds)


@pytest.mark.parametrize(
    ("options", "work", "ambient"),
    [
        ({}, 0.05, False),
        ({}, 0.05, True),
        ({}, 0.2, False),
        ({"order": "adaptive_lifo", "shed": False}, 0.05, False),
    ],
    ids=["of one call", "of a scope", "of only five times the work", "with the newest first"],
)
def test_at_twice_the_load_with_a_deadline_nearly_all_that_is_done_is_of_use(time, options, work, ambient):
    bulkhead = Bulkhead(10, **options)

    goodput = time.run(offered(bulkhead, time, load=2, seconds=30, deadline=1, work=work, ambient=ambient))

    assert goodput >= 0.95
    assert bulkhead.stats().rejected


def test_max_wait_sheds_a_standing_queue_before_it_is_over(time):
    bulkhead = Bulkhead(1, max_wait=1)
    reasons = []

    async def one():
        try:
            async with bulkhead:
                await asyncio.sleep(0.1)
        except BulkheadFull as error:
            reasons.append(error.reason)

    async def main():
        async with asyncio.TaskGroup() as group:
            for _ in range(200):
                group.create_task(one())
                await asyncio.sleep(0.05)

    time.run(main())

    assert "shed" in reasons


def test_a_call_that_cannot_be_served_in_time_is_refused_at_once(time):
    bulkhead = Bulkhead(1, shed=False)

    async def one(deadline):
        async with bulkhead.slot(deadline=deadline):
            await asyncio.sleep(1)

    async def main():
        await one(100)
        callers = [asyncio.create_task(one(100)) for _ in range(5)]
        await asyncio.sleep(0.1)
        began = time.now()
        with pytest.raises(BulkheadFull) as caught:
            await one(2)
        refused = time.now() - began
        await asyncio.gather(*callers)
        return caught.value, refused

    error, refused = time.run(main())

    assert ("deadline", 0) == (error.reason, refused)
    assert 5 == pytest.approx(error.retry_after)


def test_a_deadline_that_passes_in_line_is_kept(time):
    bulkhead = Bulkhead(1)

    async def main():
        async with bulkhead:
            with pytest.raises(BulkheadFull) as caught:
                await asyncio.create_task(late())
            return caught.value, time.now()

    async def late():
        with deadline_scope(0.3):
            async with bulkhead:
                pytest.fail("it came in")

    error, at = time.run(main())

    assert ("deadline", pytest.approx(0.3)) == (error.reason, at)


def test_higher_priority_goes_first_and_age_counts(time):
    bulkhead = Bulkhead(1, order="priority", aging=1)
    order = []

    async def one(name, priority):
        async with bulkhead.slot(priority=priority):
            order.append(name)
            await asyncio.sleep(1)

    async def main():
        async with asyncio.TaskGroup() as group:
            for name, priority in (("first", 0), ("low", -5), ("high", 5), ("middle", 0)):
                group.create_task(one(name, priority))
                await asyncio.sleep(0)
            for number in range(20):
                group.create_task(one(number, 0))
                await asyncio.sleep(1)

    time.run(main())

    assert ["first", "high", "middle"] == order[:3]
    assert order.index("low") <= 8


def test_each_group_has_its_share_of_one_pool(time):
    bulkhead = Bulkhead(4, fair_by="tenant")
    inside, most = {}, {}
    order = []

    @bulkhead
    async def work(tenant):
        order.append(tenant)
        inside[tenant] = inside.get(tenant, 0) + 1
        most[tenant] = max(most.get(tenant, 0), inside[tenant])
        await asyncio.sleep(1)
        inside[tenant] -= 1

    async def main():
        hog = [asyncio.create_task(work("hog")) for _ in range(40)]
        await asyncio.sleep(0.5)
        small = [asyncio.create_task(work("small")) for _ in range(4)]
        await asyncio.gather(*hog, *small)

    time.run(main())

    assert (4, 2) == (most["hog"], most["small"])
    assert ["small", "small"] == sorted(order[4:8], reverse=True)[:2]
    assert (0, {}) == (bulkhead.stats().in_use, bulkhead.pool.groups)


def test_each_function_names_its_own_groups(time):
    bulkhead = Bulkhead(2, fair_by="tenant")
    order = []

    @bulkhead
    async def send(tenant, seconds):
        order.append(tenant)
        await asyncio.sleep(seconds)

    @bulkhead
    async def other(seconds, tenant):
        await asyncio.sleep(seconds)

    time.run(together(send("a", 3), send("a", 1), send("a", 2), send("b", 4)))

    assert ["a", "a", "b", "a"] == order


def test_a_block_needs_no_group(time):
    bulkhead = Bulkhead(1, fair_by="tenant")

    async def main():
        async with bulkhead:
            return bulkhead.stats().in_use

    assert 1 == time.run(main())
    assert 0 == bulkhead.stats().in_use


def backend(time, servers):
    """Return work that waits for one of so many *servers*, as a backend's own queue does."""
    queue = asyncio.Semaphore(servers)

    async def work():
        async with queue:
            await asyncio.sleep(0.05)

    return work


@pytest.mark.parametrize("limit", [AIMD(0.15, start=20), Vegas(start=20)])
def test_an_adaptive_limit_finds_its_number(time, limit):
    changes = []
    bulkhead = Bulkhead(limit, on_event=lambda event: event.kind == "limit_changed" and changes.append(event))

    async def main():
        work = backend(time, 5)

        async def client():
            while time.now() < 60:
                async with bulkhead:
                    await work()

        async with asyncio.TaskGroup() as group:
            for _ in range(100):
                group.create_task(client())

    time.run(main())

    assert 3 <= limit.limit <= 40
    assert changes
    assert changes[-1].max_concurrent == bulkhead.stats().limit == limit.limit


def test_an_adaptive_limit_that_is_not_used_does_not_grow(time):
    limit = AIMD(1, start=20)
    bulkhead = Bulkhead(limit)

    async def main():
        for _ in range(500):
            async with bulkhead:
                await asyncio.sleep(0.01)

    time.run(main())

    assert 20 == limit.limit


def test_cuts_come_once_for_each_round_trip_and_waiters_come_in_as_it_grows(time):
    limit = AIMD(0.1, start=10)

    assert limit.sample(200_000, 10, None, 1_000_000)
    assert 7 == limit.limit
    assert not limit.sample(200_000, 10, None, 1_000_001)
    assert limit.sample(200_000, 10, None, 1_300_000)
    assert 4 == limit.limit
    for _ in range(5):
        limit.sample(1_000, 10, None, 1_400_000)
    assert 5 == limit.limit


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (AIMD, {"latency": 0}),
        (AIMD, {"latency": 1, "backoff": 1.5}),
        (AIMD, {"latency": 1, "start": 500}),
        (Vegas, {"min": 0}),
        (Vegas, {"window": -1}),
    ],
)
def test_wrong_numbers_are_refused(kind, options):
    with pytest.raises(ValueError):
        kind(**options)
