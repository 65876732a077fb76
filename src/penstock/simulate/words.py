"""Figures and spans of time as people like to read them."""

from itertools import pairwise
from typing import Final

_UNITS: Final = (("d", 86_400_000_000), ("h", 3_600_000_000), ("min", 60_000_000), ("s", 1_000_000))
_PER: Final = (("s", 1), ("min", 60), ("h", 3_600), ("day", 86_400))
_MILLISECOND: Final = 1_000
_TEN: Final = 10
_HUNDRED: Final = 100


def span(microseconds: float | None) -> str:
    """Return a span of time in its two largest units."""
    if microseconds is None:
        return ""
    whole = round(microseconds)
    for (unit, size), smaller in pairwise(_UNITS):
        if whole >= size:
            rest = round(whole % size / smaller[1])
            count, rest = (whole // size + 1, 0) if rest * smaller[1] == size else (whole // size, rest)
            return f"{count} {unit} {rest} {smaller[0]}" if rest else f"{count} {unit}"
    if whole >= _UNITS[-1][1]:
        return f"{number(whole / _UNITS[-1][1])} s"
    return f"{number(whole / _MILLISECOND)} ms" if whole else "0"


def number(value: float) -> str:
    """Return a number with about three digits, and all of those before the point."""
    if value >= _HUNDRED or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= _TEN else f"{value:.2g}" if value < 1 else f"{value:.2f}"


def percent(part: float) -> str:
    return f"{part:.0%}" if not 0 < part < 0.005 else "<1%"  # noqa: PLR2004 - what would be shown as 0


def per_unit(per_second: float) -> str:
    """Return a throughput in the unit in which it is at least one, if there is any."""
    for unit, seconds in _PER:
        if per_second * seconds >= 1:
            return f"{number(per_second * seconds)} per {unit}"
    return f"{number(per_second * _PER[-1][1])} per {_PER[-1][0]}"
