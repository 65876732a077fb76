"""Draw the lines over time, as an SVG picture: how many wait, and how many come and start."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Final

from penstock.simulate.axes import Axis, bins, count_axis, time_axis
from penstock.simulate.play import Played
from penstock.simulate.report import Report, verdict
from penstock.simulate.watch import Group
from penstock.simulate.words import span

WIDTH, LEFT, RIGHT = 980, 70, 240
TOP, PANEL, BETWEEN, BOTTOM = 96, 220, 66, 60
PLOT: Final = WIDTH - LEFT - RIGHT
STEPS: Final = 360
BINS: Final = 48
LOOKED_AT: Final = 40  # keys, those that waited most
ALIKE: Final = 0.01  # of the highest line: closer than that, one hides the other
TOO_HIGH: Final = 3  # times as many come as start
CUT: Final = 1.25
LETTERS: Final = 27  # of a name in the legend
# Told apart by those who see few colours, too (after Okabe and Ito).
COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
ALL, GREY = "#222222", "#9a9a9a"
STYLE: Final = """
  text { font-family: system-ui, "Segoe UI", Helvetica, Arial, sans-serif; font-size: 12px; fill: #333 }
  .title { font-size: 17px; font-weight: 600; fill: #111 }
  .said { fill: #555 }
  .panel { font-size: 13px; font-weight: 600 }
  .grid { stroke: #e6e6e6 } .axis { stroke: #888 }
  .curve { fill: none; stroke-width: 1.8; stroke-linejoin: round }
"""


@dataclass(frozen=True, slots=True)
class Curve:
    """One line of the picture: a value for each step of time."""

    name: str
    colour: str
    values: Sequence[float]
    filled: bool = False
    dashed: bool = False


def draw(played: Played, found: Report) -> str:
    """Return the picture of a play."""
    until = max(played.until, 1)
    height = TOP + 2 * PANEL + BETWEEN + BOTTOM
    second = TOP + PANEL + BETWEEN
    times = time_axis(until)
    edges = bins(until, BINS)
    per = span(edges[1] - edges[0])
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">',
        f"<style>{STYLE}</style>",
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        _text(LEFT, 32, played.plan.title or "What would happen", "title"),
        _text(LEFT, 54, verdict(found), "said"),
        *_panel(TOP, "jobs waiting", _waiting(played, until), times, until),
        *_panel(second, f"jobs per {per}", _flow(played.everything, edges), times, until, edges),
        _text(LEFT + PLOT / 2, height - 14, f"time since the beginning ({times.unit})", anchor="middle"),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _waiting(played: Played, until: int) -> list[Curve]:
    """Return how many wait: all, and at each of the keys with the most."""
    all_jobs = _depth(played.everything, until)
    least = ALIKE * max(all_jobs)
    groups = sorted((gate.group for gate in played.gates), key=_waited) or played.kinds
    found = [(_depth(group, until), group.name) for group in groups[:LOOKED_AT]]
    found = sorted(
        (pair for pair in found if max(pair[0]) > least), key=lambda pair: (-max(pair[0]), pair[1])
    )
    apart: list[tuple[list[float], list[str]]] = [(all_jobs, [])]
    for depth, name in found:
        alike = next((names for other, names in apart if _hides(depth, other, least)), None)
        if alike is None:
            apart.append((depth, [name]))
        else:
            alike.append(name)
    curves = [Curve("all jobs", ALL, all_jobs)]
    if same := apart[0][1]:
        curves.append(Curve(_together(same, "the same"), ALL, ()))
    shown = zip(apart[1:], COLOURS, strict=False)
    curves += [Curve(_together(names), colour, depth) for (depth, names), colour in shown]
    left = len(groups) - len(same) - sum(len(names) for _, names in apart[1 : len(COLOURS) + 1])
    return [*curves, Curve(f"{left:,} more, shorter", "none", ())] if left else curves


def _waited(group: Group) -> tuple[int, int, str]:
    return -group.waiting, -sum(group.waits), group.name


def _hides(one: Sequence[float], other: Sequence[float], least: float) -> bool:
    """Tell whether one line would hide the other."""
    return max(abs(first - second) for first, second in zip(one, other, strict=True)) <= least


def _together(names: Sequence[str], more: str = "") -> str:
    """Return a name for lines that look the same, short enough for the legend."""
    others = [f"{len(names) - 1} alike"] if len(names) > 1 else []
    said = ", ".join(filter(None, [more, *others]))
    said = f" ({said})" if said else ""
    room = LETTERS - len(said)
    name = names[0] if len(names[0]) <= room else f"{names[0][: room - 1]}…"
    return name + said


def _depth(group: Group, until: int) -> list[float]:
    """Return the most that waited at once within each step of time."""
    changes = sorted(
        [(at, 0, 1) for at in group.arrivals] + [(at, 1, -1) for at in (*group.starts, *group.drops)]
    )
    most, index, waiting = [], 0, 0
    for step in range(STEPS):
        end = until * (step + 1) / STEPS
        highest = waiting
        while index < len(changes) and (changes[index][0] < end or step == STEPS - 1):
            moment = changes[index][0]
            # What happens in one moment takes no time: only what is left after it is seen.
            while index < len(changes) and changes[index][0] == moment:
                waiting += changes[index][2]
                index += 1
            highest = max(highest, waiting)
        most.append(float(highest))
    return most


def _flow(group: Group, edges: Sequence[int]) -> list[Curve]:
    """Return how many came and how many started between each two of *edges*."""
    started, arrived = _binned(group.starts, edges), _binned(group.arrivals, edges)
    most = max(started, default=0)
    high = max(arrived, default=0)
    name = "arrived"
    if high > TOO_HIGH * most:
        # A burst would press everything else flat.
        name = f"arrived (up to {high:,.0f})"
        arrived = [min(value, max(most, 1) * CUT) for value in arrived]
    curves = [
        Curve("started", COLOURS[0], started, filled=True),
        Curve(name, COLOURS[1], arrived, dashed=True),
    ]
    if group.drops:
        curves.append(Curve("dropped", COLOURS[3], _binned(group.drops, edges)))
    return curves


def _binned(times: Sequence[int], edges: Sequence[int]) -> list[float]:
    places = [0, *(bisect_right(times, edge - 1) for edge in edges[1:])]
    return [float(later - earlier) for earlier, later in pairwise(places)]


def _panel(
    top: int,
    title: str,
    curves: Iterable[Curve],
    times: Axis,
    until: int,
    edges: Sequence[float] = (),
) -> list[str]:
    curves = list(curves)
    counts = count_axis(max((max(curve.values, default=0) for curve in curves), default=0))
    bottom = top + PANEL
    parts = [_text(LEFT, top - 10, title, "panel")]
    for place, label in counts.ticks:
        y = bottom - place / counts.most * PANEL
        parts += [_line(LEFT, y, LEFT + PLOT, y, "grid"), _text(LEFT - 8, y + 4, label, anchor="end")]
    for place, label in times.ticks:
        x = LEFT + place / until * PLOT
        parts += [_line(x, bottom, x, bottom + 5, "axis"), _text(x, bottom + 19, label, anchor="middle")]
    parts += [_line(LEFT, bottom, LEFT + PLOT, bottom, "axis"), _line(LEFT, top, LEFT, bottom, "axis")]
    for number, curve in enumerate(curves):
        places = edges or [until * step / STEPS for step in range(STEPS + 1)]
        # Drawn from the last to the first, so that the first one is on top.
        parts.insert(len(parts) - number * 2, _curve(curve, places, until, bottom, counts.most))
        parts.append(_legend(curve, top + 8 + number * 20))
    return parts


def _curve(curve: Curve, places: Sequence[float], until: int, bottom: int, most: float) -> str:
    """Return a curve that stays at its value for the length of each step."""
    path: list[str] = []
    for begin, end, value in zip(places, places[1:], curve.values, strict=False):
        y = bottom - value / most * PANEL
        left, right = (LEFT + min(place, until) / until * PLOT for place in (begin, end))
        path.append(f"{left:.1f},{y:.1f} {right:.1f},{y:.1f}")
    if not path:
        return ""
    points = " L".join(path)
    if curve.filled:
        closed = f"M{LEFT},{bottom} L{points} L{LEFT + PLOT},{bottom} Z"
        return f'<path d="{closed}" fill="{curve.colour}" fill-opacity="0.35" stroke="{curve.colour}"/>'
    dash = ' stroke-dasharray="5 3"' if curve.dashed else ""
    return f'<path class="curve" d="M{points}" stroke="{curve.colour}"{dash}/>'


def _legend(curve: Curve, y: int) -> str:
    x = LEFT + PLOT + 18
    if curve.filled:
        mark = f'<rect x="{x}" y="{y - 6}" width="22" height="10" fill="{curve.colour}" fill-opacity="0.35"/>'
    else:
        dash = ' stroke-dasharray="5 3"' if curve.dashed else ""
        mark = f'<line x1="{x}" y1="{y}" x2="{x + 22}" y2="{y}" stroke="{curve.colour}" stroke-width="2.5"{dash}/>'
    return mark + _text(x + 30, y + 4, curve.name)


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text{named} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
