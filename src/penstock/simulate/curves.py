"""Which lines a picture shows: how many wait over time, and how many come and start."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from penstock.simulate.line import depth
from penstock.simulate.play import Played
from penstock.simulate.watch import Group

LOOKED_AT: Final = 40  # keys, those that waited most
ALIKE: Final = 0.01  # of the highest line: closer than that, one hides the other
TOO_HIGH: Final = 3  # times as many come as start
CUT: Final = 1.25
LETTERS: Final = 27  # of a name in the legend
# Colour-blind readers can tell them apart too (after Okabe and Ito).
COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
ALL: Final = "#222222"


@dataclass(frozen=True, slots=True)
class Curve:
    """One line of the picture: a value for each step of time."""

    name: str
    colour: str
    values: Sequence[float]
    filled: bool = False
    dashed: bool = False


def waiting(played: Played, until: int) -> list[Curve]:
    """Return how many wait: all, and at each of the keys with the most."""
    all_jobs = depth(played.everything, until)
    least = ALIKE * max(all_jobs)
    groups = sorted((gate.group for gate in played.gates), key=_waited) or played.kinds
    found = [(depth(group, until), group.name) for group in groups[:LOOKED_AT]]
    found = sorted(
        (pair for pair in found if max(pair[0]) > least), key=lambda pair: (-max(pair[0]), pair[1])
    )
    apart: list[tuple[list[float], list[str]]] = [(all_jobs, [])]
    for values, name in found:
        alike = next((names for other, names in apart if _hides(values, other, least)), None)
        if alike is None:
            apart.append((values, [name]))
        else:
            alike.append(name)
    curves = [Curve("all jobs", ALL, all_jobs)]
    if same := apart[0][1]:
        curves.append(Curve(_together(same, "the same"), ALL, ()))
    shown = zip(apart[1:], COLOURS, strict=False)
    curves += [Curve(_together(names), colour, values) for (values, names), colour in shown]
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


def flow(group: Group, edges: Sequence[int]) -> list[Curve]:
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
