"""Metrics of all limits, for Prometheus and OpenTelemetry.

Numbers are read at each scrape, so that nothing is spent in between.  How long calls wait and hold is only known of
limits that are listened to, so those are named.  Keys are not told apart: there may be any number of them.
"""

from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from typing import Any, Final, Literal

from penstock.policies.call_admission import CallAdmission
from penstock.policies.call_limit import CallLimit
from penstock.policies.events import LimitEvent, Stats
from penstock.policies.process_lock import DeferringLock, ForkAware, registry

Span = Literal["wait", "hold"]

# Seconds.
BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

_GAUGES: Final[dict[str, tuple[str, Callable[[Stats], float]]]] = {
    "penstock_limit_in_use": ("Slots held, or starts that count.", lambda stats: stats.in_use),
    "penstock_limit_max": ("How many are allowed.", lambda stats: stats.limit),
    "penstock_limit_queued": ("Calls that wait.", lambda stats: stats.queued),
    "penstock_limit_keys": ("Keys that are remembered.", lambda stats: stats.keys),
    "penstock_limit_mean_hold_seconds": ("How long slots are held lately.", lambda stats: stats.mean_hold),
}
_COUNTERS: Final[dict[str, tuple[str, Callable[[Stats], float]]]] = {
    "penstock_limit_acquired": ("Calls that were let in.", lambda stats: stats.acquired),
    "penstock_limit_cancelled": ("Calls that stopped waiting.", lambda stats: stats.cancelled),
    "penstock_limit_abandoned": (
        "Calls in threads whose callers stopped waiting for them.",
        lambda stats: stats.abandoned,
    ),
}
_REJECTED: Final = ("penstock_limit_rejected", "Calls that were refused.")
_SPANS: Final[dict[Span, tuple[str, str]]] = {
    "wait": ("penstock_limit_wait_seconds", "How long calls that were let in had waited."),
    "hold": ("penstock_limit_hold_seconds", "How long slots were held."),
}


def snapshots() -> list[Stats]:
    """Return the stats of every limit of this process, by name."""
    return sorted(
        (limit.stats() for limit in list(registry) if isinstance(limit, CallAdmission)),
        key=lambda stats: stats.name,
    )


def collector(*timed: CallLimit) -> Any:
    """Return a collector for a registry of `prometheus_client`, with histograms of the limits in *timed*."""
    from prometheus_client.core import (  # noqa: PLC0415 - an extra
        CounterMetricFamily,
        GaugeMetricFamily,
        HistogramMetricFamily,
    )

    histograms = Histograms(timed)

    class Limits:
        """Every limit of this process."""

        def collect(self) -> Iterator[Any]:
            """Return the numbers of this moment."""
            limits = snapshots()
            for kind, table in ((GaugeMetricFamily, _GAUGES), (CounterMetricFamily, _COUNTERS)):
                for name, (text, read) in table.items():
                    family = kind(name, text, labels=("limit",))
                    for stats in limits:
                        family.add_metric((stats.name,), read(stats))
                    yield family
            rejected = CounterMetricFamily(*_REJECTED, labels=("limit", "reason"))
            for stats in limits:
                for reason, count in stats.rejected.items():
                    rejected.add_metric((stats.name, reason), count)
            yield rejected
            for span, (name, text) in _SPANS.items() if timed else ():
                spans = HistogramMetricFamily(name, text, labels=("limit",))
                for limit, buckets, total in histograms.cumulated(span):
                    spans.add_metric((limit,), buckets, total)
                yield spans

    return Limits()


def observe(meter: Any, *timed: CallLimit) -> None:
    """Make instruments of a *meter* of OpenTelemetry that read every limit of this process.

    Those in *timed* are listened to, for histograms.
    """
    from opentelemetry.metrics import Observation  # noqa: PLC0415 - an extra

    def reading(read: Callable[[Stats], float]) -> Callable[[Any], list[Any]]:
        return lambda _: [Observation(read(stats), {"limit": stats.name}) for stats in snapshots()]

    def rejections(_: Any) -> list[Any]:
        return [
            Observation(count, {"limit": stats.name, "reason": reason})
            for stats in snapshots()
            for reason, count in stats.rejected.items()
        ]

    for name, (text, read) in _GAUGES.items():
        meter.create_observable_gauge(name, [reading(read)], description=text)
    for name, (text, read) in _COUNTERS.items():
        meter.create_observable_counter(name, [reading(read)], description=text)
    meter.create_observable_counter(_REJECTED[0], [rejections], description=_REJECTED[1])
    if timed:
        Recorder(
            timed,
            {
                span: meter.create_histogram(
                    name, "s", text, explicit_bucket_boundaries_advisory=list(BUCKETS)
                )
                for span, (name, text) in _SPANS.items()
            },
        )


class SpanListener(ForkAware):
    """Listens to *limits*, and notes how long calls waited and slots were held.

    A slot may be given back in a finalizer that interrupted this very listener, so it never waits for a lock.
    """

    def __init__(self, limits: Iterable[CallLimit]) -> None:
        self._lock = DeferringLock()
        for limit in {id(part): part for each in limits for part in each.parts()}.values():
            limit.listen(self.hear)
        registry.add(self)

    def hear(self, event: LimitEvent) -> None:
        """Note the span that *event* tells of, if it does."""
        if event.kind == "acquired":
            self._lock.do(self.note, "wait", event.limit, event.waited)
        elif event.kind == "released":
            self._lock.do(self.note, "hold", event.limit, event.held)

    @abstractmethod
    def note(self, span: Span, limit: str, seconds: float) -> None:
        """Note how long it was."""

    def reset(self) -> None:
        self._lock = DeferringLock()


class Histograms(SpanListener):
    """Counts spans by their length, for each limit."""

    def __init__(self, limits: Iterable[CallLimit], bounds: tuple[float, ...] = BUCKETS) -> None:
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
        with self._lock, self._lock.mutex:
            found = [
                (limit, list(counts), self._sums[kind, limit])
                for (kind, limit), counts in self._counts.items()
                if kind == span
            ]
        return [(limit, _cumulated(self._bounds, counts), total) for limit, counts, total in found]

    def reset(self) -> None:
        super().reset()
        self._counts.clear()
        self._sums.clear()


def _cumulated(bounds: Iterable[float], counts: Iterable[float]) -> list[tuple[str, float]]:
    """Return for each of *bounds*, and for no bound, how many values were no larger."""
    return list(zip((*map(str, bounds), "+Inf"), accumulate(counts), strict=True))


class Recorder(SpanListener):
    """Records spans with histograms of OpenTelemetry."""

    def __init__(self, limits: Iterable[CallLimit], instruments: dict[Span, Any]) -> None:
        self._instruments = instruments
        super().__init__(limits)

    def note(self, span: Span, limit: str, seconds: float) -> None:
        self._instruments[span].record(seconds, {"limit": limit})
