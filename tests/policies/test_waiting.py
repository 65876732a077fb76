"""Waits at a bulkhead: cancelled, timed out, overtaken, closed; no slot is lost and no event is left open."""

import asyncio

import pytest

from penstock.policies import Bulkhead, BulkheadFull, RateLimiter, Throttler, Timeout


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


def test_nothing_is_acquired_without_a_slot(time, watch):
    events = []
    bulkhead = Bulkhead(1, on_event=events.append)
    call = Timeout(0.1)(bulkhead(watch.work))

    async def main():
        holder = asyncio.create_task(bulkhead.acall(watch.work, "holder"))
        await asyncio.sleep(0)
        with pytest.raises(TimeoutError):
            await call("late")
        await holder

    time.run(main())

    assert ["acquired", "queued", "cancelled", "released"] == [event.kind for event in events]
    assert all(event.in_use <= 1 for event in events)


def test_other_keys_never_push_out_a_busy_one(time, watch):
    bulkhead = Bulkhead(1, key=lambda key, *_: key, max_keys=10)
    call = bulkhead(watch.work)

    async def nothing(key):
        await asyncio.sleep(0.001)

    async def main():
        holder = asyncio.create_task(call("long", 100))
        await asyncio.sleep(0)
        refused = 0
        for first in range(0, 10_000, 20):
            crowd = (bulkhead.acall(nothing, number) for number in range(first, first + 20))
            answers = await asyncio.gather(*crowd, return_exceptions=True)
            refused += sum(isinstance(answer, BulkheadFull) for answer in answers)
        others = [asyncio.create_task(call("long", 1)) for _ in range(3)]
        await asyncio.sleep(1)
        running = watch.order
        await asyncio.gather(holder, *others)
        return running, refused

    running, refused = time.run(main())

    assert (["long"], 1) == (running, watch.peak)
    assert 5_000 < refused < 6_000  # nine of twenty come in beside the holder


def test_closing_lets_no_crowd_in(time, watch):
    bulkhead = Bulkhead(2)
    call = bulkhead(watch.work)

    async def main():
        callers = [asyncio.create_task(call(n, 0.1)) for n in range(50)]
        await asyncio.sleep(0.01)
        bulkhead.close(drain=1)
        return await asyncio.gather(*callers, return_exceptions=True)

    answers = time.run(main())
    refused = [answer for answer in answers if isinstance(answer, BulkheadFull)]

    assert 2 == watch.peak
    assert 20 <= 50 - len(refused) <= 22
    assert {"closed"} == {error.reason for error in refused}


def test_cancelled_waiters_take_no_capacity_along(time, watch):
    bulkhead = Bulkhead(3)

    async def one(n):
        async with bulkhead:
            await watch.work(n)

    async def main():
        first = [asyncio.create_task(one(n)) for n in range(3)]
        waiting = [asyncio.create_task(one("cancelled")) for _ in range(2)]
        await asyncio.sleep(0.1)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*first, *waiting, return_exceptions=True)
        await asyncio.gather(*(one(n) for n in range(6)))

    time.run(main())

    assert 3 == watch.peak
    assert pytest.approx(3) == time.now()


@pytest.mark.parametrize(
    ("limit", "heavy"),
    [(Bulkhead(10), {"weight": 10}), (RateLimiter(10, per=0.1), {"cost": 10})],
    ids=["slots", "starts"],
)
def test_a_heavy_one_among_light_ones_gets_its_share(time, limit, heavy):
    async def heavy_one():
        async with limit.slot(**heavy):
            return time.now()

    async def light():
        while True:
            async with limit:
                await asyncio.sleep(0.05)

    async def main():
        crowd = [asyncio.create_task(light()) for _ in range(20)]
        await asyncio.sleep(1)
        got = await asyncio.wait_for(heavy_one(), 2)
        for task in crowd:
            task.cancel()
        await asyncio.gather(*crowd, return_exceptions=True)
        return got

    assert time.run(main()) <= 1.4


def test_idle_keys_are_not_remembered(time):
    bulkhead = Bulkhead(1, key=lambda key: key)
    rate = RateLimiter(1, per=1, key=lambda key: key)
    throttle = Throttler(1, per=1, key=lambda key: key)

    async def nothing(key):
        pass

    async def main():
        for number in range(10_000):
            slot = bulkhead.try_acquire(number)
            slot.release()
        for number in range(1_000):
            await rate.acall(nothing, number)
            await throttle.acall(nothing, number)
        await asyncio.sleep(2)
        for _ in range(1_000):
            await rate.acall(nothing, "another")
            await throttle.acall(nothing, "another")

    limited = [rate, throttle]
    time.run(asyncio.wait_for(main(), 3000))

    assert (0, 0) == (len(bulkhead.pool.used), len(bulkhead.pool.wait_lists))
    assert [1, 1] == [len(limit.pool.gates) for limit in limited]  # without being asked to forget


def test_a_newcomer_overtakes_no_call_and_costs_none_its_place(time, watch):
    bulkhead = Bulkhead(1, max_queue=2)
    call = bulkhead(watch.work)

    async def comes_back():
        await call(0, 1)
        # The slot is free in this very moment, but others wait for it.
        return await call("newcomer", 1)

    async def main():
        tasks = [asyncio.create_task(comes_back()), *(asyncio.create_task(call(n, 1)) for n in (1, 2))]
        await asyncio.sleep(0.5)
        tasks.append(asyncio.create_task(call("refused")))
        return await asyncio.gather(*tasks, return_exceptions=True)

    newcomer, *served, refused = time.run(main())

    assert ("newcomer", [1, 2]) == (newcomer, served)
    assert isinstance(refused, BulkheadFull)
    assert [0, 1, 2, "newcomer"] == watch.order


def test_waits_that_time_out_destroy_no_permit(time, watch):
    bulkhead = Bulkhead(2, max_wait=0.1)
    call = bulkhead(watch.work)

    async def main():
        holders = [asyncio.create_task(call(n, 1)) for n in range(2)]
        late = await asyncio.gather(*(call("late") for _ in range(20)), return_exceptions=True)
        await asyncio.gather(*holders)
        await asyncio.gather(*(call(n, 1) for n in range(2)))
        return late

    late = time.run(main())

    assert {"wait_timeout"} == {error.reason for error in late}
    assert pytest.approx(2) == time.now()
    assert 2 == watch.peak
