"""Play a plan through the real engine, as fast as it can: the clock jumps from one event to the next.

The engine decides which jobs start.  What is noted here only tells, afterwards, what each job had waited for.
"""

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Final

from penstock.engine import Engine
from penstock.job import Claim, Event, Settlement
from penstock.lifecycle.outcomes import Done
from penstock.limits.gate import ON_RELEASE
from penstock.limits.rules import UNLIMITED, OnLimit
from penstock.simulate.blame import charge
from penstock.simulate.lanes import Lanes
from penstock.simulate.plan import Plan, end_of
from penstock.simulate.watch import Group, Lane, Rule, SeenGate, Slots
from penstock.testing import FakeClock, engine_in_memory

QUEUE: Final = "default"
WORKER: Final = "simulated"
LEASE: Final = 10**16  # some three hundred years: no worker dies in a plan
FORGET: Final = 5_000  # jobs that have ended, at once
LOOK: Final = 64  # events between two looks at whether to go on
DONE: Final = Done()

KeepOn = Callable[[int, int], bool]  # told the time and how many jobs have come; False ends the play


@dataclass(frozen=True, slots=True)
class Played:
    """What came of a plan that was played *until* then; it is *whole* unless an interrupt ended it before."""

    plan: Plan
    seed: int
    until: int
    whole: bool
    everything: Group
    kinds: tuple[Group, ...]
    gates: tuple[SeenGate, ...]
    rules: tuple[Rule, ...]
    workers: Slots
    crew: Rule
    last_start: int


def play(
    plan: Plan, *, seed: int | None = None, until: int | None = None, keep_on: KeepOn | None = None
) -> Played:
    """Play *plan* with chance drawn from *seed*, *until* then or until all is done."""
    end = end_of(plan, until)
    clock = FakeClock()
    engine = engine_in_memory(clock)
    try:
        played = _Play(plan, plan.seed if seed is None else seed, engine, clock)
        return played.run(ON_RELEASE if end is None else end, keep_on or (lambda *_: True))
    finally:
        engine.close()


class _Play:
    """One play.  Invariant: whenever time passes, no job waits that could start."""

    def __init__(self, plan: Plan, seed: int, engine: Engine, clock: FakeClock) -> None:
        self._plan = plan
        self._seed = seed
        self._engine = engine
        self._clock = clock
        self._begin = clock.now()
        self._now = 0
        self._lanes = Lanes(plan, seed)
        self._arrivals: list[tuple[int, int, Iterator[int]]] = []  # when, and of which kind
        self._durations = [Random(f"{seed} {kind.name} durations") for kind in plan.jobs]
        self._running: list[tuple[int, int, int, Lane]] = []  # when it ends, its fence and number
        self._new: list[Lane] = []
        self._ended: list[Settlement] = []
        self._to_forget = 0
        self._wake = ON_RELEASE
        self._may_start = False
        self._workers = Slots(plan.concurrency)
        self._crew = Rule("", "workers", UNLIMITED)
        self._last_start = 0
        # Whether one is dropped depends on the very moment at which it comes.
        self._prompt = any(limit.on_limit is OnLimit.DROP for limit in plan.limits)
        self._lane_of: dict[str, Lane] = {}
        self._dropped: list[str] = []
        if self._prompt:
            engine.listen(self._note_drop)

    def run(self, end: int, keep_on: KeepOn) -> Played:
        for number, kind in enumerate(self._plan.jobs):
            self._await(number, kind.arrivals.times(Random(f"{self._seed} {kind.name} arrivals")))
        steps = 0
        whole = True
        while whole and (moment := self._next()) < end:
            self._now = moment
            self._end_attempts()
            self._let_arrive()
            self._decide()
            steps += 1
            whole = steps % LOOK != 0 or keep_on(moment, len(self._lanes.everything.arrivals))
        if whole and end != ON_RELEASE:
            self._now = end
        self._close_books()
        return self._played(whole=whole)

    def _next(self) -> int:
        """Return when something happens next."""
        moments = [self._wake]
        if self._arrivals:
            moments.append(self._arrivals[0][0])
        if self._running:
            moments.append(self._running[0][0])
        return min(moments)

    def _end_attempts(self) -> None:
        while self._running and self._running[0][0] <= self._now:
            _, fence, seq, lane = heapq.heappop(self._running)
            self._ended.append(Settlement(seq, fence, DONE))
            self._workers.free(self._now)
            for gate in lane.gates:
                gate.slots.free(self._now)
            # Where there was room before, no job waited for this.
            slots = (self._workers, *(gate.slots for gate in lane.gates))
            self._may_start = self._may_start or any(each.freed == self._now for each in slots)
            for group in lane.groups:
                group.done += 1

    def _let_arrive(self) -> None:
        while self._arrivals and self._arrivals[0][0] <= self._now:
            moment, number, times = heapq.heappop(self._arrivals)
            self._await(number, times)
            lane = self._lanes.next_of(number)
            # A lane in which a job waits is shut, or all workers are busy.
            self._may_start = self._may_start or not lane.waiting
            lane.arrive(moment, lane.kind.duration.draw(self._durations[number]))
            for group in lane.groups:
                group.arrivals.append(moment)
            self._new.append(lane)

    def _await(self, number: int, times: Iterator[int]) -> None:
        moment = next(times, None)
        if moment is not None:
            heapq.heappush(self._arrivals, (moment, number, times))

    def _decide(self) -> None:
        """Let the engine start what may start, if anything can.

        Arrivals and ends that can make no difference yet are told to it later, together with others.
        """
        moved = self._may_start or self._wake <= self._now
        if self._wake <= self._now:
            self._wake = ON_RELEASE
        if not moved and not self._prompt:
            return
        self._clock.advance_to(self._begin + self._now)
        if self._prompt:
            self._settle()
            self._enqueue()
        free = self._plan.concurrency - self._workers.taken
        if moved and free and self._lanes.everything.waiting:
            self._enqueue()
            self._start(free)
            self._forget()

    def _enqueue(self) -> None:
        if not self._new:
            return
        added = self._engine.enqueue([lane.job for lane in self._new])
        if self._prompt:
            self._lane_of |= {job.id: lane for job, lane in zip(added, self._new, strict=True)}
        self._new.clear()
        self._take_drops()

    def _settle(self) -> None:
        self._engine.settle(self._ended)
        self._to_forget += len(self._ended)
        self._ended.clear()

    def _start(self, free: int) -> None:
        while True:
            _, claim = self._engine.exchange(self._ended, [QUEUE], free, worker=WORKER, lease=LEASE, grace=0)
            self._to_forget += len(self._ended)
            self._ended.clear()
            self._begin_attempts(claim)
            self._take_drops()
            free -= len(claim.jobs)
            if not claim.more or not free:
                break
        self._may_start = False
        if free and self._lanes.everything.waiting and claim.next_at is not None:
            moment = max(claim.next_at - self._begin, self._now + 1)
            self._wake = moment if moment < self._now + LEASE // 2 else ON_RELEASE

    def _forget(self) -> None:
        """Forget jobs that have ended, so that long plays fit into memory."""
        if self._to_forget >= FORGET:
            self._engine.prune(self._clock.now() + 1)
            self._to_forget = 0

    def _begin_attempts(self, claim: Claim) -> None:
        now = self._now
        for job in claim.jobs:
            lane = self._lanes.every[int(job.args)]
            charge(lane, self._workers, self._crew, now)
            arrived, duration = lane.leave(now)
            for gate in lane.gates:
                gate.start(lane.kind.cost, now, now + duration)
            self._workers.take(now, now + duration)
            for group in lane.groups:
                group.starts.append(now)
                group.waits.append(now - arrived)
            heapq.heappush(self._running, (now + duration, job.fence, job.seq, lane))
            self._last_start = now

    def _note_drop(self, event: Event) -> None:
        if event.name == "limit.dropped":
            self._dropped.append(str(event.facts["job"]))

    def _take_drops(self) -> None:
        for id_ in self._dropped:
            lane = self._lane_of[id_]
            lane.leave(self._now)  # only the first of a lane is ever tested
            for group in lane.groups:
                group.drops.append(self._now)
        self._dropped.clear()

    def _close_books(self) -> None:
        """Charge the jobs that still wait to what keeps them, and take back what lies after the end."""
        for lane in self._lanes.every:
            charge(lane, self._workers, self._crew, self._now)
        for moment, _, _, lane in self._running:
            for slots in (self._workers, *(gate.slots for gate in lane.gates)):
                slots.spent -= moment - self._now

    def _played(self, *, whole: bool) -> Played:
        lanes = self._lanes
        return Played(
            self._plan,
            self._seed,
            self._now,
            whole,
            lanes.everything,
            lanes.kinds,
            tuple(lanes.gates.values()),
            tuple(rule for rules in lanes.rules.values() for rule in rules),
            self._workers,
            self._crew,
            self._last_start,
        )
