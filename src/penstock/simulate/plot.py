"""Draw the lines over time, as an SVG picture: how many wait, and how many come and start."""

from collections.abc import Sequence
from typing import Final

from penstock.simulate.axes import Axis, bins, count_axis, time_axis
from penstock.simulate.curves import Curve, flow, waiting
from penstock.simulate.line import STEPS
from penstock.simulate.play import Played
from penstock.simulate.report import Report, verdict
from penstock.simulate.svg import line, text
from penstock.simulate.words import span

WIDTH, LEFT, RIGHT = 980, 70, 240
TOP, PANEL, BETWEEN, BOTTOM = 96, 220, 66, 60
PLOT: Final = WIDTH - LEFT - RIGHT
BINS: Final = 48
STYLE: Final = """
  text { font-family: system-ui, "Segoe UI", Helvetica, Arial, sans-serif; font-size: 12px; fill: #333 }
  .title { font-size: 17px; font-weight: 600; fill: #111 }
  .said { fill: #555 }
  .panel { font-size: 13px; font-weight: 600 }
  .grid { stroke: #e6e6e6 } .axis { stroke: #888 }
  .curve { fill: none; stroke-width: 1.8; stroke-linejoin: round }
"""


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
        text(LEFT, 32, played.plan.title or "What would happen", "title"),
        text(LEFT, 54, verdict(found), "said"),
        *_panel(TOP, "jobs waiting", waiting(played, until), times, until),
        *_panel(second, f"jobs per {per}", flow(played.everything, edges), times, until, edges),
        text(LEFT + PLOT / 2, height - 14, f"time since the beginning ({times.unit})", anchor="middle"),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _panel(
    top: int, title: str, curves: Sequence[Curve], times: Axis, until: int, edges: Sequence[float] = ()
) -> list[str]:
    counts = count_axis(max((max(curve.values, default=0) for curve in curves), default=0))
    bottom = top + PANEL
    parts = [text(LEFT, top - 10, title, "panel")]
    for place, label in counts.ticks:
        y = bottom - place / counts.most * PANEL
        parts += [line(LEFT, y, LEFT + PLOT, y, "grid"), text(LEFT - 8, y + 4, label, anchor="end")]
    for place, label in times.ticks:
        x = LEFT + place / until * PLOT
        parts += [line(x, bottom, x, bottom + 5, "axis"), text(x, bottom + 19, label, anchor="middle")]
    parts += [line(LEFT, bottom, LEFT + PLOT, bottom, "axis"), line(LEFT, top, LEFT, bottom, "axis")]
    places = edges or [until * step / STEPS for step in range(STEPS + 1)]
    # What is drawn last is on top: the first one, and lines above what is filled.
    below = sorted(curves, key=lambda curve: curve.filled)
    parts += [_curve(curve, places, until, bottom, counts.most) for curve in reversed(below)]
    parts += [_legend(curve, top + 8 + number * 20) for number, curve in enumerate(curves)]
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
    return mark + text(x + 30, y + 4, curve.name)
