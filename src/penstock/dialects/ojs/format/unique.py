"""The spec's uniqueness policies, and the engine's."""

import hashlib
from typing import Any, Final

import msgspec

from penstock.dialects.ojs.format.names import span
from penstock.dialects.ojs.format.requests import JobBody, UniqueBody
from penstock.dialects.ojs.format.states import ENGINE_STATES, USED_STATES
from penstock.errors import InvalidError
from penstock.lifecycle.states import LIVE, State
from penstock.lifecycle.unique import OnDuplicate, Unique

_encode: Final = msgspec.json.Encoder(order="sorted").encode
_CONFLICT: Final = {"reject": OnDuplicate.REJECT, "ignore": OnDuplicate.REUSE, "replace": OnDuplicate.REPLACE}
_STATES: Final = {
    **{
        spec: tuple(State(name) for name in ENGINE_STATES[spec])
        for spec in USED_STATES
        if spec != "retryable"
    },
    "retryable": (State.SCHEDULED,),
    "pending": (State.WAITING,),
}
_DIMENSIONS: Final = ("type", "queue", "args", "meta")


def unique_of(body: UniqueBody | None, job: JobBody, meta: dict[str, Any], queue: str) -> Unique | None:
    """Return what makes the job one of its kind."""
    if body is None:
        return None
    keys = body.keys if body.keys is not None else body.key
    dimensions = [keys] if isinstance(keys, str) else keys if keys is not None else ["type", "args"]
    values = {name: _value(name, body, job, meta, queue) for name in dimensions}
    if body.args_keys:
        values["args"] = _args(body, job)
    if body.meta_keys:
        values["meta"] = {name: meta.get(name) for name in body.meta_keys}
    digest = hashlib.sha256(_encode(values)).hexdigest()[:32]
    return Unique(
        f"ojs:{job.type if 'type' in values else '*'}:{digest}",
        _states(body.states),
        None if body.period is None else span(body.period, "options.unique.period"),
        _CONFLICT[body.on_conflict],
    )


def _value(name: str, body: UniqueBody, job: JobBody, meta: dict[str, Any], queue: str) -> object:
    match name:
        case "type":
            return job.type
        case "queue":
            return queue
        case "args":
            return _args(body, job)
        case "meta":
            return {each: meta.get(each) for each in body.meta_keys} if body.meta_keys else meta
        case _:
            known = ", ".join(_DIMENSIONS)
            raise InvalidError("options.unique.keys", f"{name!r} is not known; known are: {known}")


def _args(body: UniqueBody, job: JobBody) -> object:
    if not body.args_keys:
        return job.args
    first = job.args[0] if job.args and isinstance(job.args[0], dict) else {}
    return {name: first.get(name) for name in body.args_keys}


def _states(names: list[str] | None) -> frozenset[State]:
    if names is None:
        return LIVE
    for name in names:
        if name not in _STATES:
            raise InvalidError(
                "options.unique.states", f"{name!r} is not known; known are: {', '.join(_STATES)}"
            )
    return frozenset(state for name in names for state in _STATES[name])
