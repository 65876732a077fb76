"""Trace context goes from the caller that enqueues a job to its handler."""

import asyncio
import json
import subprocess
import sys

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from penstock import App, current_job
from penstock.tracing import carried, noted

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.fixture(scope="module")
def exporter():
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return exporter


@pytest.fixture
def spans(exporter):
    exporter.clear()
    return exporter


@pytest.fixture
def app(tmp_path):
    with App(str(tmp_path / "jobs.db")) as app:
        yield app


@pytest.mark.parametrize("is_async", [False, True], ids=["def", "async def"])
def test_a_handler_runs_in_a_child_of_the_span_that_enqueued_it(app, spans, is_async):
    seen = []

    def note():
        seen.append((trace.get_current_span().get_span_context(), current_job().meta["traceparent"]))

    async def note_async():
        await asyncio.sleep(0)
        note()

    task = app.task(note_async if is_async else note, name="note")
    with trace.get_tracer("test").start_as_current_span("request") as request:
        task.enqueue()
    app.work(until_idle=True)

    (inside, parent), *_ = seen
    made = {span.name: span for span in spans.get_finished_spans()}
    handled = made["default process"]
    context = request.get_span_context()
    assert (context.trace_id, context.span_id) == (handled.parent.trace_id, handled.parent.span_id)
    assert (handled.context.trace_id, handled.context.span_id) == (inside.trace_id, inside.span_id)
    assert parent.split("-")[1:3] == [f"{context.trace_id:032x}", f"{context.span_id:016x}"]
    assert ("note", 1) == tuple(handled.attributes[name] for name in ("penstock.task", "penstock.attempt"))


def test_a_failure_is_noted_on_its_span(app, spans):
    def fail():
        raise ValueError("no")

    app.task(fail, name="fail").enqueue()
    app.work(until_idle=True)

    (span,) = spans.get_finished_spans()
    assert not span.status.is_ok
    assert ["exception"] == [event.name for event in span.events]


def test_an_error_whose_text_raises_is_the_handlers_all_the_same(app, spans):
    class BadError(Exception):
        def __str__(self):
            raise RuntimeError

    def fail():
        raise BadError

    job = app.task(fail, name="fail").enqueue()
    app.work(until_idle=True)

    assert "BadError" == job.refresh().error["kind"]
    assert 1 == len(spans.get_finished_spans())


def test_a_context_that_was_given_stands(spans):
    meta = json.dumps({"traceparent": PARENT})
    with trace.get_tracer("test").start_as_current_span("request"):
        assert meta == noted(meta)
        assert {"traceparent", "a"} == set(json.loads(noted('{"a": 1}')))
    assert "{}" == noted("{}")


@pytest.mark.parametrize(
    ("headers", "found"),
    [
        ({"traceparent": PARENT}, {"traceparent": PARENT}),
        ({"traceparent": PARENT, "tracestate": "a=b"}, {"traceparent": PARENT, "tracestate": "a=b"}),
        ({"traceparent": PARENT, "tracestate": "x" * 513}, {"traceparent": PARENT}),
        ({"traceparent": PARENT.upper()}, {}),
        ({"traceparent": "00-" + "0" * 32 + "-00f067aa0ba902b7-01"}, {}),
        ({"tracestate": "a=b"}, {}),
        ({}, {}),
    ],
    ids=["parent", "state", "long state", "upper case", "no trace", "no parent", "nothing"],
)
def test_only_a_well_formed_context_is_carried(headers, found):
    assert found == carried(headers)


def test_without_opentelemetry_nothing_is_imported_for_it():
    script = "import penstock, penstock.tracing, sys; print([m for m in sys.modules if 'telemetry' in m])"
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert "[]" == answer.stdout.strip()
