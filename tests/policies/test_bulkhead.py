"""What a bulkhead promises: so many at once, in order, whatever is cancelled meanwhile."""

import asyncio
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock.policies import Bulkhead, BulkheadFull, InvalidPolicyError, RateLimiter, ReentryError, Throttler
from penstock.policies.process_lock import lock as process_lock
from penstock.testing import VirtualTime
from tests.support.forked import trouble_in_a_fork
from tests.support.tasks import Inside, together


def run(main):
    return VirtualTime().run(main)


def test_no_more_than_so_many_are_inside(watch):
    bounded = Bulkhead(2)(watch.work)

    assert list(range(10)) == run(together(*map(bounded, range(10))))
    assert 2 == watch.peak
    assert list(range(10)) == watch.order


@pytest.mark.parametrize("number", [0, True, 1.5, None, -1, lambda key: 3])
def test_a_number_that_cannot_be_kept_is_refused_where_it_is_made(number):
    with pytest.raises(InvalidPolicyError):
        Bulkhead(number)


@pytest.mark.parametrize(
    "options",
    [
        {"mode": "drop"}, {"max_queue": -1}, {"max_queue": 3, "mode": "reject"}, {"max_wait": 0}, {"max_keys": 0},
        {"key": 7}, {"order": "random"}, {"weight": 2}, {"weight": 0}, {"name": 3},
    ],
)  # fmt: skip
def test_options_that_cannot_be_kept_are_refused_where_they_are_made(options):
    with pytest.raises(InvalidPolicyError):
        Bulkhead(1, **options)


@pytest.mark.parametrize("limit", [Bulkhead, Throttler, RateLimiter])
def test_an_option_that_does_not_exist_is_refused_by_name(limit):
    with pytest.raises(TypeError, match="no option 'max_queues'"):
        limit(1, max_queues=3)


def test_reject_mode_refuses_at_once():
    bulkhead = Bulkhead(1, mode="reject", name="door")

    async def main():
        async with bulkhead:
            return await asyncio.create_task(refused(bulkhead))

    error = run(main())

    assert ("busy", "door", 1, 1, 0, True) == (
        error.reason, error.name, error.limit, error.in_use, error.queued, error.retryable,
    )  # fmt: skip


async def refused(bulkhead, **options):
    with pytest.raises(BulkheadFull) as caught:
        async with bulkhead.slot(**options):
            pytest.fail("it came in")
    return caught.value


def test_a_full_line_refuses_the_next():
    bulkhead = Bulkhead(1, max_queue=1)

    async def main():
        async with bulkhead:
            waiting = asyncio.create_task(hold(bulkhead, 0))
            await asyncio.sleep(0)
            error = await asyncio.create_task(refused(bulkhead))
        await waiting
        return error

    assert "queue_full" == run(main()).reason


async def hold(bulkhead, seconds, **options):
    async with bulkhead.slot(**options) as slot:
        await asyncio.sleep(seconds)
        return slot.waited


def test_no_call_waits_longer_than_it_may():
    bulkhead = Bulkhead(1, max_wait=0.2)
    time = VirtualTime()

    async def main():
        async with bulkhead:
            error = await asyncio.create_task(refused(bulkhead))
            return error, time.now()

    error, at = time.run(main())

    assert "wait_timeout" == error.reason
    assert 0.2 == pytest.approx(at)
    assert 0 == bulkhead.stats().queued


def test_a_slot_tells_how_long_its_call_waited():
    bulkhead = Bulkhead(1)

    assert [0, pytest.approx(0.5)] == run(together(hold(bulkhead, 0.5), hold(bulkhead, 0)))


def test_each_key_has_slots_of_its_own(watch):
    bounded = Bulkhead(1, key="tenant")(keyed := tenant_work(watch))

    assert keyed.__name__ == bounded.__name__
    with pytest.raises(TypeError):
        run(together(bounded("a", 1), bounded("a", 2), bounded(2, tenant="b")))
    watch.starts.clear()
    run(together(bounded("a", 1), bounded("a", 2), bounded("b", 3)))

    assert [1, 3, 2] == watch.order


def tenant_work(watch):
    async def work(tenant, number):
        await watch.work(number)

    return work


@pytest.mark.parametrize("key", [lambda tenant, number: tenant, "tenant", "t:{tenant}"])
def test_a_key_is_a_function_a_name_or_a_text_over_the_arguments(key, watch):
    bounded = Bulkhead(1, key=key)(tenant_work(watch))

    run(together(bounded("a", 1), bounded("a", 2), bounded("b", number=3)))

    assert [1, 3, 2] == watch.order


@pytest.mark.parametrize("bad", [None, [], {}])
def test_a_key_that_cannot_be_one_takes_no_slot(bad, watch):
    bulkhead = Bulkhead(1, key=lambda tenant: bad)
    bounded = bulkhead(tenant_work(watch))

    with pytest.raises(TypeError, match="key function"):
        run(bulkhead.acall(lambda tenant: asyncio.sleep(0), "a"))

    assert 0 == bulkhead.stats().in_use
    assert callable(bounded)


def test_too_many_keys_are_refused_and_a_busy_one_stays():
    bulkhead = Bulkhead(1, key="tenant", max_keys=2)

    async def main():
        async with bulkhead.slot("a"), bulkhead.slot("b"):
            error = await refused(bulkhead, key="c")
            again = await asyncio.create_task(refused_now(bulkhead, "a"))
        async with bulkhead.slot("c"):
            return error, again

    error, again = run(main())

    assert "too_many_keys" == error.reason
    assert again is None


async def refused_now(bulkhead, key):
    return bulkhead.try_acquire(key)


def test_the_number_may_be_a_function_of_the_key():
    bulkhead = Bulkhead(lambda key: 2 if key == "big" else 1, key="tenant")

    slots = [bulkhead.try_acquire(key) for key in ("big", "big", "big", "small", "small")]

    assert [True, True, False, True, False] == [slot is not None for slot in slots]
    for slot in filter(None, slots):
        slot.release()


def test_a_heavy_one_is_not_overtaken():
    bulkhead = Bulkhead(3)
    order = []

    async def one(name, weight):
        async with bulkhead.slot(weight=weight):
            order.append(name)
            await asyncio.sleep(1)

    run(together(one("first", 2), one("heavy", 3), one("light", 1)))

    assert ["first", "heavy", "light"] == order


def test_a_weight_above_all_slots_is_an_error():
    with pytest.raises(ValueError, match="weight"):
        Bulkhead(2).try_acquire(weight=3)


def test_a_task_that_holds_a_slot_does_not_wait_for_itself():
    bulkhead = Bulkhead(2)

    async def main():
        async with bulkhead, bulkhead:
            pytest.fail("it came in twice")

    with pytest.raises(ReentryError):
        run(main())
    assert 0 == bulkhead.stats().in_use


def test_a_reentrant_one_lets_its_holder_in_for_nothing():
    bulkhead = Bulkhead(1, reentrant=True)

    async def main():
        async with bulkhead as outer, bulkhead:
            inside = bulkhead.stats().in_use
        return inside, outer.held

    assert (1, False) == run(main())
    assert 0 == bulkhead.stats().in_use


def test_a_reentrant_one_lets_its_holder_in_while_others_wait():
    bulkhead = Bulkhead(1, reentrant=True)

    async def main():
        async with bulkhead:
            other = asyncio.create_task(hold(bulkhead, 0))
            await asyncio.sleep(0)
            async with bulkhead:
                queued = bulkhead.stats().queued
        await other
        return queued

    assert 1 == run(main())
    assert 0 == bulkhead.stats().in_use


def test_a_slot_is_given_back_once():
    bulkhead = Bulkhead(1)
    slot = bulkhead.try_acquire()

    slot.release()
    slot.release()

    assert 0 == bulkhead.stats().in_use
    with bulkhead as slot:
        slot.release()
        assert 0 == bulkhead.stats().in_use
    assert 0 == bulkhead.stats().in_use


def test_no_task_gives_back_what_another_holds():
    bulkhead = Bulkhead(1)

    async def main():
        async with bulkhead as slot:
            with pytest.raises(RuntimeError, match="does not hold"):
                await asyncio.create_task(released(slot))

    run(main())

    assert 0 == bulkhead.stats().in_use


async def released(slot):
    slot.release()


def test_a_slot_that_is_garbage_collected_frees_itself():
    bulkhead = Bulkhead(1)
    slot = bulkhead.try_acquire()
    assert bulkhead.try_acquire() is None

    with pytest.warns(ResourceWarning, match="never given back"):
        del slot

    assert 0 == bulkhead.stats().in_use


def test_errors_pass_and_free_the_slot():
    bulkhead = Bulkhead(1)

    @bulkhead
    def fails():
        raise LookupError

    @bulkhead
    async def fails_later():
        raise LookupError

    with pytest.raises(LookupError):
        fails()
    with pytest.raises(LookupError):
        run(fails_later())
    assert 0 == bulkhead.stats().in_use


def test_call_calls_plain_and_async_functions():
    bulkhead = Bulkhead(1)

    async def later(number):
        return number

    assert 3 == bulkhead.call(len, "abc")
    assert 3 == run(bulkhead.call(later, 3))
    assert 3 == run(bulkhead.acall(later, 3))


def test_generators_are_refused():
    def numbers():
        yield 1

    with pytest.raises(TypeError, match="generator"):
        Bulkhead(1)(numbers)


def test_a_closed_one_lets_in_waiting_calls_until_it_is_drained():
    bulkhead = Bulkhead(1)
    time = VirtualTime()

    async def main():
        tasks = [asyncio.create_task(hold(bulkhead, 1)) for _ in range(5)]
        await asyncio.sleep(0.5)
        bulkhead.close(drain=2)
        error = await refused(bulkhead)
        results = await asyncio.gather(*tasks, return_exceptions=True)
        return error, results

    error, results = time.run(main())

    assert "closed" == error.reason
    assert [True] * 3 + [False] * 2 == [isinstance(result, float) for result in results]
    assert {"closed"} == {result.reason for result in results[3:]}


def test_blocking_inside_an_event_loop_is_an_error():
    bulkhead = Bulkhead(1)

    async def main():
        async with bulkhead:
            await asyncio.create_task(blocks())

    async def blocks():
        with bulkhead:
            pytest.fail("it came in")

    with pytest.raises(RuntimeError, match="event loop"):
        run(main())
    assert (0, 0) == (bulkhead.stats().in_use, bulkhead.stats().queued)


def test_threads_and_tasks_share_the_slots():
    bulkhead, inside, calls = Bulkhead(3), Inside(), []

    def in_thread():
        for _ in range(20):
            with bulkhead, inside:
                calls.append("thread")
                threading.Event().wait(0.0005)

    async def in_task():
        for _ in range(5):
            async with bulkhead:
                with inside:
                    calls.append("task")
                    await asyncio.sleep(0.0005)

    with ThreadPoolExecutor(8) as threads:
        done = [threads.submit(in_thread) for _ in range(4)]
        done += [threads.submit(asyncio.run, together(*(in_task() for _ in range(20)))) for _ in range(2)]
        for each in done:
            each.result(timeout=60)

    stats = bulkhead.stats()
    assert 3 == inside.most
    assert {"thread": 80, "task": 200} == Counter(calls)
    assert (0, 0, 0) == (stats.in_use, stats.queued, stats.keys)


def test_a_forked_process_begins_with_all_slots_free():
    bulkhead = Bulkhead(1)

    def take():
        mine = bulkhead.try_acquire()
        slot.end()
        assert mine is not None
        assert bulkhead.try_acquire() is None

    with bulkhead as slot:
        trouble = trouble_in_a_fork(take)

    assert not trouble, trouble


def test_what_is_given_back_while_the_lock_is_held_is_not_lost():
    bulkhead = Bulkhead(1)
    slot = bulkhead.try_acquire()
    with process_lock.mutex:
        slot.release()
    again = bulkhead.try_acquire() or bulkhead.try_acquire()

    assert again is not None
    again.release()


def test_a_task_that_vanishes_with_its_loop_frees_its_slot():
    bulkhead = Bulkhead(1)
    loop = asyncio.new_event_loop()
    kept = []

    async def holds():
        async with bulkhead:
            kept.append(loop.create_future())
            await kept[0]

    holder = holds()
    task = loop.create_task(holder)
    loop.run_until_complete(asyncio.sleep(0))
    assert 1 == bulkhead.stats().in_use

    loop.call_soon(task.cancel)
    loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
    loop.close()

    assert 0 == bulkhead.stats().in_use
