"""Was the limit kept?  Each check looks at what was seen of one scenario.  Pure."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from penstock.clock import MILLISECOND, SECOND
from penstock.demo.measure import Call, by_account, collisions, most_in_flight, smallest_gap, worst_window

DOOR: Final = "at the door"


@dataclass(frozen=True, slots=True)
class Request:
    """One call that the scenario asked for."""

    account: str
    op: str


@dataclass(frozen=True, slots=True)
class Seen:
    """What became of the requests of one scenario: as the provider saw it, and as the caller was told."""

    requests: Sequence[Request]
    calls: Sequence[Call]
    dropped: Counter[str]
    reused: Counter[str]
    errors: Sequence[str]
    elapsed: int
    may_overlap: bool = False

    @property
    def accounts(self) -> tuple[str, ...]:
        """The accounts asked for, in that order."""
        return tuple(dict.fromkeys(request.account for request in self.requests))

    def number(self, call: Call) -> int:
        """Return which of its account's requests *call* answers, counted from one."""
        asked = [request.op for request in self.requests if request.account == call.account]
        return asked.index(call.op) + 1


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a promise was kept: *figure* is what was measured, *remark* is told beside it and not judged.

    Only the figures of limits have a *severity*; of several rounds the most severe is shown.
    """

    kept: bool
    promise: str
    figure: str
    remark: str = ""
    severity: int | None = None


Check = Callable[[Seen], Verdict]


def counts(*, calls: int, dropped: int = 0, reused: int = 0) -> Check:
    """Expect exactly so many calls, drops and re-used jobs, and no error."""

    def check(seen: Seen) -> Verdict:
        wanted = (calls, dropped, reused, 0)
        found = (len(seen.calls), seen.dropped.total(), seen.reused.total(), len(seen.errors))
        promise = f"exactly {_counted(*wanted)}"
        return Verdict(found == wanted, promise, _counted(*found), "; ".join(seen.errors[:1]))

    return check


def clashes(seen: Seen) -> Verdict:
    """Expect collisions: without a limit there must be some, or the provider is blind."""
    found = collisions(seen.calls)
    return Verdict(
        found > 0, "without a limit, calls of an account collide", _collisions(found), severity=-found
    )


def alone(seen: Seen) -> Verdict:
    """Expect that no two calls of an account were in flight at once."""
    found = collisions(seen.calls)
    return Verdict(found == 0, "never two calls of an account in flight", _collisions(found), severity=found)


def at_once(slots: int) -> Check:
    """Expect *slots* calls of an account in flight at the busiest moment: no more, and no fewer."""

    def check(seen: Seen) -> Verdict:
        peaks = [most_in_flight(lane) for lane in by_account(seen.calls).values()]
        promise = f"up to {slots} calls of an account in flight, never more"
        peak = max(peaks, default=0)
        return Verdict(set(peaks) == {slots}, promise, f"{peak} in flight", severity=peak)

    return check


def in_parallel(accounts: int) -> Check:
    """Expect all *accounts* to have been served side by side."""

    def check(seen: Seen) -> Verdict:
        peak = most_in_flight(seen.calls)
        return Verdict(peak == accounts, f"{accounts} accounts served side by side", f"{peak} side by side")

    return check


def ordered(seen: Seen) -> Verdict:
    """Expect the calls of each account in the order in which they were enqueued."""
    lanes = by_account(seen.calls).values()
    late = sum(
        seen.number(earlier) > seen.number(later) for lane in lanes for earlier, later in pairwise(lane)
    )
    figure = "in order" if late == 0 else f"{late} out of order"
    return Verdict(late == 0, "each account's calls in the order they were enqueued", figure)


def first_only(seen: Seen) -> Verdict:
    """Expect that only the first request of each account was answered."""
    kept = all(seen.number(call) == 1 for call in seen.calls)
    return Verdict(
        kept, "the first request of each account is the one that runs", "the first" if kept else "another"
    )


def per_second(limit: int) -> Check:
    """Expect at most *limit* starts in any second, wherever it begins."""

    def check(seen: Seen) -> Verdict:
        worst = worst_window((call.began for call in seen.calls), SECOND)
        door = worst_window((call.arrived for call in seen.calls), SECOND)
        promise = f"at most {limit} starts in any second"
        return Verdict(worst <= limit, promise, f"{worst} in 1 s", f"{DOOR}: {door}", worst)

    return check


def apart(gap: int) -> Check:
    """Expect starts at least *gap* microseconds apart."""

    def check(seen: Seen) -> Verdict:
        least = smallest_gap(call.began for call in seen.calls) or 0
        door = smallest_gap(call.arrived for call in seen.calls) or 0
        promise = f"starts at least {gap // MILLISECOND} ms apart"
        return Verdict(
            least >= gap, promise, f"{_milliseconds(least)} apart", f"{DOOR}: {_milliseconds(door)}", -least
        )

    return check


def _counted(calls: int, dropped: int, reused: int, errors: int) -> str:
    words = {"calls": calls, "dropped": dropped, "re-used": reused, "errors": errors}
    return ", ".join(f"{count} {word}" for word, count in words.items() if count or word == "calls")


def _collisions(count: int) -> str:
    return f"{count} collision{'' if count == 1 else 's'}"


def _milliseconds(span: int) -> str:
    # Rounded down: 199.96 must not be shown as 200.
    return f"{span // 100 / 10:.1f} ms"
