"""A bulkhead against a model of ten lines: tasks and threads, cancelled, timed out and released at any point.

Now and then the process is forked.  The child begins with all slots free; the parent does not notice.
"""

import asyncio
import threading
import time
from collections import Counter
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import count, product

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.policies import Bulkhead
from penstock.policies.process_lock import lock
from penstock.policies.wait_moves import expire
from tests.support.callers import TaskCaller, ThreadCaller
from tests.support.forked import trouble_in_a_fork
from tests.support.sharing import until
from tests.support.tasks import Inside

FORKS = 2  # in one history


class Model:
    """First come, first served, and no caller is overtaken."""

    def __init__(self, slots):
        self.slots, self.inside, self.line = slots, {}, []

    def arrive(self, who, weight):
        self.line.append((who, weight))
        self.promote()

    def leave(self, who):
        self.inside.pop(who, None)
        self.line = [each for each in self.line if each[0] != who]
        self.promote()

    def promote(self):
        while self.line and sum(self.inside.values()) + self.line[0][1] <= self.slots:
            who, weight = self.line.pop(0)
            self.inside[who] = weight


class BulkheadMachine(RuleBasedStateMachine):
    @initialize(slots=st.integers(2, 4), watched=st.booleans())
    def begin(self, slots, watched):
        self.events = Counter()
        # Who listens makes every call take the lock.
        self.bulkhead = Bulkhead(slots, on_event=self.hear if watched else None)
        self.model = Model(slots)
        self.loop = asyncio.new_event_loop()
        self.callers = {}
        self.numbers = count()
        self.forks = 0

    @rule(weight=st.sampled_from([1, 1, 1, 2]))
    def a_task_comes(self, weight):
        number = next(self.numbers)
        self.callers[number] = TaskCaller(self.bulkhead.slot(weight=weight), loop=self.loop)
        self.step()
        self.model.arrive(number, weight)

    @rule(weight=st.sampled_from([1, 1, 2]))
    def a_thread_comes(self, weight):
        number = next(self.numbers)
        before = self.bulkhead.stats()
        self.callers[number] = ThreadCaller(self.bulkhead.slot(weight=weight))
        self.until(lambda: self.bulkhead.stats() != before)
        self.model.arrive(number, weight)

    @precondition(lambda self: self.model.inside)
    @rule(data=st.data())
    def one_is_done(self, data):
        number = data.draw(st.sampled_from(sorted(self.model.inside)))
        self.callers[number].release()
        self.until(lambda: self.callers[number].ended)
        self.model.leave(number)

    @precondition(lambda self: len(self.model.inside) and self.model.line)
    @rule(data=st.data())
    def one_is_done_and_the_next_waiters_are_cancelled_in_the_same_moment(self, data):
        done = [n for n in sorted(self.model.inside) if isinstance(self.callers[n], TaskCaller)]
        if not done:
            return
        number = data.draw(st.sampled_from(done))
        self.callers[number].release()
        for _ in range(data.draw(st.integers(0, 3))):
            self.step_once()
        waiting = [who for who, _ in self.model.line if isinstance(self.callers[who], TaskCaller)]
        for who in waiting[: data.draw(st.integers(1, 3))]:
            self.callers[who].task.cancel()
            self.model.line = [each for each in self.model.line if each[0] != who]
        self.model.leave(number)

    @precondition(
        lambda self: any(isinstance(each, TaskCaller) and not each.ended for each in self.callers.values())
    )
    @rule(data=st.data())
    def a_task_is_cancelled(self, data):
        living = [n for n, each in self.callers.items() if isinstance(each, TaskCaller) and not each.ended]
        number = data.draw(st.sampled_from(living))
        self.callers[number].task.cancel()
        self.model.leave(number)

    @precondition(lambda self: self.model.line)
    @rule(data=st.data())
    def a_wait_runs_out(self, data):
        place = data.draw(st.integers(0, len(self.model.line) - 1))
        waiter = self.bulkhead.pool.wait_lists[None].standing()[place]
        expire(waiter)
        self.model.leave(self.model.line[place][0])

    @rule()
    def another_event_loop_takes_over(self):
        for number, each in self.callers.items():
            if isinstance(each, TaskCaller) and not each.ended:
                each.task.cancel()
                self.model.leave(number)
        self.step()
        self.loop.close()
        self.loop = asyncio.new_event_loop()

    @precondition(lambda self: self.forks < FORKS)
    @rule(steps=st.integers(0, 3), done=st.booleans(), locked=st.booleans(), by_a_task=st.booleans())
    def the_process_is_forked(self, steps, done, locked, by_a_task):
        self.forks += 1
        leaving = next((n for n in self.model.inside if isinstance(self.callers[n], TaskCaller)), None)
        if done and leaving is not None:
            self.callers[leaving].release()
            self.model.leave(leaving)
        for _ in range(steps):
            self.step_once()
        trouble = self.in_a_task(self.fork, locked) if by_a_task else self.fork(locked)

        assert not trouble, trouble

    def fork(self, locked):
        slot = self.bulkhead.try_acquire()
        with lock_held_elsewhere() if locked else nullcontext():
            if slot is not None:
                slot.release()
            return trouble_in_a_fork(partial(begin_again, self.bulkhead, self.callers.values()))

    def in_a_task(self, function, *args):
        async def call():
            return function(*args)

        task = self.loop.create_task(call())
        self.step_once()
        return task.result()

    @invariant()
    def it_does_what_the_model_does(self):
        if not hasattr(self, "model"):
            return
        inside = set(self.model.inside)
        expected = (sum(self.model.inside.values()), len(self.model.line))
        self.until(
            lambda: (
                inside == {n for n, each in self.callers.items() if each.inside}
                and expected == (self.bulkhead.stats().in_use, self.bulkhead.stats().queued)
            )
        )

    def hear(self, event):
        self.events[event.kind] += 1

    def until(self, condition):
        ends = time.monotonic() + 3
        while not condition():
            self.step_once()
            assert self.bulkhead.stats().in_use <= self.model.slots
            assert time.monotonic() < ends, (self.model.inside, self.model.line, self.bulkhead.stats())

    def step(self):
        for _ in range(4):
            self.step_once()

    def step_once(self):
        self.loop.call_soon(self.loop.stop)
        self.loop.run_forever()

    def teardown(self):
        if not hasattr(self, "model"):
            return
        ends = time.monotonic() + 20
        while not all(each.ended for each in self.callers.values()):
            for each in self.callers.values():
                each.release()
            self.step_once()
            assert time.monotonic() < ends
        self.loop.close()
        stats = self.bulkhead.stats()
        assert (0, 0, 0) == (stats.in_use, stats.queued, stats.keys)
        assert {} == self.bulkhead.pool.owners
        assert self.events["acquired"] == self.events["released"]


@contextmanager
def lock_held_elsewhere():
    """Have another thread hold the lock of all limits."""
    held, done = threading.Event(), threading.Event()

    def hold():
        with lock, lock.mutex:
            held.set()
            done.wait(30)

    thread = threading.Thread(target=hold, daemon=True)
    thread.start()
    held.wait(30)
    try:
        yield
    finally:
        done.set()
        thread.join(30)


def begin_again(bulkhead, others):
    """Use *bulkhead* in a forked process, where the slots of *others* are not held."""
    slots = bulkhead.stats().limit
    assert (0, 0, 0) == (bulkhead.stats().in_use, bulkhead.stats().queued, bulkhead.stats().keys)
    assert {} == bulkhead.pool.owners

    mine = [bulkhead.try_acquire() for _ in range(slots)]
    assert all(mine)
    for each in others:
        each.slot.end()
    assert bulkhead.try_acquire() is None
    for slot in mine:
        slot.release()

    order, peak = asyncio.run(crowd(bulkhead, slots))
    assert list(range(3 * slots)) == order
    assert slots == peak
    in_threads(bulkhead)
    assert (0, 0, 0) == (bulkhead.stats().in_use, bulkhead.stats().queued, bulkhead.stats().keys)
    assert {} == bulkhead.pool.owners


async def crowd(bulkhead, slots):
    order, peak = [], 0

    @bulkhead
    async def one(number):
        nonlocal peak
        order.append(number)
        peak = max(peak, bulkhead.stats().in_use)
        await asyncio.sleep(0)

    await asyncio.wait_for(asyncio.gather(*(one(number) for number in range(3 * slots))), 10)
    return order, peak


def in_threads(bulkhead):
    """Let a thread wait for a slot that another one gives back."""
    mine = [bulkhead.try_acquire() for _ in range(bulkhead.stats().limit)]
    thread = threading.Thread(target=bulkhead.call, args=(len, ""), daemon=True)
    thread.start()
    until(lambda: bulkhead.stats().queued)
    for slot in mine:
        slot.release()
    thread.join(10)
    assert not thread.is_alive()


TestBulkheadMachine = BulkheadMachine.TestCase
TestBulkheadMachine.settings = settings(stateful_step_count=30)


def test_what_was_about_to_be_given_back_at_a_fork_is_given_back_by_the_parent_only():
    bulkhead = Bulkhead(1)
    slot = bulkhead.acquire()
    waiting = ThreadCaller(bulkhead.slot())
    until(lambda: bulkhead.stats().queued)

    with lock_held_elsewhere():
        slot.release()
        trouble = trouble_in_a_fork(partial(begin_again, bulkhead, []))
    waiting.release()
    waiting.thread.join(10)

    assert not trouble, trouble
    assert (True, 0) == (waiting.ended, bulkhead.stats().in_use)


@pytest.mark.parametrize("victims", [*product(range(5)), *product(range(5), repeat=2)])
def test_cancelling_at_every_step_loses_nothing(victims):
    for steps in product(range(12), repeat=len(victims)):
        play(victims, steps)


def play(victims, steps):
    """Let five tasks pass two slots one step at a time, and cancel each of *victims* at its step."""
    bulkhead = Bulkhead(2)
    order, inside = [], Inside()

    async def one(number):
        async with bulkhead:
            with inside:
                order.append(number)
                await asyncio.sleep(0)
                await asyncio.sleep(0)

    loop = asyncio.new_event_loop()
    tasks = [loop.create_task(one(number)) for number in range(5)]
    for step in range(40):
        for victim, at in zip(victims, steps, strict=True):
            if at == step:
                tasks[victim].cancel()
        loop.call_soon(loop.stop)
        loop.run_forever()
    loop.close()
    stats = bulkhead.stats()

    assert all(task.done() for task in tasks)
    assert sorted(order) == order
    assert set(range(5)) - set(victims) <= set(order)
    assert 2 >= inside.most
    assert (0, 0, 0) == (stats.in_use, stats.queued, stats.keys)
