"""What a gate remembers, and the one question asked of it: when would you let one more start through?

A gate belongs to one (tenant, key).  Many jobs with different numbers may share it: each is checked
against its own numbers over this shared memory.  Numbers in force, component by component: a live
override, else the configured value, else the job's own; where the key floats, the smaller of that value and the
job's own number of slots.

Pure: times are arguments, in microseconds.

Invariant: a start is remembered at a moment no earlier than the one at which its handler begins.
"""

from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from itertools import accumulate, dropwhile, pairwise
from typing import Final

from penstock.limits.bucket import Bucket
from penstock.limits.rules import Numbers, Window

ALWAYS: Final = 0
ON_RELEASE: Final = 2**63 - 1  # later than any clock: only a release or a change opens the gate

EXACT_STARTS: Final = 256  # the newest starts are never merged
COARSE_STARTS: Final = 256  # older ones are merged to this many, towards the later time
_NARROW: Final = 2**32  # microseconds between two starts that fit into four bytes


@dataclass(slots=True)
class Starts:
    """Past starts as (time, weight) pairs, oldest first, no older than *span* when pruned.

    Where starts are *paced* by a throttle it sees a heavy one for its weight in gaps, each of at most the whole span.
    Where a throttle lets bursts through, what is pruned stays in the *bucket*.
    """

    span: int
    times: list[int] = field(default_factory=list)
    weights: list[int] = field(default_factory=list)
    paced: bool = False
    bucket: Bucket | None = None

    def add(self, at: int, weight: int) -> None:
        """Remember a start *at* a moment (which may lie a little ahead)."""
        index = bisect_right(self.times, at)
        self.times.insert(index, at)
        self.weights.insert(index, weight)
        if len(self.times) > EXACT_STARTS + COARSE_STARTS:
            self._merge()

    def weigh(self, at: int, weight: int, used: int, now: int) -> bool:
        """Have a start weigh what it *used* in place of *weight*; tell whether that changed anything.

        Of one that was merged with others only what it used beyond its weight counts.
        """
        if used == weight:
            return False
        forgotten, found = self.forgets(at, weight, now), False
        if forgotten and self.bucket is not None:
            # The bucket lacks its weight already; more counts from now on.
            at, forgotten = now, False
        else:
            found = self.remove(at, weight)
        more = used if found or forgotten else used - weight
        if more > 0 and not self.forgets(at, more, now):
            self.add(at, more)
            return True
        return found

    def forgets(self, at: int, weight: int, now: int) -> bool:
        """Tell whether no rule can see a start any more."""
        return at + self._seen_for(weight) <= now

    def remove(self, at: int, weight: int) -> bool:
        """Forget a start remembered *at* exactly that moment; tell whether it was found."""
        for index in range(bisect_left(self.times, at), bisect_right(self.times, at)):
            if self.weights[index] == weight:
                del self.times[index]
                del self.weights[index]
                return True
        return False

    def prune(self, now: int) -> None:
        """Forget what no rule can see any more."""
        old = bisect_right(self.times, now - self.span)
        if not old:
            return
        pairs = list(zip(self.times[:old], self.weights[:old], strict=True))
        if self.bucket is None:
            kept = [(t, w) for t, w in pairs if not self.forgets(t, w, now)]
        else:
            # In order: a heavy start, seen for longer, would count in full after later ones that left before it.
            kept = list(dropwhile(lambda pair: self.forgets(*pair, now), pairs))
            for at, weight in pairs[: old - len(kept)]:
                self.bucket.fold(at, weight)
        self.times[:old] = [at for at, _ in kept]
        self.weights[:old] = [weight for _, weight in kept]

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
    def unpack(cls, span: int, packed: bytes, *, paced: bool = False) -> "Starts":
        """Read back what `pack` wrote."""
        head = array("Q", packed[:16])
        if len(head) == 1:
            return cls(span, paced=paced)
        wide, weighted = head[0] >> 1, head[0] & 1
        size = (8 if wide else 4) + (8 if weighted else 0)
        count = 1 + (len(packed) - (24 if weighted else 16)) // size
        weights_end = 16 + 8 * count * weighted
        weights = array("Q", packed[16:weights_end]).tolist() if weighted else [1] * count
        steps = array("Q" if wide else "I", packed[weights_end:])
        return cls(span, list(accumulate((head[1], *steps))), weights, paced)

    @property
    def kept_until(self) -> int:
        """The moment from which on no rule can see any of them."""
        pairs = zip(self.times, self.weights, strict=True)
        seen = max((at + self._seen_for(weight) for at, weight in pairs), default=0)
        return seen if self.bucket is None else max(seen, self._full_at(self.bucket))

    def _full_at(self, bucket: Bucket) -> int:
        due = bucket.due
        for at, weight in zip(self.times, self.weights, strict=True):
            due = max(due, at) + weight * bucket.gap
        return due

    def _seen_for(self, weight: int) -> int:
        if self.paced:
            return self.span * weight
        return self.span if self.bucket is None else max(self.span, self.bucket.gap * weight)

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
            slots = self.floating if slots is None or own.floats else min(slots, self.floating)
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
        return self._refills_at(numbers, cost, now, kept)

    def refills_at(self, own: Numbers, now: int) -> int:
        """Return when a start of the least cost fits by the clock, however many run."""
        return self._refills_at(self.numbers(own, now), 1, now)

    def start(self, at: int, cost: int) -> None:
        """Take a slot, and remember the start where this gate remembers starts."""
        self.running += 1
        if self.starts is not None:
            self.starts.add(at, cost)

    def release(self) -> None:
        """Give a slot back."""
        self.running -= 1

    def remember(self, numbers: Numbers, now: int) -> bool:
        """Begin to remember starts as far back as *numbers* look; tell whether that is further back than before."""
        if not numbers.span:
            return False
        if self.starts is None:
            self.starts = Starts(0)
        starts = self.starts
        before = (starts.span, starts.paced, starts.bucket and starts.bucket.gap)
        throttle = numbers.throttle
        starts.span = max(starts.span, numbers.span)
        if throttle is not None and throttle.limit:
            starts.paced = starts.paced or throttle.burst == 1
            if throttle.burst > 1 and starts.bucket is None:
                starts.bucket = Bucket(throttle.gap)
            if starts.bucket is not None:
                starts.bucket.slow_down(throttle)
        starts.prune(now)
        return (starts.span, starts.paced, starts.bucket and starts.bucket.gap) != before

    def too_heavy(self, own: Numbers, cost: int, now: int) -> bool:
        """Tell whether a start of *cost* can never fit into the rate now in force."""
        rate = self.numbers(own, now).rate
        return rate is not None and 0 < rate.limit < cost

    def leaves_room(self, own: Numbers, cost: int, other: int, now: int, slots: int = 1) -> bool:
        """Tell whether a start of *cost* that brings *own* would fit after one of cost *other* that takes *slots*."""
        numbers = self.numbers(own, now)
        if numbers.slots is not None and self.running + slots + 1 > numbers.slots:
            return False
        if numbers.rate is not None and self._used(numbers.rate, now) + other + cost > numbers.rate.limit:
            return False
        return numbers.throttle is None or self.throttle_opens_at(numbers.throttle, cost, other) <= now

    def outdone(self, own: Numbers, now: int) -> bool:
        """Tell whether a job that brings *own* is shut out by starts that brought larger numbers.

        Ask after a release: then a gate whose jobs all bring the same numbers has a free slot.
        """
        numbers = self.numbers(own, now)
        if own.slots and own.slots == numbers.slots and self.running >= own.slots:
            return True
        if (
            own.rate is not None
            and own.rate == numbers.rate
            and self._used(own.rate, now) > own.rate.limit > 0
        ):
            return True
        throttle = own.throttle
        return throttle is not None and throttle == numbers.throttle and self._is_outpaced(throttle)

    def _is_outpaced(self, throttle: Window) -> bool:
        """Tell whether the last starts are closer, or the bucket emptier, than where all obey this throttle."""
        if not throttle.limit or self.starts is None or not self.starts.times:
            return False
        times, weights = self.starts.times, self.starts.weights
        if throttle.burst > 1:
            most = max(throttle.burst, *weights) * throttle.gap
            return self.throttle_due(throttle) - times[-1] > most
        return len(times) > 1 and times[-1] - times[-2] < throttle.gap * weights[-2]

    def _used(self, rate: Window, now: int) -> int:
        return 0 if self.starts is None else self.starts.since(now - rate.period)

    def _refills_at(self, numbers: Numbers, cost: int, now: int, kept: int = 0) -> int:
        at = ALWAYS if self.rules is None else self.rules.shut_until
        if numbers.rate is not None:
            at = max(at, self._rate_opens_at(numbers.rate, cost + kept, now))
        if numbers.throttle is not None:
            at = max(at, self.throttle_opens_at(numbers.throttle, cost, kept))
        return at

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

    def throttle_opens_at(self, throttle: Window, cost: int, kept: int = 0) -> int:
        """Return the first moment far enough from the starts that are remembered, with *kept* as in `opens_at`."""
        if not throttle.limit:
            return ON_RELEASE
        before_full = throttle.lead(cost) - kept * throttle.gap
        return ON_RELEASE if before_full < 0 else max(self.throttle_due(throttle) - before_full, ALWAYS)

    def throttle_due(self, throttle: Window) -> int:
        """Return when the bucket of a throttle is full; one without bursts holds a single start."""
        if self.starts is None:
            return ALWAYS
        gap = throttle.gap
        pairs = zip(self.starts.times, self.starts.weights, strict=True)
        if throttle.burst == 1:
            # A heavy start pays for its weight by a longer gap after it.
            return max((at + gap * weight for at, weight in pairs), default=ALWAYS)
        due = ALWAYS if self.starts.bucket is None else self.starts.bucket.due_by(throttle)
        for at, weight in pairs:
            due = max(due, at) + gap * weight
        return due
