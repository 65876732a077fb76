"""A chart of how many wait over time, a line for each side of a plan: SVG for a wide screen, and for a narrow one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from penstock.monitor import words
from penstock.simulate.axes import Axis, count_axis, time_axis
from penstock.simulate.side import Side

_NAMES: Final = "ab"
_RIGHT, _TOP, _BOTTOM = 14, 8, 22
_LETTER: Final = 6.5  # units of a digit
_BETWEEN: Final = 64  # units at least from one mark of time to the next


@dataclass(frozen=True, slots=True)
class Frame:
    """How large a chart is, and for which screens."""

    kind: str
    width: int
    height: int


_FRAMES: Final = (Frame("wide", 744, 220), Frame("narrow", 338, 180))


def waiting(sides: Sequence[Side]) -> Markup:
    """Draw how many wait over time, a line for each side."""
    return Markup("").join(_chart(sides, frame) for frame in _FRAMES)


def _chart(sides: Sequence[Side], frame: Frame) -> Markup:
    until = max(1, *(side.until for side in sides))
    counts = count_axis(max(side.most for side in sides))
    left = round(max(len(label) for _, label in counts.ticks) * _LETTER) + 10
    bottom, right = frame.height - _BOTTOM, frame.width - _RIGHT

    def x(at: float) -> float:
        return left + at / until * (right - left)

    def y(count: float) -> float:
        return bottom - count / counts.most * (bottom - _TOP)

    grid = [
        Markup(
            '<path class="hair" d="M{} {:.1f}H{}"/><text x="{}" y="{:.1f}" text-anchor="end">{}</text>'
        ).format(left, y(place), right, left - 8, y(place) + 4, label)
        for place, label in counts.ticks
    ]
    marks = _marks(time_axis(until), x, frame)
    base = Markup('<path class="base" d="M{} {}H{}"/>').format(left, bottom, right)
    lines = [_line(side, name, x, y) for name, side in zip(_NAMES, sides, strict=False)]
    drawn = Markup('<svg class="chart {}" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>')
    inside = Markup("").join([*grid, *marks, base, *lines])
    return drawn.format(frame.kind, frame.width, frame.height, _told(sides), inside)


def _marks(axis: Axis, x: Callable[[float], float], frame: Frame) -> list[Markup]:
    """Write the marks of time, as many as there is room for."""
    step = 1
    while len(axis.ticks) > 1 and (x(axis.ticks[1][0]) - x(0)) * step < _BETWEEN:
        step += 1
    unit = "d" if axis.unit == "days" else axis.unit
    text = Markup('<text x="{:.1f}" y="{}" text-anchor="{}">{}</text>')
    found = []
    for place, label in axis.ticks[::step]:
        anchor = "middle" if x(place) < frame.width - _BETWEEN / 2 else "end"
        found.append(text.format(x(place), frame.height - 6, anchor, f"{label} {unit}" if place else "0"))
    return found


def _line(side: Side, name: str, x: Callable[[float], float], y: Callable[[float], float]) -> Markup:
    """Draw a line that goes on at its value for the length of each step."""
    steps = len(side.line)
    path = [f"M{x(0):.1f} {y(side.line[0] if steps else 0):.1f}"]
    last = None
    for n, value in enumerate(side.line):
        if value != last:
            path.append(f"H{x(side.until * n / steps):.1f}V{y(value):.1f}")
            last = value
    path.append(f"H{x(side.until):.1f}")
    return Markup('<path class="side-{}" d="{}"/>').format(name, "".join(path))


def _told(sides: Sequence[Side]) -> str:
    parts = [
        f"{name}: at most {side.most:,} wait, {_ending(side)}"
        for name, side in zip(_NAMES.upper(), sides, strict=False)
    ]
    return f"jobs that wait over time; {'; '.join(parts)}"


def _ending(side: Side) -> str:
    if side.through is not None:
        return f"none after {words.span(side.through)}"
    return f"{side.waits.still:,} at the end" if side.waits.still else "none at the end"


FILTERS: Final[dict[str, Callable[..., object]]] = {"waiting_chart": waiting}
