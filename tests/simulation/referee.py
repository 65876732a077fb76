"""Was every limit kept?  Judged by what workers saw: what they claimed, when handlers began and ended.

Times are true time, which cannot be set.  What the rules were when an attempt was claimed is told by the
world that set them; how the engine counts is not asked.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

LATEST = 130_000  # within which a handler begins after its claim: granted that far ahead, and late
FOREVER = 2**63


class Pass(NamedTuple):
    """A gate that an attempt passes, and the numbers that were in force there when it was claimed.

    *counts* tells whether the gate remembers starts: only from then on do they count.  A start weighs *cost* there.
    Where starts were not *paced* by a throttle yet, a heavy one is remembered no longer than others.  A bucket is
    *kept* from the first throttle with a burst on: how much of what was before it lacks is not judged here.
    """

    gate: Any
    slots: int | None
    rate: tuple[int, int] | None
    throttle: tuple[int, int, int] | None
    counts: bool = True
    cost: int = 1
    paced: bool = True
    kept: bool = True


@dataclass(eq=False)
class Attempt:
    """A claim as its worker sees it: his until it is settled or its lease is over."""

    job: str
    fence: int
    order: int
    claimed: int
    lease: int
    passes: Sequence[Pass]
    after: "Attempt | None" = None  # the one whose slot it is handed
    began: int | None = None
    until: int = FOREVER
    used: list[tuple[int, Any, int]] = field(
        default_factory=list
    )  # before which claim, of which gate, how much

    def follows(self, other: "Attempt") -> bool:
        """Tell whether it begins when another has ended."""
        return self.after is not None and (self.after is other or self.after.follows(other))

    def is_paced(self, gate: Any) -> bool:
        """Tell whether a throttle paced the starts at a gate when this was claimed."""
        return any(passed.paced for passed in self.passes if passed.gate == gate)

    def is_kept(self, gate: Any) -> bool:
        """Tell whether a bucket was kept at a gate when this was claimed."""
        return any(passed.kept for passed in self.passes if passed.gate == gate)

    def weight(self, gate: Any, order: int) -> int:
        """Return what its start weighed at a gate as far as was known when a claim of that *order* was made."""
        known = [passed.cost for passed in self.passes if passed.gate == gate]
        known += [amount for before, of, amount in self.used if of == gate and before <= order]
        return known[-1]


@dataclass
class Referee:
    """Hears of attempts; `complaints` are sentences, one for each thing that should not have happened."""

    complaints: list[str] = field(default_factory=list)
    attempts: dict[tuple[str, int], Attempt] = field(default_factory=dict)
    most: dict[Any, int] = field(default_factory=dict)
    _at: dict[Any, list[Attempt]] = field(default_factory=lambda: defaultdict(list))
    _unripe: list[Attempt] = field(default_factory=list)
    _done: set[str] = field(default_factory=set)

    def claimed(
        self,
        job: str,
        fence: int,
        at: int,
        lease: int,
        passes: Sequence[Pass],
        after: Attempt | None = None,
    ) -> Attempt:
        """A worker was given a job: from now on it holds a slot in each of its gates, or that of another *after* it."""
        attempt = Attempt(job, fence, len(self.attempts), at, lease, passes, after)
        others = [a for (name, _), a in self.attempts.items() if name == job and self.holds(a, at)]
        if others:
            self.complaints.append(f"{job} was given to two workers at once")
        if job in self._done:
            self.complaints.append(f"{job} was started though it is done")
        for passed in passes:
            there = [a for a in self._at[passed.gate] if self.holds(a, at) and not attempt.follows(a)]
            self._at[passed.gate].append(attempt)
            self.most[passed.gate] = max(self.most.get(passed.gate, 0), len(there) + 1)
            if passed.slots is not None and len(there) + 1 > passed.slots:
                running = ", ".join(a.job for a in [*there, attempt])
                self.complaints.append(f"{passed.gate} had {running} at once; {passed.slots} may be")
        self.attempts[job, fence] = attempt
        return attempt

    def began(self, attempt: Attempt, at: int) -> None:
        """Its handler began."""
        attempt.began = at
        if attempt.after is not None and self.holds(attempt.after, at):
            self.complaints.append(
                f"{attempt.job} began before {attempt.after.job}, which it follows, had ended"
            )
        self._unripe.append(attempt)

    def spent(self, attempt: Attempt, gate: Any, amount: int) -> None:
        """Its worker told what it used: that counts for all who are claimed from now on."""
        attempt.used.append((len(self.attempts), gate, amount))

    def renewed(self, attempt: Attempt, lease: int) -> None:
        """Its worker was heard from."""
        attempt.lease = lease

    def ended(self, attempt: Attempt, at: int, *, accepted: bool, done: bool) -> None:
        """Its worker told how it ended."""
        if accepted and attempt.until != FOREVER:
            self.complaints.append(f"{attempt.job} was settled twice with one fence")
        newer = [a for a in self.attempts.values() if a.job == attempt.job and a.order > attempt.order]
        if accepted and newer:
            self.complaints.append(f"an old attempt of {attempt.job} was settled though a newer one began")
        attempt.until = min(attempt.until, at)
        if accepted and done:
            self._done.add(attempt.job)

    def look(self, now: int) -> list[str]:
        """Judge the starts before which no earlier claim can begin any more; return what was wrong."""
        ripe = [a for a in self._unripe if a.began is not None and a.began + LATEST < now]
        if ripe:
            self._unripe = [a for a in self._unripe if a not in ripe]
            for attempt in ripe:
                self._judge(attempt)
        return self.complaints

    def finish(self) -> list[str]:
        """Judge all that are left."""
        return self.look(FOREVER)

    def holds(self, attempt: Attempt, at: int) -> bool:
        """Tell whether an attempt is its worker's at that moment."""
        return attempt.until > at and attempt.lease > at

    def _judge(self, last: Attempt) -> None:
        """Ask of a start whether those claimed before it left room for it."""
        for passed in last.passes:
            if not passed.counts or (passed.rate is None and passed.throttle is None):
                continue
            earlier = [
                (a.began, weight, a)
                for a in self._at[passed.gate]
                if a.order < last.order
                and a.began is not None
                and any(p.gate == passed.gate and p.counts for p in a.passes)
                and (weight := a.weight(passed.gate, last.order))
            ]
            if passed.rate is not None:
                self._judge_windows(passed, last, [(at, weight) for at, weight, _ in earlier])
            if passed.throttle is not None:
                self._judge_gaps(passed, last, earlier)

    def _judge_windows(self, passed: Pass, last: Attempt, earlier: list[tuple[int, int]]) -> None:
        limit, period = passed.rate or (0, 0)
        near = [(at, cost) for at, cost in earlier if abs(at - last.began) < period]
        starts = sorted([*near, (last.began, passed.cost)])
        for begin in {at for at, _ in starts if at <= last.began}:
            weight = sum(cost for at, cost in starts if begin <= at < begin + period)
            if weight > limit:
                self.complaints.append(
                    f"{passed.gate} let {weight} start in {period} us when {last.job} began; {limit} may"
                )
                return

    def _judge_gaps(self, passed: Pass, last: Attempt, earlier: list[tuple[int, int, Attempt]]) -> None:
        limit, period, burst = passed.throttle or (1, 0, 1)
        step = (period + limit - 1) // limit if limit else FOREVER
        if burst > 1:
            kept = [(at, weight) for at, weight, other in earlier if other.is_kept(passed.gate)]
            self._judge_bucket(passed, last, kept, burst, step)
            return
        for at, cost, other in earlier:
            needed = step * (cost if at <= last.began else passed.cost)
            if abs(last.began - at) < (needed if other.is_paced(passed.gate) else min(needed, period)):
                self.complaints.append(
                    f"{passed.gate} let {last.job} start {abs(last.began - at)} us from another; {step} must be"
                )
                return

    def _judge_bucket(
        self, passed: Pass, last: Attempt, earlier: list[tuple[int, int]], burst: int, step: int
    ) -> None:
        full_at = 0
        for at, cost in sorted(earlier):
            if at <= last.began:
                full_at = max(full_at, at) + cost * step
        if last.began < full_at - (burst - min(passed.cost, burst)) * step:
            lacks = (full_at - last.began) / step
            self.complaints.append(
                f"{passed.gate} let {last.job} start when its bucket of {burst} lacked {lacks:.2f}"
            )
