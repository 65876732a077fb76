"""Where to put the marks of an axis, and what to write at them."""

import math
from dataclasses import dataclass
from typing import Final

MARKS: Final = 8
_UNITS: Final = (
    # name, microseconds, steps that people count in
    ("ms", 1_000, (1, 2, 5, 10, 20, 50, 100, 200)),
    ("s", 1_000_000, (1, 2, 5, 10, 20)),
    ("min", 60_000_000, (1, 2, 5, 10, 20)),
    ("h", 3_600_000_000, (1, 2, 3, 6, 12)),
    ("days", 86_400_000_000, (1, 2, 5, 7, 14, 28, 50, 100, 200, 500, 1_000, 5_000, 20_000)),
)


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis from 0 to *most* in some *unit*, and its marks."""

    most: float
    unit: str
    ticks: tuple[tuple[float, str], ...]


def time_axis(until: int) -> Axis:
    """Return an axis of time for 0 to *until* microseconds."""
    unit, size, step = _step(until, MARKS)
    ticks = tuple((float(at), f"{at // size}") for at in range(0, until + 1, step))
    return Axis(until, unit, ticks)


def bins(until: int, most: int) -> list[int]:
    """Return the edges of at most so many equal spans from 0 to *until*, each as people count."""
    _, _, step = _step(until, most)
    return [step * number for number in range(-(-until // step) + 1)]


def count_axis(most: float) -> Axis:
    """Return an axis for a number of jobs."""
    step = _round_step(max(most, 1) / 5)
    top = math.ceil(max(most, 1) / step) * step
    return Axis(top, "jobs", tuple((float(at), f"{at:,}") for at in range(0, top + 1, step)))


def _step(until: int, most: int) -> tuple[str, int, int]:
    """Return the shortest span that people count in, of which at most so many fit before *until*, and its unit."""
    choices = [(unit, size, size * step) for unit, size, steps in _UNITS for step in steps]
    return next((each for each in choices if until <= each[2] * most), choices[-1])


def _round_step(least: float) -> int:
    power = int(10 ** max(math.floor(math.log10(least)), 0))
    return next(power * step for step in (1, 2, 5, 10) if power * step >= least)
