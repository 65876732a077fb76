"""What a gate remembers, and the one question asked of it: when would you let one more start through?

A gate belongs to one (tenant, key).  Many jobs with different numbers may share it: each is checked
against its own numbers over this shared memory.  Numbers in force, component by component: a live
override, else the configured (or floating) value, else the job's own.

Pure: times are arguments, in microseconds.

Invariant: a start is remembered at a moment no earlier than the one at which its handler begins.
"""

from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Final

from penstock.limits.rules import Numbers, Window

ALWAYS: Final = 0
ON_RELEASE: Final = 2**63 - 1  # later than any clock: only a release or a change opens the gate

EXACT_STARTS: Final = 256  # the newest starts are never merged
COARSE_STARTS: Final = 256  # older ones are merged to this many, towards the later time
_NARROW: Final = 2**32  # microseconds between two starts that fit into four bytes


@dataclass(slots=True)
class Starts:
    """Past starts as (time, weight) pairs, oldest first, no older than *span* when pruned."""

    span: int
    times: list[int] = field(default_factory=list)
    weights: list[int] = field(default_factory=list)

    def add(self, at: int, weight: int) -> None:
        """Remember a start *at* a moment (which may lie a little ahead)."""
        index = bisect_right(self.times, at)
        self.times.insert(index, at)
        self.weights.insert(index, weight)
        if len(self.times) > EXACT_STARTS + COARSE_STARTS:
            self._merge()

    def remove(self, at: int, weight: int) -> bool:
        """Forget a start remembered *at* exactly that moment; tell whether it was found."""
        for index in range(bisect_left(self.times, at), bisect_right(self.times, at)):
            if self.weights[index] == weight:
                del self.times[index]
                del self.weights[index]
                return True
        return False

    def prune(self, now: int) -> None:
        """Forget what no rule can see any more: a heavy start shuts a throttle for its weight in gaps."""
        if not self.times or self.times[0] + self.span > now:
            return
        kept = [(t, w) for t, w in zip(self.times, self.weights, strict=True) if t + self.span * w > now]
        self.times = [at for at, _ in kept]
        self.weights = [weight for _, weight in kept]

    def since(self, moment: int) -> int:
        """Return the weight of all starts later than *moment*."""
        return sum(self.weights[bisect_right(self.times, moment) :])

    def since_pairs(self, moment: int) -> list[tuple[int, int]]:
        """Return the (time, weight) of all starts later than *moment*."""
        first = bisect_right(self.times, moment)
        return list(zip(self.times[first:], self.weights[first:], strict=True))

    def pack(self) -> bytes:
        """Return the pairs as bytes: few, since a database writes all of them with every start."""
        steps = [later - earlier for earlier, later in pairwise((0, *self.times))]
        wide = any(step >= _NARROW for step in steps[1:])
        weighted = any(weight != 1 for weight in self.weights)
        head = array("Q", [wide << 1 | weighted, *steps[:1]]).tobytes()
        weights = array("Q", self.weights).tobytes() if weighted else b""
        return head + weights + array("Q" if wide else "I", steps[1:]).tobytes()

    @classmethod
    def unpack(cls, span: int, packed: bytes) -> "Starts":
        """Read back what `pack` wrote."""
        head = array("Q", packed[:16])
        if len(head) == 1:
            return cls(span)
        wide, weighted = head[0] >> 1, head[0] & 1
        size = (8 if wide else 4) + (8 if weighted else 0)
        count = 1 + (len(packed) - (24 if weighted else 16)) // size
        weights_end = 16 + 8 * count * weighted
        weights = array("Q", packed[16:weights_end]).tolist() if weighted else [1] * count
        steps = array("Q" if wide else "I", packed[weights_end:])
        return cls(span, list(accumulate((head[1], *steps))), weights)

    def _merge(self) -> None:
        # Merging towards the later time can only make a job wait; it never admits too much.
        grain = max(self.span // COARSE_STARTS, 1)
        old_times, old_weights = self.times[:-EXACT_STARTS], self.weights[:-EXACT_STARTS]
        times: list[int] = []
        weights: list[int] = []
        for at, weight in zip(old_times, old_weights, strict=True):
            if times and times[-1] // grain == at // grain:
                times[-1] = at
                weights[-1] += weight
            else:
                times.append(at)
                weights.append(weight)
        if len(times) > COARSE_STARTS:
            extra = len(times) - COARSE_STARTS
            weights[extra] += sum(weights[:extra])
            times, weights = times[extra:], weights[extra:]
        self.times = times + self.times[-EXACT_STARTS:]
        self.weights = weights + self.weights[-EXACT_STARTS:]


@dataclass(slots=True)
class Rules:
    """What was decided about a gate from outside the jobs."""

    configured: Numbers | None = None
    floating: int | None = None
    override: Numbers | None = None
    override_until: int | None = None
    shut_until: int = ALWAYS
    shut_reason: str = ""

    @property
    def empty(self) -> bool:
        return (
            self.configured is None
            and self.floating is None
            and self.override is None
            and not self.shut_until
        )

    def effective(self, own: Numbers, now: int) -> Numbers:
        """Return the numbers in force for a job that brings *own*."""
        slots, rate, throttle = own.slots, own.rate, own.throttle
        if self.floating is not None:
            slots = self.floating
        for numbers in (self.configured, self.live_override(now)):
            if numbers is not None:
                slots = slots if numbers.slots is None else numbers.slots
                rate = rate if numbers.rate is None else numbers.rate
                throttle = throttle if numbers.throttle is None else numbers.throttle
        return Numbers(slots, rate, throttle)

    def live_override(self, now: int) -> Numbers | None:
        if self.override_until is not None and self.override_until <= now:
            return None
        return self.override

    def next_change(self, now: int) -> int:
        """Return when the clock alone will change these rules."""
        ends = [at for at in (self.override_until, self.shut_until) if at is not None and at > now]
        return min(ends, default=ON_RELEASE)


@dataclass(slots=True)
class Gate:
    """What is remembered for one key: how many run, which started lately, what was decided about it."""

    id: int
    running: int = 0
    starts: Starts | None = None
    rules: Rules | None = None

    def numbers(self, own: Numbers, now: int) -> Numbers:
        """Return the numbers in force for a job that brings *own*."""
        return own if self.rules is None else self.rules.effective(own, now)

    def opens_at(self, own: Numbers, cost: int, now: int, kept: int = 0, slots: int = 1) -> int:
        """Return the first moment at which a start of *cost* fits: at most *now* if it fits now.

        *kept* is the cost of a start to be tested as if it had happened already (0: none); *slots* are all wanted.
        """
        numbers = self.numbers(own, now)
        if numbers.slots is not None and self.running + slots + (1 if kept else 0) > numbers.slots:
            return ON_RELEASE
        at = ALWAYS if self.rules is None else self.rules.shut_until
        if numbers.rate is not None:
            at = max(at, self._rate_opens_at(numbers.rate, cost + kept, now))
        if numbers.throttle is not None:
            at = max(at, ON_RELEASE if kept else self.throttle_opens_at(numbers.throttle))
        return at

    def start(self, at: int, cost: int) -> None:
        """Take a slot, and remember the start where this gate remembers starts."""
        self.running += 1
        if self.starts is not None:
            self.starts.add(at, cost)

    def release(self) -> None:
        """Give a slot back."""
        self.running -= 1

    def remember(self, span: int, now: int) -> None:
        """Begin to remember starts, as far back as *span*; lengthen the memory if it was shorter."""
        if self.starts is None:
            self.starts = Starts(span)
        self.starts.span = max(self.starts.span, span)
        self.starts.prune(now)

    def too_heavy(self, own: Numbers, cost: int, now: int) -> bool:
        """Tell whether a start of *cost* can never fit into the rate now in force."""
        rate = self.numbers(own, now).rate
        return rate is not None and 0 < rate.limit < cost

    def _rate_opens_at(self, rate: Window, cost: int, now: int) -> int:
        if cost > rate.limit:
            return ON_RELEASE
        if self.starts is None:
            return ALWAYS
        times, weights = self.starts.times, self.starts.weights
        first = bisect_right(times, now - rate.period)
        excess = sum(weights[first:]) + cost - rate.limit
        index = first
        while excess > 0:
            excess -= weights[index]
            index += 1
        return ALWAYS if index == first else times[index - 1] + rate.period

    def throttle_opens_at(self, throttle: Window) -> int:
        """Return the first moment far enough from the starts that are remembered."""
        if not throttle.limit:
            return ON_RELEASE
        if self.starts is None or not self.starts.times:
            return ALWAYS
        # A heavy start pays for its weight by a longer gap after it.
        gap = throttle.gap
        pairs = zip(self.starts.times, self.starts.weights, strict=True)
        return max(at + gap * weight for at, weight in pairs)
