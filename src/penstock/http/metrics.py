"""Metrics for Prometheus: counters fed by events, and gauges that a scrape reads from the store.

Labels never grow without bound: of the keys, and of the queues with their types, a thousand are named and all
others are counted together as "other".
"""

from collections.abc import Iterator
from itertools import accumulate
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from penstock.clock import SECOND
from penstock.http.access import OPERATORS
from penstock.http.counters import INSTANCES, JOBS, MOST, OTHER, Histogram, LabelCounter, Labels, Metrics
from penstock.http.dialect import MetricNames
from penstock.http.errors import ForbiddenError
from penstock.http.routes import Reply, Request, Route
from penstock.job import Gauges

MEDIA: Final = "text/plain"  # exactly, without a version: some protocols demand it


class _Scrape(Collector):
    """The numbers of one moment, in Prometheus' terms."""

    def __init__(self, names: MetricNames, metrics: Metrics, gauges: Gauges) -> None:
        self._names = names
        self._gauges = gauges
        job, limit = f"{names.prefix}_job", f"{names.prefix}_{names.limit}"
        by_type, by_key = ("queue", names.task), ("key", "tenant")
        exceeded: dict[Labels, int] = {
            (key, tenant, names.rules.get(rule, rule)): count
            for (key, tenant, rule), count in metrics.exceeded.counts.items()
        }
        self._counters = [
            *((f"{job}s_{name}", JOBS[name], by_type, dict(tally.counts)) for name, tally in metrics.jobs.items()),
            *((f"{names.prefix}_instances_{name}", INSTANCES[name], (names.workflow,), dict(tally.counts))
              for name, tally in metrics.instances.items() if names.workflow),
            (f"{limit}_exceeded", "Jobs that a limit kept from starting.", (*by_key, names.rule), exceeded),
            (f"{limit}_dropped", "Jobs that a limit threw away.", by_key, dict(metrics.dropped.counts)),
            ("penstock_events_dropped", "Events that readers cannot get any more, since too many came at once.", (),
             dict(metrics.lost.counts)),
        ]  # fmt: skip
        self._spreads = [
            (f"{job}_duration_seconds", "How long attempts took.", by_type, *_taken(metrics.durations)),
            (f"{job}_queue_time_seconds", "How long jobs waited for their first attempt.", by_type,
             *_taken(metrics.queued)),
            (f"{limit}_wait_duration", "Seconds that jobs waited due to limits.", by_key, *_taken(metrics.waits)),
            (f"{names.prefix}_http_request_duration_seconds", "How long requests took.",
             ("method", "route", "status"), *_taken(metrics.requests)),
        ]  # fmt: skip

    def collect(self) -> Iterator[Metric]:
        """Return the numbers."""
        yield from self._full()
        for name, text, labels, counts in self._counters:
            counter = CounterMetricFamily(name, text, labels=labels)
            for values, count in counts.items():
                counter.add_metric(values, count)
            yield counter
        for name, text, labels, bounds, spreads in self._spreads:
            histogram = HistogramMetricFamily(name, text, labels=labels)
            for values, spread in spreads.items():
                histogram.add_metric(values, _cumulated(bounds, spread[:-1]), spread[-1])
            yield histogram

    def _full(self) -> Iterator[Metric]:
        prefix, limit = self._names.prefix, f"{self._names.prefix}_{self._names.limit}"
        depth = GaugeMetricFamily(
            f"{prefix}_queue_depth", "Jobs in a queue, by state.", labels=("queue", "state")
        )
        tally = LabelCounter()
        for queue, state, jobs in self._gauges.queues:
            tally.add(queue, self._names.states.get(state, state), count=jobs)
        for labels, count in tally.counts.items():
            depth.add_metric(labels, count)
        by_key = ("key", "tenant")
        active = GaugeMetricFamily(f"{limit}_active", "Jobs of a key that run.", labels=by_key)
        waiting = GaugeMetricFamily(f"{limit}_waiting", "Jobs that wait because of a key.", labels=by_key)
        for key in self._gauges.keys:
            active.add_metric((key.key, key.tenant), key.running)
            waiting.add_metric((key.key, key.tenant), key.waiting)
        if len(self._gauges.keys) == MOST:
            active.add_metric((OTHER, ""), self._gauges.other_running)
            waiting.add_metric((OTHER, ""), self._gauges.other_waiting)
        yield from (depth, active, waiting)
        yield from self._floating(f"{limit}_floating")
        if self._names.workflow:
            yield from self._instances(f"{prefix}_instances")

    def _instances(self, name: str) -> Iterator[Metric]:
        live = GaugeMetricFamily(name, "Instances, by state.", labels=(self._names.workflow, "state"))
        tally = LabelCounter()
        for workflow, state, count in self._gauges.instances:
            tally.add(workflow, state, count=count)
        for labels, count in tally.counts.items():
            live.add_metric(labels, count)
        text = "Running instances that nothing will move on; `penstock doctor` names them."
        yield from (live, GaugeMetricFamily(f"{name}_stuck", text, value=self._gauges.stuck))

    def _floating(self, name: str) -> Iterator[Metric]:
        by_key = ("key", "tenant")
        value = GaugeMetricFamily(f"{name}_value", "Slots of a floating limit in use.", labels=by_key)
        failures = GaugeMetricFamily(
            f"{name}_failures", "Times that it could not be computed since it was.", labels=by_key
        )
        age = GaugeMetricFamily(f"{name}_age_seconds", "How long ago it was computed.", labels=by_key)
        for each in self._gauges.floating:
            labels = (each.key, each.tenant)
            value.add_metric(labels, each.value)
            failures.add_metric(labels, each.failures)
            if each.age is not None:
                age.add_metric(labels, each.age / SECOND)
        yield from (value, failures, age)


def _taken(spread: Histogram) -> tuple[tuple[float, ...], dict[tuple[str, ...], list[float]]]:
    return spread.bounds, {labels: list(values) for labels, values in spread.values.items()}


def _cumulated(bounds: tuple[float, ...], counts: list[float]) -> list[tuple[str, float]]:
    return list(zip((*map(str, bounds), "+Inf"), accumulate(counts), strict=True))


def route(names: MetricNames) -> Route:
    """Return the route that shows what was counted under these *names*."""

    async def scrape(request: Request) -> Reply:
        if request.access.tenant is not None:
            raise ForbiddenError("metrics are of all tenants; this token is for one")
        metrics = request.service.part(Metrics)
        found = _Scrape(names, metrics, await metrics.gauges(request.service))
        text = await request.service.run(lambda _: _written(found))
        return Reply(text, media=MEDIA)

    return Route("GET", names.path, scrape, OPERATORS, "Metrics for Prometheus", media=MEDIA)


def _written(found: _Scrape) -> bytes:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(found)
    return generate_latest(registry)
