"""Numbers over time become the paths of a drawing: where each stands, and which round numbers stand beside it.

A drawing is `WIDE` units wide, whatever its width on a screen; what is None is not drawn.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from penstock.clock import MILLISECOND, SECOND

WIDE: Final = 1_000
FINEST: Final = 168  # places beside each other that can be told apart
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR
_EXACT: Final = 100_000  # numbers from here on are written in short
_TENTHS: Final = (10, 12, 15, 20, 25, 30, 40, 50, 60, 80, 100)  # of round numbers
_LETTERS: Final = ("", "k", "M", "G", "T", "P", "E")
_TIMES: Final = (
    *(n * MILLISECOND for n in (1, 2, 5, 10, 20, 50, 100, 200, 500)),
    *(n * SECOND for n in (1, 2, 5, 10, 20, 30)),
    *(n * MINUTE for n in (1, 2, 5, 10, 20, 30)),
    *(n * HOUR for n in (1, 2, 4, 8, 12)),
)

Values = Sequence[float | None]


class Axis(NamedTuple):
    """A span of time that is cut into steps; the last one may be under way."""

    since: int
    until: int
    step: int

    def place(self, at: int) -> float:
        """Return where a moment stands."""
        span = max(self.until - self.since, 1)
        return WIDE * min(max((at - self.since) / span, 0.0), 1.0)

    def edges(self, number: int) -> tuple[float, float]:
        """Return where a step begins and ends."""
        begins = self.since + number * self.step
        return self.place(begins), self.place(begins + self.step)

    def middle(self, number: int) -> float:
        """Return where the middle of a step stands."""
        begins, ends = self.edges(number)
        return (begins + ends) / 2


def thinned(axis: Axis, values: Sequence[float]) -> tuple[Axis, list[float]]:
    """Return no more steps than can be told apart, each the mean of those that it is made of."""
    size = -(-len(values) // FINEST)
    if size <= 1:
        return axis, list(values)
    parts = [values[n : n + size] for n in range(0, len(values), size)]
    return axis._replace(step=axis.step * size), [sum(part) / len(part) for part in parts]


def marks(most: float, parts: int = 3, units: Sequence[int] = (1,)) -> list[int]:
    """Return round numbers from 0 on, of which the last one is no less than *most*, nor much more: so many *parts*.

    *units* are the distances that may lie between them, and the last of them times a round number.
    """
    far = units[-1] * 10 ** max(math.floor(math.log10(max(most / units[-1] / parts, 1))), 0)
    steps = [*units, *(far * tenths // 10 for tenths in _TENTHS if not far * tenths % 10)]
    enough = [(step * math.ceil(max(most / step, 1)), step) for step in steps if step * parts >= most]
    top, step = min(enough)
    return list(range(0, top + 1, step))


def time_marks(most: float, parts: int = 2) -> list[int]:
    """Return round spans of time from 0 on, of which the last one is no less than *most*."""
    return marks(most, parts, (*_TIMES, DAY))


def ticks(axis: Axis) -> list[int]:
    """Return the round moments that are written below a drawing."""
    span = axis.until - axis.since
    every = 10 * MINUTE if span <= 2 * HOUR else 4 * HOUR if span <= 2 * DAY else DAY
    return list(range(-(-axis.since // every) * every, axis.until + 1, every))


def brief(value: float) -> str:
    """Write a number so that it fits beside a drawing."""
    if value < _EXACT:
        return f"{value:,.0f}"
    letter = 0
    while value >= 1_000 and letter < len(_LETTERS) - 1:  # noqa: PLR2004 - a thousand of one is one of the next
        value, letter = value / 1_000, letter + 1
    return f"{value:.3g}{_LETTERS[letter]}"


class Scale(NamedTuple):
    """How high a number stands: *most* at the *top*, 0 at the *bottom*."""

    most: float
    top: float
    bottom: float

    def __call__(self, value: float) -> float:
        part = min(max(value / self.most, 0.0), 1.0) if self.most > 0 else 0.0
        return self.bottom - part * (self.bottom - self.top)


def line(axis: Axis, values: Values, scale: Scale) -> str:
    """Return a line through the middles of steps, which reaches to the edges of the first and the last."""
    return "".join(f"M{_joined(_points(axis, run, scale))}" for run in _runs(values))


def area(axis: Axis, values: Values, scale: Scale, under: Sequence[float] | None = None) -> str:
    """Return the area between *values* and those *under* them, or the bottom."""
    found = []
    for run in _runs(values):
        above = _points(axis, run, scale)
        below = _points(axis, [(n, under[n] if under is not None else 0.0) for n, _ in run], scale)
        found.append(f"M{_joined(above)}L{_joined(below[::-1])}Z")
    return "".join(found)


def bars(axis: Axis, values: Values, scale: Scale) -> str:
    """Return a bar for each step, with a gap between two."""
    found = []
    for number, value in enumerate(values):
        if not value:
            continue
        begins, ends = axis.edges(number)
        gap = min((ends - begins) * 0.1, 1.6)
        found.append(
            f"M{begins + gap:.1f} {scale.bottom:.1f}V{scale(value):.1f}H{ends - gap:.1f}V{scale.bottom:.1f}Z"
        )
    return "".join(found)


def steps(axis: Axis, values: Sequence[tuple[int, float | None]], scale: Scale) -> str:
    """Return a line that steps: each value holds from its moment on, None is no line."""
    found, drawn = list[str](), False
    ends = [*(at for at, _ in values[1:]), axis.until]
    for (at, value), end in zip(values, ends, strict=False):  # of no values there is no end either
        goes_on, drawn = drawn, value is not None and end > axis.since
        if value is not None and drawn:
            height = f"{scale(value):.1f}"
            found.append(f"V{height}" if goes_on else f"M{axis.place(at):.1f} {height}")
            found.append(f"H{axis.place(end):.1f}")
    return "".join(found)


def _runs(values: Values) -> Iterator[list[tuple[int, float]]]:
    """Return (number, value) of values that stand beside each other, without what is None."""
    run: list[tuple[int, float]] = []
    for number, value in enumerate(values):
        if value is not None:
            run.append((number, value))
        elif run:
            yield run
            run = []
    if run:
        yield run


def _points(axis: Axis, run: Sequence[tuple[int, float]], scale: Scale) -> list[tuple[float, float]]:
    first, last = run[0], run[-1]
    return [
        (axis.edges(first[0])[0], scale(first[1])),
        *((axis.middle(number), scale(value)) for number, value in run),
        (axis.edges(last[0])[1], scale(last[1])),
    ]


def _joined(points: Sequence[tuple[float, float]]) -> str:
    return "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
