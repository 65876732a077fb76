"""The line over time: how many wait, when they are most, and when all of them are through."""

from collections.abc import Iterator
from heapq import merge
from typing import Final

from penstock.simulate.watch import Group

STEPS: Final = 360


def depth(group: Group, until: int) -> list[float]:
    """Return the most that waited at once within each step of time."""
    most: list[float] = []
    highest = waiting = 0
    for moment, left in _changes(group):
        step = min(moment * STEPS // until, STEPS - 1)
        while len(most) < step:
            most.append(float(highest))
            highest = waiting
        waiting = left
        highest = max(highest, waiting)
    while len(most) < STEPS:
        most.append(float(highest))
        highest = waiting
    return most


def longest(group: Group) -> tuple[int, int | None]:
    """Return how many waited when they were most, and the first moment after that when none did."""
    most, through = 0, None
    for moment, waiting in _changes(group):
        if waiting > most:
            most, through = waiting, None
        elif not waiting and most and through is None:
            through = moment
    return most, through


def _changes(group: Group) -> Iterator[tuple[int, int]]:
    """Return how many wait after each moment at which something happens.

    What happens in one moment takes no time: only what is left after it is seen.
    """
    waiting, last = 0, None
    comes = ((at, 1) for at in group.arrivals)
    goes = ((at, -1) for at in merge(group.starts, group.drops))
    for moment, change in merge(comes, goes):
        if last is not None and moment > last:
            yield last, waiting
        waiting += change
        last = moment
    if last is not None:
        yield last, waiting
