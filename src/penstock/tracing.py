"""Trace context: carried in a job's meta from the caller that enqueues it to its handler.

It is the W3C's: `traceparent` and `tracestate`.  Where OpenTelemetry is in use, calls that are enqueued note the
present span, and handlers run in a span of which that is the parent.  Where it is not imported, this costs a
look into a dictionary.
"""

import re
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from types import ModuleType
from typing import Any, Final

import msgspec

from penstock.job import Claimed

PARENT: Final = "traceparent"
STATE: Final = "tracestate"
_WELL_FORMED: Final = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_MOST: Final = 512  # characters of a state
_NOWHERE: Final[AbstractContextManager[object]] = nullcontext()
_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode
_encode: Final = msgspec.json.Encoder().encode


def carried(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the trace context that a request brings, if it is well-formed."""
    parent, state = headers.get(PARENT), headers.get(STATE)
    if parent is None or not _WELL_FORMED.fullmatch(parent):
        return {}
    fits = state is not None and len(state) <= _MOST and state.isprintable()
    return {PARENT: parent, **({STATE: state} if state and fits else {})}


def noted(meta: str) -> str:
    """Return a job's *meta* with the present span, if there is one and it names none."""
    trace = _trace()
    if trace is None or f'"{PARENT}"' in meta:
        return meta
    if not trace.get_current_span().get_span_context().is_valid:
        return meta
    context: dict[str, str] = {}
    _propagator().inject(context)
    return _encode({**_decode(meta), **context}).decode() if context else meta


def span(job: Claimed) -> AbstractContextManager[object]:
    """Return a span for a handler to run in: the child of the one in which the job was enqueued."""
    trace = _trace()
    if trace is None:
        return _NOWHERE
    meta = {}
    if f'"{PARENT}"' in job.meta:
        with suppress(msgspec.DecodeError):  # nothing that a job brings keeps it from running
            meta = _decode(job.meta)
    names = {name: meta[name] for name in (PARENT, STATE) if isinstance(meta.get(name), str)}
    manager = trace.get_tracer("penstock").start_as_current_span(
        f"{job.queue} process",
        context=_propagator().extract(names) if names else None,
        kind=trace.SpanKind.CONSUMER,
        attributes={
            "messaging.system": "penstock",
            "messaging.operation.type": "process",
            "messaging.destination.name": job.queue,
            "messaging.message.id": job.id,
            "penstock.task": job.task,
            "penstock.attempt": job.attempt,
        },
    )
    return _Span(manager)


class _Span:
    """A span whose end hides no error of the handler: recording an error whose text raises would."""

    def __init__(self, manager: Any) -> None:  # noqa: ANN401 - a type that may not be installed
        self._manager = manager

    def __enter__(self) -> object:
        entered: object = self._manager.__enter__()
        return entered

    def __exit__(self, *error: object) -> None:
        with suppress(Exception):
            self._manager.__exit__(*error)


def _trace() -> ModuleType | None:
    """Return OpenTelemetry's module if this process has imported it."""
    return sys.modules.get("opentelemetry.trace")


def _propagator() -> Any:  # noqa: ANN401 - a type that may not be installed
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415

    return TraceContextTextMapPropagator()
