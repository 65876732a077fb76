"""What was found: one number of one peer at one workload, or the reason why there is none."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Final

OURS: Final = "penstock"


@dataclass(slots=True)
class Result:
    """One measure of one workload; *broken* counts how often a limit was seen broken.

    What was *wanted* of penstock itself was met, or not, in each run; a *promise* has to be met in all.
    Penstock's *own_name* for the measure says more than the short one that peers share.
    """

    who: str
    workload: str
    measure: str
    unit: str
    runs: list[float] = field(default_factory=list)
    broken: int | None = None
    note: str = ""
    own_name: str = ""
    wanted: str = ""
    met: list[bool] = field(default_factory=list)
    promise: bool = False

    @property
    def value(self) -> float | None:
        return median(self.runs) if self.runs else None

    @property
    def plain(self) -> dict[str, Any]:
        return {
            "peer": self.who,
            "workload": self.workload,
            "measure": self.measure,
            "value": self.value,
            "unit": self.unit,
            "runs": self.runs,
            "violations": self.broken,
            "note": self.note,
        }


class Results:
    """All results, each round's runs joined to the same measure of the rounds before."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, str], Result] = {}

    def __iter__(self) -> Iterator[Result]:
        return iter(self._found.values())

    def add(self, result: Result) -> None:
        """Keep *result*, or join it to what is known of the same measure."""
        key = result.who, result.workload, result.measure
        known = self._found.setdefault(key, result)
        if known is not result:
            known.runs += result.runs
            known.met += result.met
            known.note = result.note or known.note
            if result.broken is not None:
                known.broken = (known.broken or 0) + result.broken

    def get(self, who: str, workload: str, measure: str) -> Result | None:
        return self._found.get((who, workload, measure))

    def of(self, workload: str, measure: str) -> list[Result]:
        """Return what everybody did at one measure, in the order of their first run."""
        return [result for result in self if (result.workload, result.measure) == (workload, measure)]

    def ratio(self, workload: str, measure: str, other: str) -> float | None:
        """Return ours / the *other*'s, round by round as far as both have runs, because a machine changes."""
        mine, theirs = self.get(OURS, workload, measure), self.get(other, workload, measure)
        if not (mine and theirs and mine.runs and theirs.runs):
            return None
        return median(one / two for one, two in zip(mine.runs, theirs.runs, strict=False))
