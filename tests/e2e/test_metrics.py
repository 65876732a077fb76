"""Metrics, as Prometheus reads them."""

import time

import pytest
from prometheus_client.parser import text_string_to_metric_families

from penstock import App, Concurrency
from penstock.clock import SECOND
from penstock.job import NewInstance
from tests.support.desk import slots
from tests.support.server import guarded, served

JOB = {"type": "test.echo", "args": [1]}


def limited(key="api", **policy):
    return {**JOB, "options": {"rate_limit": {"key": key, **policy}}}


@pytest.fixture
def server(tmp_path):
    with served(tmp_path / "jobs.db") as server:
        yield server


def samples(server, path="/metrics"):
    """Return every number by its name and labels."""
    answer = server.get(path)

    assert 200 == answer.status
    return {
        (sample.name, frozenset((k, v) for k, v in sample.labels.items() if v)): sample.value
        for family in text_string_to_metric_families(answer.body.decode())
        for sample in family.samples
    }


def number(server, name, **labels):
    return samples(server).get((name, frozenset(labels.items())))


def wait_for(server, value, name, **labels):
    server.until(lambda: number(server, name, **labels) == value, seconds=10)


def test_the_type_is_exactly_plain_text(server):
    assert "text/plain" == server.get("/metrics").headers["content-type"]


def test_jobs_are_counted_by_what_became_of_them(server):
    for _ in range(3):
        server.enqueue(JOB)
    one, two, _ = server.fetch("default", count=3)
    server.ack(one)
    server.nack(two, {"retryable": False})
    labels = {"queue": "default", "job_type": "test.echo"}
    wait_for(server, 1, "ojs_jobs_failed_total", **labels)

    assert 3 == number(server, "ojs_jobs_enqueued_total", **labels)
    assert 3 == number(server, "ojs_jobs_started_total", **labels)
    assert 1 == number(server, "ojs_jobs_completed_total", **labels)
    assert 1 == number(server, "ojs_jobs_discarded_total", **labels)
    assert 2 == number(server, "ojs_job_duration_seconds_count", **labels)
    assert 3 == number(server, "ojs_job_queue_time_seconds_count", **labels)


def test_queues_are_as_full_as_they_are(server):
    for queue, count in (("a", 3), ("b", 2)):
        for _ in range(count):
            server.enqueue({**JOB, "options": {"queue": queue}})
    server.enqueue({**JOB, "options": {"queue": "a", "scheduled_at": "2099-01-01T00:00:00Z"}})
    server.fetch("a")

    wait_for(server, 2, "ojs_queue_depth", queue="a", state="available")
    wait_for(server, 1, "ojs_queue_depth", queue="a", state="active")
    wait_for(server, 1, "ojs_queue_depth", queue="a", state="scheduled")
    wait_for(server, 2, "ojs_queue_depth", queue="b", state="available")


def test_the_four_metrics_of_rate_limits(server):
    jobs = [server.enqueue(limited(concurrency=1)) for _ in range(3)]
    for job in jobs:
        (got,) = server.fetch("default", count=3)
        assert job["id"] == got["id"]
        if job is jobs[0]:
            wait_for(server, 1, "ojs_rate_limit_active", key="api")
            wait_for(server, 2, "ojs_rate_limit_waiting", key="api")
        time.sleep(0.6)
        server.ack(job)

    # Each of the two was blocked once.
    wait_for(server, 2, "ojs_rate_limit_exceeded_total", key="api", strategy="concurrency")
    wait_for(server, 2, "ojs_rate_limit_wait_duration_count", key="api")
    # The second waited for one job, the third for two.
    assert 1.8 <= number(server, "ojs_rate_limit_wait_duration_sum", key="api") < 10
    # A gate at which nothing waits or runs is forgotten after a while.
    for name in ("ojs_rate_limit_active", "ojs_rate_limit_waiting"):
        server.until(lambda name=name: not number(server, name, key="api"))


@pytest.mark.parametrize("first", [True, False], ids=["enqueue then fetch", "fetch then enqueue"])
def test_every_job_that_a_limit_blocks_is_counted_once(server, first):
    jobs = [server.enqueue(limited(concurrency=1)) for _ in range(5 if first else 1)]
    wait_for(server, 0, "ojs_rate_limit_waiting", key="api")  # they wait for a worker, not for the limit
    server.fetch("default", count=8)
    jobs += [server.enqueue(limited(concurrency=1)) for _ in range(0 if first else 4)]

    wait_for(server, 4, "ojs_rate_limit_exceeded_total", key="api", strategy="concurrency")
    wait_for(server, 4, "ojs_rate_limit_waiting", key="api")
    for job in jobs:
        server.ack(job)
        server.fetch("default", count=8)
    wait_for(server, 4, "ojs_rate_limit_wait_duration_count", key="api")
    assert 4 == number(server, "ojs_rate_limit_exceeded_total", key="api", strategy="concurrency")


def test_a_dropped_job_is_counted_as_held_and_as_dropped(server):
    for _ in range(3):
        server.enqueue(limited(concurrency=0, on_limit="drop"))

    wait_for(server, 3, "ojs_rate_limit_dropped_total", key="api")
    wait_for(server, 3, "ojs_rate_limit_exceeded_total", key="api", strategy="concurrency")


def test_our_own_protocol_has_names_of_its_own(server):
    def found(name, **labels):
        return samples(server, "/penstock/v1/metrics").get((name, frozenset(labels.items())))

    server.enqueue(limited(concurrency=0))

    server.until(lambda: found("penstock_gate_waiting", key="api"))
    server.until(lambda: found("penstock_jobs_enqueued_total", queue="default", task="test.echo"))
    assert 1 == found("penstock_queue_depth", queue="default", state="waiting")
    assert {"penstock"} == {name.partition("_")[0] for name, _ in samples(server, "/penstock/v1/metrics")}


@pytest.mark.parametrize(
    ("path", "prefix", "label"),
    [("/penstock/v1/metrics", "penstock", "workflow"), ("/api/v1/metrics", "orch8", "sequence")],
)
def test_instances_are_counted_by_workflow_state_and_outcome(server, path, prefix, label):
    def found(name, workflow, **labels):
        labels[label] = workflow
        return samples(server, path).get((f"{prefix}_instances{name}", frozenset(labels.items())))

    def create(limits=(), **facts):
        (created,) = app.engine.create_instances([NewInstance("wf", queue="q", limits=limits, **facts)])
        return created.id

    app = App(server.url)
    one = (slots("contact", 1),)
    running, waiting, dropped = create(one), create(one), create((slots("none", 0, on_limit="drop"),))
    app.engine.pause_instance(create())
    create(due=app.engine.clock.now() + 3_600 * SECOND)
    server.until(lambda: found("", "wf", state="deferred") == 1)
    states = ("running", "paused", "scheduled")
    assert [1, 1, 1] == [found("", "wf", state=state) for state in states]
    assert 0 == samples(server, path)[f"{prefix}_instances_stuck", frozenset()]

    for each in (waiting, running):
        app.engine.cancel_instance(each)
    app.engine.retry_instance(running)
    put = {"name": "s", "tenant_id": "acme", "blocks": [{"type": "step", "id": "a", "handler": "noop"}]}
    server.post("/sequences", put)
    server.post("/instances", {"sequence_name": "s", "tenant_id": "acme"})
    app.close()

    server.until(lambda: found("_completed_total", "s") == 1)
    names = ("created", "started", "cancelled", "discarded", "retried")
    assert [5, 3, 2, 1, 1] == [found(f"_{name}_total", "wf") for name in names]
    assert dropped
    assert not [name for name, _ in samples(server) if "instances" in name]


def test_of_very_many_workflows_a_thousand_are_named(server):
    def found(name):
        return {
            dict(labels)["workflow"]: value
            for (each, labels), value in samples(server, "/penstock/v1/metrics").items()
            if each == name
        }

    app = App(server.url)
    app.engine.create_instances([NewInstance(f"wf{number:04}", queue="q") for number in range(1_300)])
    app.close()
    server.until(lambda: sum(found("penstock_instances_created_total").values()) == 1_300)
    server.until(lambda: sum(found("penstock_instances").values()) == 1_300)

    for name in ("penstock_instances_created_total", "penstock_instances"):
        assert 1_001 == len(found(name))
        assert 300 == found(name)["other"]


def test_floating_limits_in_use_show_value_failures_and_age(server):
    app = App(server.url)
    limits = [Concurrency.floating(4, key="pool", handler="free", every="1h")]
    app.task(lambda: None, name="load", limits=limits).enqueue()
    (lent,) = app.engine.refreshes(["free"], 1, worker="w")
    assert app.engine.refreshed(lent, value=6)
    app.close()

    wait_for(server, 6, "ojs_rate_limit_floating_value", key="pool")
    assert 0 == number(server, "ojs_rate_limit_floating_failures", key="pool")
    assert 0 <= number(server, "ojs_rate_limit_floating_age_seconds", key="pool") < 60


def test_of_very_many_keys_a_thousand_are_named(server):
    jobs = [limited(f"key:{n}", concurrency=0) for n in range(1_300)]
    for part in (jobs[:650], jobs[650:]):
        assert 201 == server.post("/ojs/v1/jobs/batch", {"jobs": part}).status
    for _ in range(2):  # a busy key is named before others
        server.enqueue(limited("key:999", concurrency=0))
    wait_for(server, 3, "ojs_rate_limit_waiting", key="key:999")
    found = {
        labels: value for (name, labels), value in samples(server).items() if name == "ojs_rate_limit_waiting"
    }

    assert 1_001 == len(found)
    assert 300 == found[frozenset({("key", "other")})]
    assert 1_302 == sum(found.values())


def test_requests_are_counted_by_route_not_by_path(server):
    for n in range(5):
        server.get(f"/ojs/v1/jobs/019461a8-0000-7000-8000-00000000000{n}")
        server.get(f"/nowhere/{n}")

    labels = {"method": "GET", "route": "/ojs/v1/jobs/{id}", "status": "404"}
    assert 5 == number(server, "ojs_http_request_duration_seconds_count", **labels)
    other = {"method": "other", "route": "other", "status": "404"}
    assert 5 == number(server, "ojs_http_request_duration_seconds_count", **other)


def test_a_tenant_does_not_see_what_others_do(tmp_path):
    tokens = (
        "operator-of-everything",
        "operator-of-one-tenant tenant=acme",
        "producer-of-all-jobs roles=producer",
    )
    with guarded(tmp_path, *tokens) as server:
        sent = [{"Authorization": f"Bearer {token.split()[0]}"} for token in tokens]

        assert [401, 200, 403, 403] == [server.get("/metrics", **headers).status for headers in ({}, *sent)]
