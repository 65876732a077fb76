"""Numbers by label, of which there are only ever so many."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

MOST: Final = 1_000  # different labels of one number; all that come later count together
OTHER: Final = "other"
Labels = tuple[str, ...]


class Tally:
    """Counts by labels."""

    def __init__(self) -> None:
        self.counts: dict[Labels, int] = {}

    def add(self, *labels: str, count: int = 1) -> None:
        """Count something."""
        labels = known(self.counts, labels)
        self.counts[labels] = self.counts.get(labels, 0) + count


class Spread:
    """How values are spread, by labels: for each how many lie up to each of some bounds, and their sum."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.values: dict[Labels, list[float]] = {}

    def add(self, value: float, *labels: str) -> None:
        """Note a value."""
        labels = known(self.values, labels)
        kept = self.values.get(labels)
        if kept is None:
            kept = self.values[labels] = [0] * (len(self.bounds) + 2)
        kept[bisect_left(self.bounds, value)] += 1
        kept[-1] += value


def known(
    among: dict[Labels, object] | dict[Labels, int] | dict[Labels, list[float]], labels: Labels
) -> Labels:
    """Return *labels*, or those that stand for all others once there are many."""
    return labels if labels in among or len(among) < MOST else (OTHER,) * len(labels)
