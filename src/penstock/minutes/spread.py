"""How long many things took, as logarithmic counts: four steps for each doubling, from a millisecond on.

A count is kept as `step: how many`.  A quantile read from it is wrong by an eighth at most, but for spans below a
millisecond, which are all alike.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

_QUARTER: Final = 250  # microseconds, of a millisecond

Spread = dict[int, int]


def step_of(span: int) -> int:
    """Return the step in which a span of microseconds is counted."""
    quarters = span // _QUARTER
    if quarters < 4:  # noqa: PLR2004 - a millisecond
        return 0
    doubled = quarters.bit_length() - 3
    return 1 + 4 * doubled + ((quarters >> doubled) & 3)


def span_of(step: int) -> int:
    """Return the span that stands for a step: the middle of it."""
    if step <= 0:
        return 0
    doubled, part = divmod(step - 1, 4)
    return (_QUARTER << doubled) * (2 * part + 9) // 2


def counted(spans: Iterable[int]) -> Spread:
    """Count spans; those below zero are left out."""
    found: Spread = {}
    for span in spans:
        if span >= 0:
            step = step_of(span)
            found[step] = found.get(step, 0) + 1
    return found


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
