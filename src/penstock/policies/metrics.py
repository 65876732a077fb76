"""How limits stand, for Prometheus and OpenTelemetry: read at each scrape, so that nothing is spent in between.

How long calls wait and hold is only known of limits that are listened to, so those are named.  Keys are not told
apart: there may be any number of them.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

from penstock.policies.forms import Limit
from penstock.policies.guard import everyone
from penstock.policies.ledger import Stats
from penstock.policies.queueing import Queueing
from penstock.policies.times import BUCKETS, Histograms, Recorder, Span

_GAUGES: Final[dict[str, tuple[str, Callable[[Stats], float]]]] = {
    "penstock_limit_in_use": ("Slots held, or starts that count.", lambda stats: stats.in_use),
    "penstock_limit_max": ("How many are allowed.", lambda stats: stats.limit),
    "penstock_limit_queued": ("Calls that wait.", lambda stats: stats.queued),
    "penstock_limit_keys": ("Keys that are remembered.", lambda stats: stats.keys),
    "penstock_limit_mean_hold_seconds": ("How long slots are held lately.", lambda stats: stats.mean_hold),
}
_COUNTERS: Final[dict[str, tuple[str, Callable[[Stats], float]]]] = {
    "penstock_limit_acquired": ("Calls that were let in.", lambda stats: stats.acquired),
    "penstock_limit_cancelled": ("Calls that left their line.", lambda stats: stats.cancelled),
    "penstock_limit_abandoned": ("Calls that nobody waits for any more.", lambda stats: stats.abandoned),
}
_REJECTED: Final = ("penstock_limit_rejected", "Calls that were refused.")
_SPANS: Final[dict[Span, tuple[str, str]]] = {
    "wait": ("penstock_limit_wait_seconds", "How long calls that were let in had waited."),
    "hold": ("penstock_limit_hold_seconds", "How long slots were held."),
}


def snapshots() -> list[Stats]:
    """Return how every limit of this process stands, by name."""
    return sorted(
        (limit.stats() for limit in list(everyone) if isinstance(limit, Queueing)),
        key=lambda stats: stats.name,
    )


def collector(*timed: Limit) -> Any:
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


def observe(meter: Any, *timed: Limit) -> None:
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
