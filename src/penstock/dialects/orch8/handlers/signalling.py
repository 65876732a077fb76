"""The handlers `send_signal` and `emit_event`."""

from collections.abc import Mapping
from typing import Any

from penstock.dialects.orch8.handlers.outcomes import StepFailed
from penstock.engine import Engine
from penstock.errors import ConflictError, InvalidError, NotFoundError
from penstock.http.codec import encode
from penstock.sequences.handlers import EVENT


def send_signal(engine: Engine, params: Mapping[str, Any], tenant: str) -> dict[str, Any]:
    """Send a signal to another instance of the same tenant."""
    instance, name = _text(params, "instance_id"), _text(params, "name", "signal")
    try:
        sent = engine.signal(instance, name, encode(params.get("payload")).decode(), tenant)
    except (InvalidError, NotFoundError, ConflictError) as error:
        raise StepFailed(type(error).__name__, str(error), final=True) from None
    return {"signal_id": sent}


def emit_event(engine: Engine, params: Mapping[str, Any], tenant: str) -> dict[str, Any]:
    """Tell every instance of the tenant that waits for an event of this name."""
    name = _text(params, "event", "name")
    try:
        told = engine.send_event(f"{EVENT}{name}", encode(params.get("payload")).decode(), tenant)
    except InvalidError as error:
        raise StepFailed(type(error).__name__, str(error), final=True) from None
    return {"event": name, "told": told}


def _text(params: Mapping[str, Any], *fields: str) -> str:
    for field in fields:
        if isinstance(value := params.get(field), str) and value:
            return value
    raise StepFailed("InvalidParams", f"{fields[0]}: is missing, or is no text", final=True)
