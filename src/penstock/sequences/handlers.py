"""Handlers that the engine runs itself, within the transaction: no job, no worker.

`sleep` and `wait_for_event` are a timer and a wait.  Every other name is the task of a job; the server runs those of
`http_request`, `emit_event` and `send_signal`.  An event is a signal called `event:NAME`: `wait_for_event` awaits it,
and the job of `emit_event` sends it to the instances that it is meant for.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeVar

from penstock.errors import InvalidError
from penstock.job import Await, EntryState, Timer
from penstock.lifecycle.nesting import TOO_DEEP, is_deep
from penstock.sequences.memory import Outcome
from penstock.sequences.reading import name, some_time, span
from penstock.sequences.run import Run
from penstock.sequences.scope import state_key
from penstock.sequences.values import BlockError, from_json, is_true, to_json, to_text

Params = Mapping[str, object]
T = TypeVar("T")
EVENT: Final = "event:"
# What a server runs itself, whatever queue a step names; other workers would not know these tasks.
TAKE_START: Final = "penstock.take_start"  # does nothing: its start is that of a handler inside the engine
SERVED: Final = frozenset({"http_request", "emit_event", "send_signal", TAKE_START})
SERVER_QUEUE: Final = "penstock.server"
LARGEST_PARAMS: Final = 1024 * 1024  # characters of JSON
_MOST_KEYS: Final = 1_000


class Answer(NamedTuple):
    """The value that a handler came to."""

    value: object


class FailedError(BlockError):
    """The handler `fail` was asked to fail, or an assertion does not hold; *kind* says which."""

    def __init__(self, message: str, kind: str) -> None:
        super().__init__(message)
        self.kind = kind


class ParamError(BlockError):
    """A handler was given what it cannot use."""


def params_text(given: Params, what: str = "params") -> str:
    """Return what a handler or a child is *given* as JSON, or raise if it is too large or too deep."""
    text = to_json(given)
    if len(text) > LARGEST_PARAMS:
        raise ParamError(f"{what}: has {len(text):,} characters; at most {LARGEST_PARAMS:,} are allowed")
    if is_deep(f"[{text}]"):  # what keeps them adds a level
        raise ParamError(f"{what}: {TOO_DEEP}")
    return text


def run_inside(run: Run, key: str, handler: str, params: Params) -> Outcome | Timer | Await | None:
    """Return what a handler of the engine comes to at *key*, or what it waits for; None for any other handler."""
    handle = _HANDLERS.get(handler)
    if handle is None:
        return None
    done = handle(run, key, params)
    return Outcome(EntryState.DONE, to_json(done.value)) if isinstance(done, Answer) else done


def runs_inside(handler: str) -> bool:
    """Tell whether the engine runs a handler itself."""
    return handler in _HANDLERS


def failure(kind: str, message: str) -> Outcome:
    """Return the end of a block that failed inside the engine."""
    return Outcome(EntryState.FAILED, error=to_json({"kind": kind, "message": message}))


def failed_with(error: BlockError) -> Outcome:
    """Return the end of a block that *error* failed."""
    kind = error.kind if isinstance(error, FailedError) else type(error).__name__
    return failure(kind, str(error))


def _noop(_run: Run, _key: str, _params: Params) -> Answer:
    return Answer({})


def _echo(_run: Run, _key: str, params: Params) -> Answer:
    return Answer(params)


def _fail(_run: Run, _key: str, params: Params) -> Answer:
    raise FailedError(
        to_text(params.get("message", "failed on purpose")), to_text(params.get("kind", "Failed"))
    )


def _assert(_run: Run, _key: str, params: Params) -> Answer:
    if not is_true(params["condition"]):
        raise FailedError(to_text(params.get("message", "the condition does not hold")), "AssertionFailed")
    return Answer({})


def _sleep(_run: Run, key: str, params: Params) -> Timer:
    given = [field for field in ("duration", "duration_ms") if params.get(field) is not None]
    if not given:
        raise ParamError("sleep needs a duration")
    return Timer(key, after=_read(span, params[given[0]], given[0]))


def _wait_for_event(_run: Run, key: str, params: Params) -> Await:
    event = _read(name, params.get("event") or params.get("name"), "event")
    timeout = params.get("timeout")
    after = None if timeout is None else _read(some_time, timeout, "timeout")
    return Await(key, f"{EVENT}{event}", after)


def _set_state(run: Run, _key: str, params: Params) -> Answer:
    key, value = _state_name(params.get("key")), params.get("value")
    run.save(state_key(key), Outcome(EntryState.DONE, to_json(value)))
    return Answer({"key": key, "value": value})


def _get_state(run: Run, _key: str, params: Params) -> Answer:
    key = _state_name(params.get("key"))
    value = _stored(run, key)
    return Answer({"key": key, "value": params.get("default") if value is None else value})


def _delete_state(run: Run, _key: str, params: Params) -> Answer:
    key = _state_name(params.get("key"))
    known = _stored(run, key) is not None
    if known:
        run.save(state_key(key), Outcome(EntryState.SKIPPED))
    return Answer({"key": key, "deleted": known})


def _merge_state(run: Run, _key: str, params: Params) -> Answer:
    """Put each of *values* into the state; with a *key*, into the object that is there."""
    values = params.get("values", params.get("value"))
    if not isinstance(values, dict) or len(values) > _MOST_KEYS:
        raise ParamError(f"merge_state needs values: an object of at most {_MOST_KEYS:,}")
    if params.get("key") is None:
        for key, value in values.items():
            run.save(state_key(_state_name(key)), Outcome(EntryState.DONE, to_json(value)))
        return Answer({"keys": list(values)})
    key = _state_name(params["key"])
    before = _stored(run, key)
    merged = {**(before if isinstance(before, dict) else {}), **values}
    run.save(state_key(key), Outcome(EntryState.DONE, params_text(merged, "state")))
    return Answer({"key": key, "value": merged})


def _stored(run: Run, key: str) -> object:
    entry = run.entry(state_key(key))
    return None if entry is None else from_json(entry.result)


def _state_name(value: object) -> str:
    return _read(name, value, "key")


def _read(read: Callable[[object, str], T], value: object, field: str) -> T:
    try:
        return read(value, field)
    except InvalidError as error:
        raise ParamError(str(error)) from None


_HANDLERS: Final[dict[str, Callable[[Run, str, Params], Answer | Timer | Await]]] = {
    "noop": _noop,
    "log": _echo,
    "transform": _echo,
    "fail": _fail,
    "assert": _assert,
    "sleep": _sleep,
    "wait_for_event": _wait_for_event,
    "set_state": _set_state,
    "get_state": _get_state,
    "delete_state": _delete_state,
    "merge_state": _merge_state,
}
