"""Timeouts: async functions are cancelled, plain ones are left behind with their slots."""

import asyncio
import threading

import pytest

from penstock.policies import AttemptTimeout, Bulkhead, Timeout
from tests.support.sharing import until


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


def test_a_plain_function_in_time_gives_its_answer_or_its_error():
    @Timeout(30)
    def quick(number):
        return 10 // number

    assert 5 == quick(2)
    with pytest.raises(ZeroDivisionError):
        quick(0)
    with Timeout(30):
        pass


def test_work_whose_caller_timed_out_in_line_never_runs(time, watch):
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
