"""Limits in Prometheus' and OpenTelemetry's terms."""

import asyncio
import gc
from contextlib import contextmanager

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client import CollectorRegistry

from penstock.policies import Bulkhead, BulkheadFull, Limits, RateLimiter
from penstock.policies.metrics import BUCKETS, Histograms, collector, observe
from penstock.testing import VirtualTime
from tests.support.forked import trouble_in_a_fork


@pytest.fixture
def bulkhead():
    bulkhead = Bulkhead(1, mode="reject", name="measured")
    slot = bulkhead.try_acquire()
    with pytest.raises(BulkheadFull):
        bulkhead.call(len, "")
    yield bulkhead
    slot.release()


def test_prometheus_reads_every_limit_at_a_scrape(bulkhead):
    registry = CollectorRegistry()
    registry.register(collector())

    def value(name, **labels):
        return registry.get_sample_value(name, {"limit": "measured", **labels})

    assert (1, 1, 0) == (
        value("penstock_limit_in_use"), value("penstock_limit_max"), value("penstock_limit_queued"),
    )  # fmt: skip
    assert 1 == value("penstock_limit_acquired_total")
    assert 1 == value("penstock_limit_rejected_total", reason="busy")


def test_opentelemetry_observes_every_limit(bulkhead):
    with metered() as points:
        found = points()

    assert [1, 1, 1] == [found["measured", name].value for name in ("in_use", "acquired", "rejected")]


@contextmanager
def metered(*limits):
    """Observe *limits* for a while; give what returns the points by the names of limit and metric."""
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    observe(provider.get_meter("test"), *limits)

    def points():
        return {
            (point.attributes["limit"], metric.name.removeprefix("penstock_limit_")): point
            for resource in reader.get_metrics_data().resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            for point in metric.data.data_points
        }

    yield points
    provider.shutdown()


async def three_in_a_row(limit):
    """Hold the one slot for two seconds, three times, so that the last waits for four."""

    @limit
    async def one():
        await asyncio.sleep(2)

    await asyncio.gather(one(), one(), one())


def test_prometheus_counts_waits_and_holds_of_the_limits_that_are_named():
    named, other = Bulkhead(1, name="named"), Bulkhead(1, name="other")
    registry = CollectorRegistry()
    registry.register(collector(named))

    VirtualTime().run(three_in_a_row(named))
    VirtualTime().run(three_in_a_row(other))

    def value(name, **labels):
        return registry.get_sample_value(f"penstock_limit_{name}", {"limit": "named", **labels})

    waits = [value("wait_seconds_bucket", le=le) for le in ("0.001", "1.0", "2.5", "5.0", "+Inf")]
    assert [1, 1, 2, 3, 3] == waits
    assert (3, 6) == (value("wait_seconds_count"), value("wait_seconds_sum"))
    assert (0, 3) == tuple(value("hold_seconds_bucket", le=le) for le in ("1.0", "2.5"))
    assert (3, 6) == (value("hold_seconds_count"), value("hold_seconds_sum"))
    assert registry.get_sample_value("penstock_limit_wait_seconds_count", {"limit": "other"}) is None
    assert [] == other.pool.counters.listeners


def test_opentelemetry_records_waits_and_holds_of_the_limits_that_are_named():
    named = Bulkhead(1, name="recorded")
    with metered(named) as points:
        VirtualTime().run(three_in_a_row(named))
        spans = {
            name: point for name, point in points().items() if name[1] in {"wait_seconds", "hold_seconds"}
        }

    assert {("recorded", "wait_seconds"), ("recorded", "hold_seconds")} == set(spans)
    for point in spans.values():
        assert (3, 6, BUCKETS) == (point.count, point.sum, point.explicit_bounds)
        assert {"limit": "recorded"} == dict(point.attributes)


def test_members_of_limits_are_timed_once_and_keys_are_not_told_apart():
    each = Bulkhead(1, key="tenant", name="each")
    both = Limits(each, RateLimiter(10, per=1, name="rate"))
    times = Histograms([both, each])

    for tenant in "abc":
        both.acquire(tenant).release()

    counts = {limit: buckets[-1] for limit, buckets, _ in times.cumulated("hold")}
    assert {"each": ("+Inf", 3), "rate": ("+Inf", 3)} == counts


@pytest.mark.filterwarnings("ignore:a slot of dropped was never given back")
def test_a_slot_that_a_finalizer_gives_back_while_a_span_is_noted_is_counted():
    bulkhead = Bulkhead(2, name="dropped")
    lost = []

    class Interrupted(Histograms):
        def note(self, span, limit, seconds):
            lost.clear()
            gc.collect()
            super().note(span, limit, seconds)

    times = Interrupted([bulkhead])
    lost.append(bulkhead.acquire())
    bulkhead.call(len, "")

    [(_, buckets, _)] = times.cumulated("hold")
    assert ("+Inf", 2) == buckets[-1]


def test_a_forked_process_counts_from_the_beginning():
    bulkhead = Bulkhead(1, name="forked")
    times = Histograms([bulkhead])
    bulkhead.call(len, "")

    def count():
        assert [] == times.cumulated("wait")
        bulkhead.call(len, "")
        [(_, buckets, _)] = times.cumulated("wait")
        assert ("+Inf", 1) == buckets[-1]

    with times._lock.mutex:
        trouble = trouble_in_a_fork(count)

    assert not trouble, trouble
