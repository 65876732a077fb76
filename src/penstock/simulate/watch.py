"""What is seen while a plan is played: which jobs came and started, and what each waited for."""

from array import array
from collections import deque
from dataclasses import dataclass, field

from penstock.job import NewJob
from penstock.limits.gate import Gate
from penstock.limits.rules import Limit, Numbers
from penstock.simulate.plan import JobKind, PlannedLimit


def _times() -> "array[int]":
    return array("q")


@dataclass(slots=True)
class Group:
    """Jobs that are looked at together: those of a kind, of a key, or all."""

    name: str
    arrivals: "array[int]" = field(default_factory=_times)
    starts: "array[int]" = field(default_factory=_times)
    waits: "array[int]" = field(default_factory=_times)  # of each start
    drops: "array[int]" = field(default_factory=_times)
    done: int = 0

    @property
    def waiting(self) -> int:
        return len(self.arrivals) - len(self.starts) - len(self.drops)


@dataclass(slots=True)
class Rule:
    """One number of a limit, and how long it kept jobs waiting; *limit* is "" for the workers."""

    limit: str
    kind: str  # slots, rate, throttle
    numbers: Numbers
    held: float = 0.0  # microseconds, over all jobs


@dataclass(slots=True)
class Slots:
    """So many at once: how many are taken, and when all of them were, the last time."""

    most: int | None
    taken: int = 0
    spent: int = 0  # microseconds, over all slots
    filled: int = 0
    freed: int = -1

    def take(self, now: int, until: int) -> None:
        """Take a slot now, to be given back then."""
        self.taken += 1
        self.spent += until - now
        if self.taken == self.most:
            self.filled = now

    def free(self, now: int) -> None:
        """Give a slot back."""
        if self.taken == self.most:
            self.freed = now
        self.taken -= 1

    def full(self, since: int, now: int) -> tuple[int, int]:
        """Return from when to when no slot was free, the last time between *since* and *now*."""
        full = self.most is not None and self.taken >= self.most
        return max(self.filled, since), now if full else self.freed


@dataclass(slots=True)
class SeenGate:
    """One key of a limit, as its jobs see it."""

    limit: PlannedLimit
    rules: tuple[Rule, ...]
    group: Group
    slots: Slots
    memory: Gate
    started: int = 0  # by cost

    def shut(self, rule: Rule, cost: int, since: int, now: int) -> tuple[int, int]:
        """Return from when to when a rule forbade a start, between *since* and *now*."""
        if rule.kind == "slots":
            return self.slots.full(since, now)
        return since, min(self.memory.opens_at(rule.numbers, cost, since), now)

    def start(self, cost: int, now: int, until: int) -> None:
        """Take note of a start."""
        self.slots.take(now, until)
        self.started += cost
        if self.memory.starts is not None:
            self.memory.starts.prune(now)
            self.memory.starts.add(now, cost)


@dataclass(slots=True)
class Lane:
    """Jobs of one kind and with the same keys: those that wait, as (arrival, duration).

    *area* is how long all of them together have waited *since* its last start.
    """

    kind: JobKind
    job: NewJob
    gates: tuple[SeenGate, ...]
    groups: tuple[Group, ...]
    waiting: deque[tuple[int, int]] = field(default_factory=deque)
    since: int = 0
    area: int = 0
    counted: int = 0  # up to when

    def arrive(self, now: int, duration: int) -> None:
        """Let one more wait."""
        if not self.waiting:
            self.since = self.counted = now
        self.count(now)
        self.waiting.append((now, duration))

    def leave(self, now: int) -> tuple[int, int]:
        """Let the first one go."""
        self.count(now)
        return self.waiting.popleft()

    def count(self, now: int) -> None:
        """Count the waiting up to *now*."""
        self.area += len(self.waiting) * (now - self.counted)
        self.counted = now


def rules_of(limit: PlannedLimit) -> tuple[Rule, ...]:
    """Return the rules of a limit, one for each of its numbers."""
    given = {kind: getattr(limit.numbers, kind) for kind in ("slots", "rate", "throttle")}
    return tuple(
        Rule(limit.name, kind, Numbers(**{kind: value})) for kind, value in given.items() if value is not None
    )


def seen_gate(limit: PlannedLimit, key: str, rules: tuple[Rule, ...]) -> SeenGate:
    """Return a gate at which nothing has happened yet."""
    memory = Gate(0)
    memory.remember(limit.numbers, 0)
    return SeenGate(limit, rules, Group(key), Slots(limit.numbers.slots), memory)


def engine_limit(limit: PlannedLimit, key: str) -> Limit:
    """Return *limit* as a job carries it."""
    return Limit(key, limit.numbers, limit.on_limit)
