"""How many jobs a claim takes from each of several queues.  Pure: chance is an argument."""

from collections.abc import Sequence
from math import ceil


def by_weight(weights: Sequence[int], count: int, chance: float) -> list[int]:
    """Share *count* in proportion to *weights*, each share rounded down or up.

    *chance*, from 0 up to but not including 1, decides which queue gets what is left over: each as often as its
    weight says, also when there is only one to give at a time.
    """
    whole = sum(weights)
    given = reached = 0
    shares = []
    for weight in weights:
        reached += weight
        upto = min(count, max(0, ceil(reached * count / whole - chance)))
        shares.append(upto - given)
        given = upto
    return shares


def by_load(loads: Sequence[int], count: int) -> list[int]:
    """Share *count* so that the loads get as equal as they can; of equal ones the first gets more."""
    ranked = sorted(range(len(loads)), key=lambda n: loads[n])
    filled, level, left = 1, loads[ranked[0]], count
    while filled < len(ranked) and (loads[ranked[filled]] - level) * filled <= left:
        left -= (loads[ranked[filled]] - level) * filled
        level = loads[ranked[filled]]
        filled += 1
    level, over = level + left // filled, left % filled
    shares = [0] * len(loads)
    for place, n in enumerate(sorted(ranked[:filled])):
        shares[n] = level - loads[n] + (place < over)
    return shares


def left_to_right(queues: int, count: int) -> list[int]:
    """Give all of *count* to the first."""
    return [count, *[0] * (queues - 1)]
