"""Random histories of resource groups, and a naive model that foretells which jobs a claim starts.

The model looks at every waiting job, oldest first, and counts everything each time.  Which resource a job takes is the
engine's choice; the model checks that it had room, and that no job that could have started was left.
"""

import random
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from penstock.clock import SECOND
from penstock.engine import open_engine
from penstock.engine.settle import MAX_LOST
from penstock.job import Claimed, NewJob, Settlement
from penstock.lifecycle.outcomes import Done, HandedBack
from penstock.limits.calendar import EVE, DailyCap, Ramp
from penstock.limits.groups import Resource, Strategy
from penstock.limits.rules import UNLIMITED, Limit, Numbers
from tests.support.clock import FakeClock

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
HOUR = 3_600 * SECOND
LEASE = 10 * HOUR
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Africa/Cairo")
START = int(datetime(2026, 10, 23, 12, tzinfo=UTC).timestamp()) * SECOND  # days before clocks are changed
GROUP = Limit("group", UNLIMITED, group=True)
KEYS = ("a", "b", "c")


class NoticedError(AssertionError):
    """The engine did what the model does not allow."""


@dataclass(slots=True)
class Waiting:
    """A job that waits; *key* is a slot that it needs besides, *group* whether it takes a resource."""

    ord: int
    id: str
    key: str | None
    group: bool
    lost: int = 0


@dataclass(slots=True)
class Running:
    job: Waiting
    attempt: Claimed
    until: int


@dataclass
class Model:
    """What should be true, kept as plainly as can be."""

    resources: dict[str, Resource] = field(default_factory=dict)
    slots: dict[str, int | None] = field(default_factory=dict)
    shut: dict[str, int] = field(default_factory=dict)
    starts: list[tuple[str, int]] = field(default_factory=list)  # resource, moment, of all that counted
    counted: set[tuple[int, int]] = field(default_factory=set)  # (seq, fence) of the attempts among those
    waiting: list[Waiting] = field(default_factory=list)
    running: dict[str, Running] = field(default_factory=dict)

    def gate_open(self, key: str, now: int, own: int | None = None) -> bool:
        slots = own if self.slots.get(key) is None else self.slots[key]
        held = sum(key in (run.job.key, run.attempt.resource) for run in self.running.values())
        return self.shut.get(key, 0) <= now and (slots is None or held < slots)

    def has_room(self, key: str, now: int) -> bool:
        resource = self.resources.get(key)
        if resource is None or not resource.enabled or not self.gate_open(key, now):
            return False
        daily = resource.daily
        if daily is None:
            return True
        today = shown(now, daily.zone)
        if shown(now + EVE, daily.zone) != today:
            return False
        counted = sum(1 for taken, at in self.starts if taken == key and shown(at, daily.zone) == today)
        return counted < allowed(daily, today)

    def may_start(self, job: Waiting, now: int) -> bool:
        if job.key is not None and not self.gate_open(job.key, now, own=1):
            return False
        return not job.group or any(self.has_room(key, now) for key in self.resources)


def shown(at: int, zone: str) -> date:
    return (EPOCH + timedelta(microseconds=at)).astimezone(ZoneInfo(zone)).date()


def allowed(daily: DailyCap, today: date) -> int:
    ramp = daily.ramp
    if ramp is None or (today - ramp.start).days >= ramp.days:
        return daily.most
    return ramp.cap + (daily.most - ramp.cap) * max((today - ramp.start).days, 0) // ramp.days


class History:
    """One random history, played at an engine and at the model."""

    def __init__(self, seed: int, url: str = ":memory:", *, turns: bool = False) -> None:
        self.chance = random.Random(seed)
        self.clock = FakeClock(START)
        self.url = url
        self.turns = turns  # then a claim may leave what is kept for a job that has the turn, for a second
        self.model = Model()
        self.done: Counter[str] = Counter()
        self.ord = 0
        self.zones = {key: self.chance.choice(ZONES) for key in KEYS}

    def play(self, steps: int) -> int:
        """Play so many steps; return how many jobs started."""
        with closing(open_engine(self.url, clock=self.clock)) as self.engine:
            self.engine._turns = self.turns
            self.engine.put_resource_group("group", self.chance.choice(list(Strategy)))
            for _ in range(steps):
                step = self.chance.choice(
                    [self.enqueue, self.claim, self.claim, self.settle, self.wait, self.wait, self.change]
                )
                step()
            for _ in range(6):
                self.claim(100)
                self.end_all()
                self.clock.advance(SECOND)
            self.claim(100)
            self.check_none_left()
            return sum(self.done.values())

    def enqueue(self) -> None:
        for _ in range(self.chance.randint(1, 4)):
            self.ord += 1
            key = self.chance.choice([None, None, "k", *KEYS])
            job = Waiting(self.ord, f"j{self.ord}", key, key is None or self.chance.random() < 0.5)
            limits = [Limit(key, Numbers(slots=1))] if key else []
            self.engine.enqueue(
                [NewJob("t", queue="q", id=job.id, limits=(*limits, *([GROUP] if job.group else [])))]
            )
            self.model.waiting.append(job)

    def claim(self, count: int | None = None) -> None:
        count = count or self.chance.randint(1, 5)
        now, model = self.clock.now(), self.model
        for run in [run for run in model.running.values() if run.until <= now]:
            del model.running[run.job.id]
            run.job.lost += 1
            if run.job.lost <= MAX_LOST:
                model.waiting.append(run.job)
        model.waiting.sort(key=lambda job: job.ord)
        more = True
        while more and count:
            claim = self.engine.claim(["q"], count, worker="w", lease=LEASE)
            more = claim.more
            count -= len(claim.jobs)
            for attempt in claim.jobs:
                self.start(attempt, now)
        if count and not self.turns:
            self.check_none_left()
        check(not (found := self.engine.doctor()), str(found))

    def check_none_left(self) -> None:
        now = self.clock.now()
        left = next((job.id for job in self.model.waiting if self.model.may_start(job, now)), None)
        check(left is None, f"{left} could start and was left")

    def start(self, attempt: Claimed, now: int) -> None:
        model = self.model
        wanted = attempt.id if self.turns else None
        able = (job for job in model.waiting if model.may_start(job, now) and wanted in (None, job.id))
        first = next(able, None)
        check(first is not None and first.id == attempt.id, f"{attempt.id} started, not {first}")
        check(first.group == (attempt.resource is not None), f"{attempt.id} took {attempt.resource}")
        if attempt.resource is not None:
            check(model.has_room(attempt.resource, now), f"{attempt.resource} had no room")
            daily = model.resources[attempt.resource].daily
            if daily is not None:
                check(attempt.begin_by > now, "it may begin at any time")
                begins = shown(attempt.begin_by, daily.zone)
                check(begins == shown(now, daily.zone), "it may begin on another day")
                model.starts.append((attempt.resource, now))
                model.counted.add((attempt.seq, attempt.fence))
        model.waiting.remove(first)
        model.running[first.id] = Running(first, attempt, now + LEASE)
        self.done[first.id] += 1

    def settle(self) -> None:
        if not self.model.running:
            return
        run = self.chance.choice(list(self.model.running.values()))
        attempt = run.attempt
        unbegun = self.chance.random() < 0.3
        outcome = HandedBack(begun=False) if unbegun else Done()
        self.engine.settle([Settlement(attempt.seq, attempt.fence, outcome)])
        del self.model.running[run.job.id]
        if unbegun:
            self.model.waiting.append(run.job)
            if (attempt.seq, attempt.fence) in self.model.counted:
                self.model.starts.remove((attempt.resource, attempt.started))

    def end_all(self) -> None:
        runs = list(self.model.running.values())
        self.engine.settle([Settlement(run.attempt.seq, run.attempt.fence, Done()) for run in runs])
        self.model.running.clear()

    def wait(self) -> None:
        span = self.chance.choice([1, SECOND, HOUR, 5 * HOUR, None])
        if span is None:
            # Near a midnight of one of the zones.
            zone = self.chance.choice(ZONES)
            now = self.clock.now()
            tomorrow = shown(now, zone) + timedelta(days=1)
            midnight = datetime(tomorrow.year, tomorrow.month, tomorrow.day, tzinfo=ZoneInfo(zone))
            at = (midnight - EPOCH) // timedelta(microseconds=1)
            span = max(at - now + self.chance.choice([-SECOND, -EVE - 1, -EVE, -1, 0, 1]), 1)
        self.clock.advance(span)

    def change(self) -> None:
        model, key, now = self.model, self.chance.choice(KEYS), self.clock.now()
        match self.chance.randint(0, 6):
            case 0 | 1 | 2:
                self.put(key)
            case 3 if key in model.resources:
                self.engine.delete_resource("group", key)
                del model.resources[key]
                model.starts = [(taken, at) for taken, at in model.starts if taken != key]
                runs = [run.attempt for run in model.running.values() if run.attempt.resource == key]
                model.counted -= {(attempt.seq, attempt.fence) for attempt in runs}
            case 4:
                slots = self.chance.choice([None, 0, 1, 2])
                self.engine.configure("key", key, None if slots is None else Numbers(slots=slots))
                model.slots[key] = slots
            case 5:
                until = now + self.chance.choice([SECOND, HOUR])
                self.engine.shut(key, until)
                model.shut[key] = max(until, model.shut.get(key, 0))
            case 6:
                self.engine.put_resource_group("group", self.chance.choice(list(Strategy)))
            case _:
                pass

    def put(self, key: str) -> None:
        zone, most = self.zones[key], self.chance.randint(0, 4)
        first = self.chance.randint(0, most)
        start = shown(self.clock.now(), zone) + timedelta(days=self.chance.randint(-3, 1))
        ramp = Ramp(start, self.chance.randint(1, 5), first) if self.chance.random() < 0.4 else None
        daily = None if self.chance.random() < 0.2 else DailyCap(most, zone, ramp)
        resource = Resource(key, self.chance.randint(1, 5), self.chance.random() < 0.8, daily)
        self.engine.put_resource("group", resource)
        self.model.resources[key] = resource


def check(holds: bool, problem: str) -> None:
    if not holds:
        raise NoticedError(problem)
