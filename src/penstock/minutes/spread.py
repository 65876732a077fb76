"""How long many things took, as logarithmic counts: four steps for each doubling, from a millisecond on.

A count is kept as `step: how many`.  A quantile read from it is wrong by a tenth at most, but for spans below a
millisecond, which are all alike.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import log2
from typing import Final

MILLISECOND: Final = 1_000  # microseconds
STEPS: Final = 4  # for each doubling

Spread = dict[int, int]


def step_of(span: int) -> int:
    """Return the step in which a span of microseconds is counted."""
    return 0 if span < MILLISECOND else 1 + int(STEPS * log2(span / MILLISECOND))


def span_of(step: int) -> int:
    """Return the span that stands for a step: the middle of it, as logarithms go."""
    return 0 if step <= 0 else round(MILLISECOND * 2 ** ((step - 0.5) / STEPS))


def add(spread: Spread, other: Mapping[int, int]) -> None:
    """Add counts to others."""
    for step, number in other.items():
        spread[step] = spread.get(step, 0) + number


def from_flat(flat: Sequence[int]) -> Spread:
    """Read counts from `[step, how many, ...]`."""
    return dict(zip(flat[::2], flat[1::2], strict=True))


def to_flat(spread: Mapping[int, int]) -> list[int]:
    """Write counts as `[step, how many, ...]`."""
    return [number for each in sorted(spread.items()) for number in each]


def quantile(spread: Mapping[int, int], share: float) -> int | None:
    """Return the span that this *share* of what was counted does not exceed; None if nothing was."""
    total = sum(spread.values())
    if not total:
        return None
    left = share * total
    for step, number in sorted(spread.items()):
        left -= number
        if left <= 0:
            return span_of(step)
    return span_of(max(spread))


def total(spreads: Iterable[Mapping[int, int]]) -> Spread:
    """Return the sum of counts."""
    found: Spread = {}
    for spread in spreads:
        add(found, spread)
    return found
