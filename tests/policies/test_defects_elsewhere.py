"""What other libraries get wrong, each as it was seen there; the numbers are those of the list they come from."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock.policies import (
    AttemptTimeout,
    Breaker,
    Bulkhead,
    BulkheadFull,
    CircuitOpen,
    Limits,
    RateExceeded,
    RateLimiter,
    Retrying,
    Throttler,
    Timeout,
)
from penstock.testing import VirtualTime


class Watch:
    def __init__(self, time=None):
        self.time, self.inside, self.peak, self.starts = time, 0, 0, []

    async def work(self, who=None, seconds=1.0):
        self.starts.append((who, self.time.now() if self.time else 0.0))
        self.inside += 1
        self.peak = max(self.peak, self.inside)
        try:
            await asyncio.sleep(seconds)
        finally:
            self.inside -= 1
        return who


@pytest.fixture
def time():
    return VirtualTime()


@pytest.fixture
def watch(time):
    return Watch(time)


def test_01_work_whose_caller_timed_out_in_line_never_runs(time, watch):
    bulkhead = Bulkhead(1)
    call = Timeout(0.1)(bulkhead(watch.work))

    async def main():
        async with bulkhead:
            callers = [asyncio.create_task(call(n)) for n in range(5)]
            answers = await asyncio.gather(*callers, return_exceptions=True)
            depth = bulkhead.stats().queued
        await asyncio.sleep(10)
        return answers, depth

    answers, depth = time.run(main())

    assert [AttemptTimeout] * 5 == [type(answer) for answer in answers]
    assert (0, []) == (depth, watch.starts)


def test_02_no_more_runs_than_attempts_that_were_granted(time, watch):
    bulkhead = Bulkhead(1)
    call = Retrying(4, backoff=0)(Timeout(0.5)(bulkhead(watch.work)))

    async def main():
        answers = await asyncio.gather(*(call(n, 10) for n in range(5)), return_exceptions=True)
        at_the_end = len(watch.starts)
        await asyncio.sleep(100)
        return answers, at_the_end

    answers, at_the_end = time.run(main())
    stats = bulkhead.stats()

    assert [AttemptTimeout] * 5 == [type(answer) for answer in answers]
    assert at_the_end == len(watch.starts) == stats.acquired
    assert (0, 0, 1) == (stats.queued, stats.in_use, watch.peak)


def test_03_nothing_is_acquired_without_a_slot(time, watch):
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


def test_04_other_keys_never_push_out_a_busy_one(time, watch):
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
        running = [who for who, _ in watch.starts]
        await asyncio.gather(holder, *others)
        return running, refused

    running, refused = time.run(main())

    assert (["long"], 1) == (running, watch.peak)
    assert 5_000 < refused < 6_000  # nine of twenty come in beside the holder


def test_05_closing_lets_no_crowd_in(time, watch):
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


def test_06_a_cold_key_starts_at_once_behind_a_hot_one(time, watch):
    limits = Limits(Bulkhead(2, name="all"), Bulkhead(1, key=lambda key, *_: key, name="each"))
    call = limits(watch.work)

    async def main():
        await asyncio.gather(*(call(key, 0.1) for key in ("a", "a", "a", "b")))

    time.run(main())

    assert [("a", 0), ("b", 0), ("a", 0.1), ("a", 0.2)] == [
        (who, pytest.approx(at)) for who, at in watch.starts
    ]


def test_07_what_the_key_refuses_costs_the_others_nothing(time):
    limits = Limits(
        RateLimiter(20, per=1, mode="reject", name="all"),
        RateLimiter(1, per=1, mode="reject", key=lambda tenant: tenant, name="each"),
    )

    @limits
    async def send(tenant):
        return tenant

    async def main():
        hog = await asyncio.gather(*(send("hog") for _ in range(20)), return_exceptions=True)
        others = await asyncio.gather(*(send(f"tenant-{n}") for n in range(19)))
        return hog, others

    hog, others = time.run(main())

    assert 19 == sum(isinstance(answer, RateExceeded) for answer in hog)
    assert 19 == len(others)


def test_08_waits_that_were_given_up_delay_nobody(time, watch):
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
    assert ["first", "next"] == [who for who, _ in watch.starts]


def test_09_a_probe_that_hangs_does_not_wedge_the_breaker(time):
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


def test_10_cancelled_waiters_take_no_capacity_along(time, watch):
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


def test_11_a_heavy_one_among_light_ones_gets_its_share(time):
    for limit in (Bulkhead(10), RateLimiter(10, per=0.1)):
        got = []

        async def heavy(limit=limit, got=got):
            async with limit.slot(weight=10):
                got.append(time.now())

        async def light(limit=limit):
            while True:
                async with limit:
                    await asyncio.sleep(0.05)

        async def main(limit=limit, got=got, light=light, heavy=heavy):
            crowd = [asyncio.create_task(light()) for _ in range(20)]
            await asyncio.sleep(1)
            await asyncio.wait_for(heavy(), 2)
            for task in crowd:
                task.cancel()
            await asyncio.gather(*crowd, return_exceptions=True)

        time.run(main())

        assert got
        assert got[0] <= 1.4


def test_12_an_exhausted_key_delays_no_other(time, watch):
    for limit in (
        RateLimiter(1, per=10, key=lambda key, *_: key),
        Throttler(1, per=10, key=lambda key, *_: key),
    ):
        watch.starts.clear()
        call = limit(watch.work)

        async def main(call=call):
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
        assert ["a", "b"] == [who for who, _ in watch.starts]


def test_13_idle_keys_are_not_remembered(time):
    bulkhead = Bulkhead(1, key=lambda key: key)
    rate = RateLimiter(1, per=1, key=lambda key: key)
    throttle = Throttler(1, per=1, key=lambda key: key)

    async def nothing(key):
        pass

    async def main():
        for number in range(100_000):
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
    assert all(limit.pool.keys() == 1 for limit in limited)


def test_14_no_more_probes_than_allowed_reach_the_backend(time):
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


def test_15_a_closed_breaker_lets_threads_run_side_by_side():
    breaker = Breaker(5)
    together = threading.Barrier(10)

    @breaker
    def call():
        return together.wait(timeout=20)

    with ThreadPoolExecutor(10) as threads:
        answers = [threads.submit(call) for _ in range(10)]

        assert set(range(10)) == {answer.result(timeout=30) for answer in answers}


def test_16_a_newcomer_overtakes_nobody_and_costs_nobody_its_place(time, watch):
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
    assert [0, 1, 2, "newcomer"] == [who for who, _ in watch.starts]


def test_17_waits_that_time_out_destroy_no_permit(time, watch):
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


@pytest.mark.filterwarnings("ignore::penstock.policies.NestedLimitsWarning")
def test_20_decorators_at_import_serve_one_event_loop_after_another():
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

    async def main():
        return await asyncio.gather(*(work(n) for n in range(5)))

    assert [0, 1, 2, 3, 4] == asyncio.run(main()) == asyncio.run(main())
    assert 0 == bulkhead.stats().in_use
