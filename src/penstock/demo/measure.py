"""What did the provider see?  Pure: calls in, figures out.

Overlaps are judged by what happened at the provider's door: a call is in flight from its arrival
until the provider lets go of it, which lies inside the time its handler ran.
Rates are judged by when the handlers began, which each call carries with it: that is what a limit
promises.  The way from a handler to the door takes a varying millisecond or two, so the same
figure at the door is told beside it and not judged.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class Call:
    """One call as the provider recorded it.  Times are microseconds of the machine's monotonic clock."""

    account: str
    op: str
    began: int
    arrived: int
    ended: int
    collided: bool


def by_account(calls: Iterable[Call]) -> dict[str, list[Call]]:
    """Sort *calls* into one list for each account, by arrival."""
    lanes: dict[str, list[Call]] = defaultdict(list)
    for call in sorted(calls, key=lambda each: each.arrived):
        lanes[call.account].append(call)
    return dict(lanes)


def collisions(calls: Iterable[Call]) -> int:
    """Count the calls that found their account busy."""
    return sum(call.collided for call in calls)


def most_in_flight(calls: Iterable[Call]) -> int:
    """Return how many calls were in flight at the busiest moment."""
    # At equal times an end comes before an arrival: such calls touch, they do not overlap.
    moments = sorted(moment for call in calls for moment in ((call.arrived, 1), (call.ended, -1)))
    busy = most = 0
    for _, change in moments:
        busy += change
        most = max(most, busy)
    return most


def worst_window(moments: Iterable[int], period: int) -> int:
    """Return the most *moments* that any window of *period*, wherever it begins, holds."""
    ordered = sorted(moments)
    worst = first = 0
    for last, moment in enumerate(ordered):
        while moment - ordered[first] >= period:
            first += 1
        worst = max(worst, last - first + 1)
    return worst


def smallest_gap(moments: Iterable[int]) -> int | None:
    """Return the shortest time between neighbours; None when there are fewer than two."""
    return min((later - earlier for earlier, later in pairwise(sorted(moments))), default=None)


def handovers(calls: Iterable[Call]) -> list[int]:
    """Return how long an account stood idle between each of its calls and the next."""
    return [
        later.arrived - earlier.ended
        for lane in by_account(calls).values()
        for earlier, later in pairwise(lane)
    ]
