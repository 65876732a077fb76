"""Draw what a run found, from its JSON, as SVG: jobs per second by the number of worker processes."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from peers.results import OURS
from penstock.bench.cluster import AT_ONCE, KEYS, SHORT
from penstock.simulate.axes import Axis, count_axis
from penstock.simulate.curves import COLOURS
from penstock.simulate.svg import line, text

WIDTH, HEIGHT = 860, 460
LEFT, RIGHT, TOP, BOTTOM = 76, 250, 84, 62
PLOT, PANEL = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
APART: Final = 19.0  # between two names at the ends of lines
TITLE: Final = "One at a time for each key: jobs per second by worker processes"
# The same colours, light enough for a dark page.
LIGHT_COLOURS: Final = ("#5ab4f0", "#ff8f4d", "#2fc99a", "#e8a3cc", "#f5c04a", "#a9dcff")
# A page may be dark whatever it does to pictures, so the picture brings its own ground.
STYLE: Final = """
  text { font-family: system-ui, "Segoe UI", Helvetica, Arial, sans-serif; font-size: 13px; fill: #333 }
  .ground { fill: #fff } .title { font-size: 17px; font-weight: 600; fill: #111 } .said { fill: #555 }
  .ours { font-weight: 600 } .grid { stroke: #e6e6e6 } .axis { stroke: #888 }
  .curve { fill: none; stroke-width: 2 } .curve.ours { stroke-width: 3.5 }
"""
DARK: Final = """
  text { fill: #d6d9de } .ground { fill: #15181d } .title { fill: #fff } .said { fill: #aab0b9 }
  .grid { stroke: #2b3038 } .axis { stroke: #7b828c }
"""


class Curve(NamedTuple):
    """Jobs per second of one queue, for each number of processes that it was measured with."""

    who: str
    rates: Mapping[int, float]
    broken: int

    @property
    def last(self) -> float:
        return self.rates[max(self.rates)]

    @property
    def label(self) -> str:
        broken = f", {self.broken:,} overlaps" if self.broken else ""
        return f"{self.who} ({self.last:,.0f}/s{broken})"


def by_processes(results: Sequence[Mapping[str, Any]]) -> str:
    """Draw W16 of a run's *results*; return nothing if it was not run."""
    curves = _curves(results)
    if not curves:
        return ""
    rates = count_axis(max(max(curve.rates.values()) for curve in curves))
    said = f"1 ms handlers, {KEYS:,} keys of one slot, each process {AT_ONCE} at once, one PostgreSQL server"
    told = "; ".join(f"{curve.who}: {_told(curve)}" for curve in curves)
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    dark = f"@media (prefers-color-scheme: dark) {{{DARK}{_colours(LIGHT_COLOURS)}}}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-labelledby="title desc">',
        f'<title id="title">{TITLE}</title>',
        f'<desc id="desc">{said}. Jobs per second with {_told_processes()} processes. {told}.</desc>',
        f"<style>{STYLE}{_colours(COLOURS)}{dark}</style>",
        f'<rect class="ground" width="{WIDTH}" height="{HEIGHT}"/>',
        text(LEFT, 32, TITLE, "title"),
        text(LEFT, 54, said, "said"),
        *_frame(rates),
        *(_drawn(curve, number, rates) for number, curve in reversed(list(enumerate(curves)))),
        *_names(curves, rates),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _curves(results: Sequence[Mapping[str, Any]]) -> list[Curve]:
    processes = {case.name: case.processes for case in SHORT}
    found: dict[str, dict[int, float]] = {}
    broken: dict[str, int] = {}
    for each in results:
        if each["workload"] == "W16" and each["measure"] in processes and each["value"] is not None:
            found.setdefault(each["peer"], {})[processes[each["measure"]]] = each["value"]
            broken[each["peer"]] = broken.get(each["peer"], 0) + (each["violations"] or 0)
    curves = [Curve(who, rates, broken[who]) for who, rates in found.items()]
    return sorted(curves, key=lambda curve: curve.who != OURS)


def _frame(rates: Axis) -> list[str]:
    bottom = TOP + PANEL
    parts = []
    for place, label in rates.ticks:
        y = _y(place, rates)
        parts += [line(LEFT, y, LEFT + PLOT, y, "grid"), text(LEFT - 8, y + 4, label, anchor="end")]
    for case in SHORT:
        x = _x(case.processes)
        parts += [
            line(x, bottom, x, bottom + 5, "axis"),
            text(x, bottom + 20, str(case.processes), anchor="middle"),
        ]
    return [
        *parts,
        line(LEFT, bottom, LEFT + PLOT, bottom, "axis"),
        text(LEFT - 8, TOP - 12, "jobs/s", "said", anchor="end"),
        text(LEFT + PLOT / 2, HEIGHT - 14, "worker processes", "said", anchor="middle"),
    ]


def _drawn(curve: Curve, number: int, rates: Axis) -> str:
    places = [(_x(processes), _y(rate, rates)) for processes, rate in sorted(curve.rates.items())]
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    ours = " ours" if curve.who == OURS else ""
    marks = "".join(f'<circle class="dot{number}" cx="{x:.1f}" cy="{y:.1f}" r="4"/>' for x, y in places)
    return f'<polyline class="curve{ours} line{number}" points="{points}"/>{marks}'


def _names(curves: Sequence[Curve], rates: Axis) -> list[str]:
    """Write each name at the end of its line, as near as the others allow, and never below the ground line."""
    ranked = sorted(enumerate(curves), key=lambda pair: pair[1].last)
    places: list[float] = []
    for _, curve in ranked:
        places.append(min(_y(curve.last, rates), places[-1] - APART if places else TOP + PANEL))
    x = LEFT + PLOT + 14
    parts = []
    for (number, curve), y in zip(ranked, places, strict=True):
        parts.append(f'<circle class="dot{number}" cx="{x}" cy="{y:.1f}" r="5"/>')
        parts.append(text(x + 12, y + 4.5, curve.label, "ours" if curve.who == OURS else ""))
    return parts


def _x(processes: int) -> float:
    """Return where so many processes are: each twice as many are as far from one another."""
    steps = [case.processes for case in SHORT]
    return LEFT + (steps.index(processes) + 0.25) / (len(steps) - 0.5) * PLOT


def _y(rate: float, rates: Axis) -> float:
    return TOP + PANEL - rate / rates.most * PANEL


def _colours(colours: Sequence[str]) -> str:
    return "".join(
        f".line{number} {{ stroke: {colour} }} .dot{number} {{ fill: {colour} }}\n"
        for number, colour in enumerate(colours)
    )


def _told(curve: Curve) -> str:
    return ", ".join(f"{rate:,.0f}" for _, rate in sorted(curve.rates.items()))


def _told_processes() -> str:
    return ", ".join(str(case.processes) for case in SHORT)
