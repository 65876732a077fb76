"""What a workload reports: figures, each with its target beside it."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median, quantiles


@dataclass(frozen=True, slots=True)
class Target:
    """What a figure should reach.  Breaking a *promise* is an error; missing a speed is only told."""

    text: str
    met: bool
    promise: bool = False


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number of one workload."""

    workload: str
    name: str
    value: float
    unit: str
    target: Target | None = None
    note: str = ""


def at_least(value: float, bound: float, text: str = "") -> Target:
    """Ask for no less than *bound*."""
    return Target(text or f">= {bound:g}", value >= bound)


def at_most(value: float, bound: float, text: str = "") -> Target:
    """Ask for no more than *bound*."""
    return Target(text or f"<= {bound:g}", value <= bound)


def promised(value: float, bound: float) -> Target:
    """Insist on no more than *bound*: more means a limit was broken."""
    return Target(f"<= {bound:g}", value <= bound, promise=True)


def broken(figures: Sequence[Figure]) -> bool:
    """Tell whether any promise was broken."""
    return any(figure.target and figure.target.promise and not figure.target.met for figure in figures)


def percentile(values: Sequence[float], percent: int) -> float:
    """Return the value below which *percent* of *values* lie."""
    return quantiles(values, n=100, method="inclusive")[percent - 1]


def spread(values: Sequence[float]) -> str:
    """Show the median's company: how many runs, and how far they lie apart."""
    if len(values) == 1:
        return "one run"
    return f"median of {len(values)}, {min(values):,.0f} to {max(values):,.0f}"


def middle(values: Sequence[float]) -> float:
    """Return the median as a float."""
    return float(median(values))
