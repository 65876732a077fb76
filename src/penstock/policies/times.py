"""How long calls waited and slots were held: heard from the limits that are named, in so many buckets."""

from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal

from penstock.policies.events import LimitEvent
from penstock.policies.forms import Limit
from penstock.policies.guard import Guard, Resets, everyone

Span = Literal["wait", "hold"]

# Seconds.
BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Ear(Resets):
    """Listens to *limits*, and notes one span after another.

    A slot may be given back in a finalizer that interrupted this very listener, so nobody waits for a lock here.
    """

    def __init__(self, limits: Iterable[Limit]) -> None:
        self._guard = Guard()
        for limit in {id(part): part for each in limits for part in each.parts()}.values():
            limit.listen(self.hear)
        everyone.add(self)

    def hear(self, event: LimitEvent) -> None:
        """Have a span noted if *event* tells of one."""
        if event.kind == "acquired":
            self._guard.do(self.note, "wait", event.limit, event.waited)
        elif event.kind == "released":
            self._guard.do(self.note, "hold", event.limit, event.held)

    @abstractmethod
    def note(self, span: Span, limit: str, seconds: float) -> None:
        """Take in how long it was."""

    def reset(self) -> None:
        self._guard = Guard()


class Histograms(Ear):
    """Counts spans by their length, for each limit."""

    def __init__(self, limits: Iterable[Limit], bounds: tuple[float, ...] = BUCKETS) -> None:
        self._bounds = bounds
        self._counts: dict[tuple[Span, str], list[int]] = {}
        self._sums: dict[tuple[Span, str], float] = {}
        super().__init__(limits)

    def note(self, span: Span, limit: str, seconds: float) -> None:
        of = (span, limit)
        counts = self._counts.setdefault(of, [0] * (len(self._bounds) + 1))
        counts[bisect_left(self._bounds, seconds)] += 1
        self._sums[of] = self._sums.get(of, 0.0) + seconds

    def cumulated(self, span: Span) -> list[tuple[str, list[tuple[str, float]], float]]:
        """Return for each limit how many were no longer than each bound, and the sum of all."""
        with self._guard, self._guard.lock:
            found = [
                (limit, list(counts), self._sums[kind, limit])
                for (kind, limit), counts in self._counts.items()
                if kind == span
            ]
        return [(limit, list(self._buckets(counts)), total) for limit, counts, total in found]

    def reset(self) -> None:
        super().reset()
        self._counts.clear()
        self._sums.clear()

    def _buckets(self, counts: list[int]) -> Iterator[tuple[str, float]]:
        so_far = 0
        for bound, count in zip((*map(str, self._bounds), "+Inf"), counts, strict=True):
            so_far += count
            yield bound, so_far


class Recorder(Ear):
    """Records spans with histograms of OpenTelemetry."""

    def __init__(self, limits: Iterable[Limit], instruments: dict[Span, Any]) -> None:
        self._instruments = instruments
        super().__init__(limits)

    def note(self, span: Span, limit: str, seconds: float) -> None:
        self._instruments[span].record(seconds, {"limit": limit})
