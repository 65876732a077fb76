"""Which share of a claim each of its queues gets, where the claim asks for another order than priority."""

import random
from collections.abc import Sequence
from math import ceil

from penstock.job import ClaimFor, Order
from penstock.store import queues as queue_rows
from penstock.store.session import Session


def shares_of(db: Session, asked: ClaimFor, names: Sequence[str], count: int) -> list[int]:
    """Return how many of *count* jobs each of these queues gives."""
    chance = random.random()  # noqa: S311 - turns are drawn by lot, not kept secret
    match asked.order:
        case Order.ROUND_ROBIN:
            return _by_weight([1] * len(names), count, chance)
        case Order.WEIGHTED:
            weights = dict(zip(asked.queues, asked.weights, strict=True))
            return _by_weight([weights[name] for name in names], count, chance)
        case Order.LEAST_LOADED:
            running = queue_rows.running(db, names, asked.tenant)
            return _by_load([running.get(name, 0) for name in names], count)
        case _:
            return [count, *[0] * (len(names) - 1)]


def _by_weight(weights: Sequence[int], count: int, chance: float) -> list[int]:
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


def _by_load(loads: Sequence[int], count: int) -> list[int]:
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
