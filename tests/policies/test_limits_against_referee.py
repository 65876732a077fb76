"""Several limits at once, through random histories: tasks and threads, cancelled, timed out, refused, forked.

Two bundles share their bulkheads, in opposite orders, and one of them has a rate, too; some calls pass one bulkhead
alone.  A referee believes only what callers say of themselves: which of them is inside, since when, and what it used.
"""

import asyncio
import time
from collections import defaultdict
from functools import partial
from itertools import combinations, product

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.policies import Bulkhead, Limits, RateLimiter, clock, limits
from penstock.policies.clock import NEVER
from penstock.policies.limits import JointWaiters
from penstock.policies.process_lock import lock
from penstock.policies.waiter import CALLED
from penstock.testing import VirtualLoop, VirtualTime
from tests.support import callers
from tests.support.callers import InTask, InThread
from tests.support.forked import trouble_in_a_fork
from tests.support.sharing import until

MILLISECOND = 1000
BOUND = 20  # seconds, for what the machine may delay
PERIOD = 4 * MILLISECOND
KEYS = ("a", "b")
FORKS = 2  # in one history
FEW = 3  # callers, before forking is worth while
LATELY = 8  # callers back, of whom some are done or cancelled


class World:
    """The limits, and how many of what each of them allows."""

    def __init__(self, *, all_slots=3, key_slots=2, starts=3, max_queue=None, max_wait=None, hear=None):
        self.overall = Bulkhead(all_slots, name="overall", on_event=hear)
        self.each = Bulkhead(
            key_slots, key="key", name="each", max_queue=max_queue, max_wait=max_wait, on_event=hear
        )
        self.rate = RateLimiter(starts, per=PERIOD / 1e6, name="rate", on_event=hear)
        self.wide = Limits(self.overall, self.each, self.rate)
        self.narrow = Limits(self.each, self.overall)
        self.members = {
            self.wide: (self.overall, self.each, self.rate),
            self.narrow: (self.each, self.overall),
            self.overall: (self.overall,),
        }
        self.most = {self.overall: all_slots, self.each: key_slots, self.rate: starts}
        self.max_queue, self.max_wait = max_queue, max_wait

    def gates(self, limit, key):
        """Name what a call of *limit* for *key* must pass."""
        return [(each, key if each is self.each else None) for each in self.members[limit]]

    def joints(self):
        return [*self.wide._joints.values(), *self.narrow._joints.values()]

    def check_empty(self):
        for each in (self.overall, self.each):
            stats = each.stats()
            assert (0, 0, 0) == (stats.in_use, stats.queued, stats.keys), stats
            assert {} == each.pool.owners
        assert (0, []) == (self.rate.stats().queued, self.joints())


class Caller(callers.Caller):
    """Passes a limit of the world, and remembers when it started."""

    def __init__(self, world, limit, key, weight, within, used=None):
        self.limit, self.key, self.weight = limit, key, weight
        self.reports = limit is world.wide
        self.at_once = used
        self.gates = world.gates(limit, key)
        wait = world.max_wait if (world.each, key) in self.gates else None
        self.until = min((clock.now() + each for each in (within, wait) if each is not None), default=NEVER)
        self.may_be_refused = self.until < NEVER or (
            world.max_queue is not None and (world.each, key) in self.gates
        )
        asked = {} if limit is world.overall else {"key": key}
        if limit is world.wide:
            asked["cost"] = weight
        super().__init__(
            limit.slot(weight=weight, deadline=None if within is None else within / 1e6, **asked)
        )
        self.started = None
        self.used = weight
        self.beyond = 0  # what was reported in all beyond what counted before
        self.released = False

    @property
    def waits(self):
        return not self.inside and not self.ended

    def enter(self):
        self.started = clock.now()
        # Before it is inside: from then on it reports when it is told to.
        if self.at_once is not None:
            self.report(self.at_once)
        super().enter()

    def report(self, used):
        """Say what was used; at no moment more than the limit has heard, since the referee may look at any."""
        if not self.reports:
            return
        self.used, before = min(used, self.used), self.used
        self.slot.spend(used)
        self.beyond += max(used - before, 0)
        self.used = used


class TaskCaller(InTask, Caller):
    pass


class ThreadCaller(InThread, Caller):
    pass


class Referee:
    """Knows the rules, and asks callers alone whether they are kept."""

    def __init__(self, world):
        self.world = world
        self.callers = []

    def held(self, limit, key):
        return sum(each.weight for each in self.inside() if (limit, key) in each.gates)

    def inside(self):
        """Return the callers that were inside at one moment: each goes in and out once, so two equal looks show one."""
        seen, looked = None, [each.inside for each in self.callers]
        while seen != looked:
            seen, looked = looked, [each.inside for each in self.callers]
        return [each for each, is_inside in zip(self.callers, seen, strict=True) if is_inside]

    def used_of_rate(self):
        """Return what counts now against the rate, and how much of it may be more than the rate allows."""
        since = clock.now() - PERIOD
        lately = [
            each
            for each in self.callers
            if each.started is not None and each.started > since and (self.world.rate, None) in each.gates
        ]
        return sum(each.used for each in lately), sum(each.beyond for each in lately)

    def judge(self):
        """Raise if a limit is broken at this moment."""
        world = self.world
        for limit, key in ((world.overall, None), *((world.each, key) for key in KEYS)):
            assert self.held(limit, key) <= world.most[limit], (limit.name, key)
            assert limit.pool.in_use(key) <= world.most[limit], (limit.name, key)
        used, beyond = self.used_of_rate()
        assert used <= world.most[world.rate] + beyond
        for each in self.callers:
            assert each.refusal is None or each.may_be_refused, each.refusal

    def unsettled(self):
        """Tell what must still happen now: nothing, if no call waits in vain and every slot has its holder."""
        world = self.world
        with lock, lock.mutex:
            waiting = [each for each in self.callers if each.waits]
            wait_lists = [wait_list for each in world.most for wait_list in each.pool.wait_lists.values()]
            if len(waiting) != sum(wait_list.waiting for wait_list in wait_lists):
                return "a caller is on the way"
            if any(each.until <= clock.now() for each in waiting):
                return "a caller waited too long"
            if any(each.inside and each.released for each in self.callers):
                return "a caller was told to go"
            if any(each.cancelled and not each.ended for each in self.callers):
                return "a caller was cancelled"
            return self.misheld() or self.forgotten(wait_lists)

    def misheld(self):
        reserved = defaultdict(int)
        for each in self.world.joints():
            assert not each.reserved or each.refusals >= limits.PATIENCE
            for pool, key, weight in each.reserved:
                reserved[pool, key] += weight
        for limit in (self.world.overall, self.world.each):
            for key in (None,) if limit is self.world.overall else KEYS:
                if limit.pool.in_use(key) != self.held(limit, key) + reserved[limit.pool, key]:
                    return f"{limit.name} {key} has a slot without a holder"
        if self.world.rate.pool.in_use(None) != self.used_of_rate()[0]:
            return "the rate counts something else than was used"
        return None

    def forgotten(self, wait_lists):
        """Tell which caller is first in a wait list although it could go on."""
        for wait_list in wait_lists:
            first = wait_list.first(clock.now())
            if first is None or first.head.state == CALLED:
                return "a caller is about to look"
            if self.fits(first, wait_list):
                return f"{wait_list.admission.counters.name} {wait_list.key} forgot a caller"
        return None

    def fits(self, entry, wait_list):
        demands = (
            entry.demands if isinstance(entry, JointWaiters) else [(entry.admission, entry.key, entry.weight)]
        )
        (weight,) = (
            weight for pool, key, weight in demands if (pool, key) == (wait_list.admission, wait_list.key)
        )
        if wait_list.admission is self.world.rate.pool:
            return self.used_of_rate()[0] + weight <= self.world.most[self.world.rate]
        limit = self.world.each if wait_list.admission is self.world.each.pool else self.world.overall
        return limit.pool.in_use(wait_list.key) + weight <= self.world.most[limit]

    def check_order(self):
        """Raise if a caller that needed the same limits and keys was overtaken."""
        joints = defaultdict(list)
        for each in self.callers:
            if each.started is not None:
                joints[each.limit, each.key, each.weight].append(each.started)
        assert all(starts == sorted(starts) for starts in joints.values())


wishes = st.tuples(
    st.sampled_from(["wide", "wide", "narrow", "overall"]),
    st.sampled_from(KEYS),
    st.sampled_from([1, 1, 2]),
    st.none() | st.none() | st.integers(1, 12).map(lambda number: number * MILLISECOND),
    st.none() | st.integers(0, 6),
)


class LimitsMachine(RuleBasedStateMachine):
    @initialize(
        all_slots=st.integers(2, 4),
        key_slots=st.integers(2, 3),
        starts=st.integers(2, 4),
        max_queue=st.none() | st.none() | st.integers(1, 3),
        max_wait=st.none() | st.none() | st.integers(2, 10).map(lambda number: number / 1000),
        watched=st.booleans(),
        patience=st.sampled_from([1, 2, limits.PATIENCE]),
    )
    def begin(self, watched, max_wait, patience, **numbers):
        self.real, self.now = (clock.now, limits.PATIENCE), 1_000_000
        clock.now, limits.PATIENCE = lambda: self.now, patience
        self.told = defaultdict(int)
        self.world = World(**numbers, max_wait=max_wait, hear=self.hear if watched else None)
        self.world.max_wait = None if max_wait is None else round(max_wait * 1e6)
        self.referee = Referee(self.world)
        self.watched = watched
        self.forks = 0
        self.stuck = False
        self.open_loop()

    @rule(wishes=st.lists(wishes, min_size=1, max_size=5), steps=st.integers(0, 3))
    def tasks_come(self, wishes, steps):
        for which, *wish in wishes:
            caller = TaskCaller(self.world, getattr(self.world, which), *wish, loop=self.loop)
            self.referee.callers.append(caller)
        self.steps(steps)

    @rule(wish=wishes)
    def a_thread_comes(self, wish):
        which, *wish = wish
        # Tasks that were made already come first.
        self.steps(1)
        self.referee.callers.append(ThreadCaller(self.world, getattr(self.world, which), *wish))
        # Threads come at a moment of their own; one after another, so that their order is known.
        self.settle()

    @precondition(lambda self: self.referee.callers)
    @rule(places=st.sets(st.integers(1, LATELY), min_size=1, max_size=3), steps=st.integers(0, 3))
    def some_are_done(self, places, steps):
        for caller in self.lately(places):
            caller.release()
            caller.released = True
        self.steps(steps)

    @precondition(lambda self: self.referee.callers)
    @rule(places=st.sets(st.integers(1, LATELY), min_size=1, max_size=3), steps=st.integers(0, 3))
    def some_tasks_are_cancelled(self, places, steps):
        for caller in self.lately(places):
            caller.cancel()
        self.steps(steps)

    @precondition(lambda self: self.referee.callers)
    @rule(used=st.integers(0, 6), steps=st.integers(0, 3))
    def all_inside_report_what_they_used(self, used, steps):
        for caller in self.referee.callers:
            if caller.inside and not caller.released and not caller.cancelled:
                caller.report(used)
        self.steps(steps)

    @rule(milliseconds=st.integers(1, 6))
    def time_passes(self, milliseconds):
        self.settle()
        self.now += milliseconds * MILLISECOND
        self.loop.elapsed = self.now / 1e6

    @rule()
    def all_settle(self):
        self.settle()

    @rule()
    def another_event_loop_takes_over(self):
        self.close_loop()
        self.open_loop()

    @precondition(lambda self: self.forks < FORKS and len(self.referee.callers) > FEW)
    @rule()
    def the_process_is_forked(self):
        self.forks += 1
        trouble = trouble_in_a_fork(partial(begin_again, self.world, self.referee.callers))

        assert not trouble, trouble

    @invariant()
    def no_limit_is_broken(self):
        if hasattr(self, "loop"):
            self.referee.judge()

    def lately(self, places):
        # Which of them is where is for threads to decide, so it must not matter to the draw.
        return [each for place, each in enumerate(reversed(self.referee.callers), 1) if place in places]

    def hear(self, event):
        self.told[event.limit, event.kind] += 1

    def open_loop(self):
        self.loop = VirtualLoop()
        self.loop.elapsed = self.now / 1e6

    def close_loop(self):
        for caller in self.referee.callers:
            caller.cancel()
        self.settle()
        self.loop.close()

    def settle(self):
        self.until(lambda: not self.referee.unsettled())

    def until(self, condition):
        ends = time.monotonic() + BOUND
        while not condition():
            self.steps(1)
            self.referee.judge()
            self.stuck = time.monotonic() >= ends
            assert not self.stuck, self.referee.unsettled()

    def steps(self, number):
        for _ in range(number):
            self.loop.call_soon(self.loop.stop)
            self.loop.run_forever()

    def teardown(self):
        if not hasattr(self, "loop"):
            return
        try:
            if not self.stuck:
                self.end()
        finally:
            clock.now, limits.PATIENCE = self.real

    def end(self):
        ends, waiting = 0.0, None
        while left := [each for each in self.referee.callers if not each.ended]:
            if (
                len(left) != waiting
            ):  # one ended: time passes in many small steps, which a busy machine makes slowly
                ends, waiting = time.monotonic() + BOUND, len(left)
            self.stuck = time.monotonic() >= ends
            assert not self.stuck, ([vars(each) for each in left], self.world.joints(), self.now)
            for each in self.referee.callers:
                each.release()
                each.released = True
            self.time_passes(1)
        self.loop.close()
        self.referee.check_order()
        self.world.check_empty()
        if self.watched:
            self.check_events()

    def check_events(self):
        for limit in self.world.most:
            passed = [each for each in self.referee.callers if limit in dict(each.gates)]
            started = sum(each.started is not None for each in passed)
            assert started == self.told[limit.name, "acquired"] == self.told[limit.name, "released"]
            ends = sum(self.told[limit.name, kind] for kind in ("acquired", "rejected", "cancelled"))
            assert self.told[limit.name, "cancelled"] <= self.told[limit.name, "queued"] <= ends


TestLimitsMachine = LimitsMachine.TestCase
TestLimitsMachine.settings = settings(stateful_step_count=30)


def begin_again(world, others):
    """Use the limits in a forked process, where what *others* hold is not held."""
    world.check_empty()
    assert (0, 0) == (world.rate.stats().in_use, world.rate.stats().keys)
    for each in others:
        each.slot.end()
    world.check_empty()

    referee = Referee(world)

    async def come():
        loop = asyncio.get_running_loop()
        for number, key, limit in product(range(2), KEYS, (world.wide, world.narrow, world.overall)):
            referee.callers.append(TaskCaller(world, limit, key, 1 + number % 2, None, loop=loop))
        while not all(each.ended for each in referee.callers):
            for each in referee.callers:
                if each.inside:
                    each.release()
            referee.judge()
            await asyncio.sleep(0.001)
        referee.judge()

    async def come_in_time():
        await asyncio.wait_for(come(), 60)

    VirtualTime().run(come_in_time())
    referee.check_order()
    world.check_empty()


@pytest.mark.parametrize("victims", [*combinations(range(5), 1), *combinations(range(5), 2)])
def test_cancelling_at_every_step_loses_nothing(victims, monkeypatch):
    for steps in product(range(10), repeat=len(victims)):
        play(victims, steps, monkeypatch)


def play(victims, steps, monkeypatch):
    """Let five tasks pass three limits one step at a time, and cancel each of *victims* at its step."""
    now = 1_000_000
    monkeypatch.setattr(clock, "now", lambda: now)
    world = World(all_slots=2, key_slots=1, starts=2)
    referee = Referee(world)
    loop = VirtualLoop()
    referee.callers = [
        TaskCaller(world, world.wide, KEYS[number == 2], 1, None, loop=loop) for number in range(5)
    ]
    for step in range(30):
        for victim, at in zip(victims, steps, strict=True):
            if at == step:
                referee.callers[victim].cancel()
        for each in referee.callers:
            if each.inside:
                each.release()
        loop.call_soon(loop.stop)
        loop.run_forever()
        referee.judge()
        now += MILLISECOND
        loop.elapsed = now / 1e6
    loop.close()

    assert all(each.ended for each in referee.callers)
    assert all(each.started is not None for each in referee.callers if not each.cancelled)
    referee.check_order()
    world.check_empty()


def test_a_call_that_reserved_slots_never_stands_behind_an_elder_one_that_needs_them():
    state = LimitsMachine()
    state.begin(all_slots=3, key_slots=2, starts=3, max_queue=None, max_wait=None, watched=False, patience=1)
    pairs = zip("aaaaab", (1, 1, 2, 2, 1, 1), strict=True)
    state.tasks_come(wishes=[("wide", key, weight, None, None) for key, weight in pairs], steps=0)
    state.teardown()


def test_calls_of_a_forked_process_do_not_wait_behind_calls_of_its_parent():
    world = World(all_slots=1, key_slots=1)
    first = world.wide.acquire("a")
    second = ThreadCaller(world, world.wide, "a", 1, None)
    until(world.joints)

    trouble = trouble_in_a_fork(partial(begin_again, world, [second]))
    first.release()
    second.release()
    second.thread.join(10)

    assert not trouble, trouble
    assert second.ended
    world.check_empty()
