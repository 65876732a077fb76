"""Cancel, pause, resume, retry and signal instances, and give them another context."""

from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

from penstock.dialects.orch8.format.errors import TooLargeError
from penstock.dialects.orch8.format.instance import InstanceShape, shown
from penstock.dialects.orch8.format.new_instance import MOST_CONTEXT
from penstock.dialects.orch8.format.values import check_name, tenant_of
from penstock.engine import Engine
from penstock.errors import InvalidError
from penstock.http.access import PRODUCERS
from penstock.http.codec import encode
from penstock.http.routes import Handler, Reply, Request, Route
from penstock.ids import new_id

Action = Callable[[Engine, str, str | None], object]


class CustomSignal(Struct, forbid_unknown_fields=True):
    custom: str


class SignalBody(Struct, forbid_unknown_fields=True):
    """A signal: pause, resume, cancel, update_context, or one of the sequence's own."""

    signal_type: str | CustomSignal
    payload: Any = None


class SignalShape(Struct):
    signal_id: str


class StateBody(Struct, forbid_unknown_fields=True):
    """The state that an instance shall have: cancelled, paused or running."""

    state: str


class ContextBody(Struct, forbid_unknown_fields=True):
    context: dict[str, Any]


async def signal(request: Request) -> Reply:
    """Send a signal; one of the sequence's own that comes early waits for the step that awaits it."""
    body = request.read(SignalBody)
    id_, tenant = request.params["id"], tenant_of(request)
    if isinstance(body.signal_type, CustomSignal):
        name = check_name(body.signal_type.custom, "signal_type.custom")
        payload = _checked("payload", body.payload)
        sent = await request.service.run(lambda engine: engine.signal(id_, name, payload, tenant))
    elif body.signal_type == "update_context":
        if not isinstance(body.payload, dict):
            raise InvalidError("payload", "must be the new context, an object")
        await _set_context(request, body.payload)
        sent = new_id()
    else:
        action = _ACTIONS.get(body.signal_type)
        if action is None:
            names = ", ".join([*_ACTIONS, "update_context"])
            raise InvalidError("signal_type", f'must be one of {names}, or {{"custom": name}}')
        await request.service.run(lambda engine: action(engine, id_, tenant))
        sent = new_id()
    return Reply(SignalShape(sent), 201)


async def set_state(request: Request) -> Reply:
    """Cancel, pause or resume an instance."""
    body = request.read(StateBody)
    action = _BY_STATE.get(body.state)
    if action is None:
        raise InvalidError("state", f"must be one of: {', '.join(_BY_STATE)}")
    return Reply(await _acted(request, action))


async def set_context(request: Request) -> Reply:
    """Replace the context of an instance."""
    body = request.read(ContextBody)
    await _set_context(request, body.context)
    id_, tenant = request.params["id"], tenant_of(request)
    return Reply(shown(await request.service.run(lambda engine: engine.instance(id_, tenant))))


async def _set_context(request: Request, context: dict[str, Any]) -> None:
    text = _checked("context", context)
    id_, tenant = request.params["id"], tenant_of(request)
    await request.service.run(lambda engine: engine.set_context(id_, text, tenant))


def _checked(field: str, value: object) -> str:
    text = encode(value)
    if len(text) > MOST_CONTEXT:
        raise TooLargeError(field, len(text), MOST_CONTEXT)
    return text.decode()


async def _acted(request: Request, action: Action) -> dict[str, Any]:
    id_, tenant = request.params["id"], tenant_of(request)

    def work(engine: Engine) -> dict[str, Any]:
        action(engine, id_, tenant)
        return shown(engine.instance(id_, tenant))

    return await request.service.run(work)


def _acting(action: Action) -> Handler:
    async def handle(request: Request) -> Reply:
        return Reply(await _acted(request, action))

    return handle


_ACTIONS: Final[dict[str, Action]] = {
    "cancel": lambda engine, id_, tenant: engine.cancel_instance(id_, tenant=tenant),
    "pause": lambda engine, id_, tenant: engine.pause_instance(id_, tenant),
    "resume": lambda engine, id_, tenant: engine.resume_instance(id_, tenant),
}
_BY_STATE: Final = {
    "cancelled": _ACTIONS["cancel"],
    "paused": _ACTIONS["pause"],
    "running": _ACTIONS["resume"],
    "scheduled": _ACTIONS["resume"],
}
_ONE: Final = "/instances/{id}"
_TENANT: Final = ("tenant_id",)
ROUTES: Final = (
    *(
        Route("POST", f"{_ONE}/{name}", _acting(action), PRODUCERS, f"{name.capitalize()} an instance",
              InstanceShape, query=_TENANT)
        for name, action in _ACTIONS.items()
    ),
    Route("POST", f"{_ONE}/retry", _acting(lambda engine, id_, tenant: engine.retry_instance(id_, tenant)),
          PRODUCERS, "Let an instance that failed go on from where it failed", InstanceShape, query=_TENANT),
    Route("POST", f"{_ONE}/signals", signal, PRODUCERS, "Send a signal", SignalShape, SignalBody, 201,
          query=_TENANT),
    Route("PATCH", f"{_ONE}/state", set_state, PRODUCERS, "Cancel, pause or resume an instance", InstanceShape,
          StateBody, query=_TENANT),
    Route("PATCH", f"{_ONE}/context", set_context, PRODUCERS, "Replace the context of an instance",
          InstanceShape, ContextBody, query=_TENANT),
)  # fmt: skip
