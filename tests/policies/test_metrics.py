"""Limits in Prometheus' and OpenTelemetry's terms."""

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client import CollectorRegistry

from penstock.policies import Bulkhead, BulkheadFull
from penstock.policies.metrics import collector, observe


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
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    observe(provider.get_meter("test"))

    data = reader.get_metrics_data()
    values = {
        metric.name: point.value
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for point in metric.data.data_points
        if point.attributes["limit"] == "measured"
    }
    provider.shutdown()

    assert (1, 1, 1) == tuple(values[f"penstock_limit_{name}"] for name in ("in_use", "acquired", "rejected"))
