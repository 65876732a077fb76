"""Actions on gates: configure, override, clear, pause, resume, shut until."""

from collections.abc import Mapping
from typing import Final

from penstock.errors import InvalidError, NotFoundError
from penstock.job import Count, GateView
from penstock.limits.rules import UNLIMITED
from penstock.monitor.actions.action import Action, Order
from penstock.monitor.actions.fields import (
    TENANT,
    Field,
    as_key,
    as_span,
    numbers_fields,
    numbers_in,
    numbers_written,
)

_NAMES: Final = (Field("key", "Key", as_key, needed=True), TENANT)


def _touches(order: Order) -> Count:
    return order.engine.touched_by_gate(order.values["key"], order.tenant)


def _gate(order: Order) -> GateView | None:
    try:
        return order.engine.gate(order.values["key"], order.tenant)
    except NotFoundError:
        return None


def _configured(order: Order) -> Mapping[str, str]:
    gate = _gate(order)
    return {} if gate is None else numbers_written(gate.configured)


def _in_force(order: Order) -> Mapping[str, str]:
    gate = _gate(order)
    return {} if gate is None else numbers_written(gate.numbers)


def _configure(order: Order) -> None:
    numbers = numbers_in(order.values)
    wanted = None if numbers == UNLIMITED else numbers
    order.engine.configure("key", order.values["key"], wanted, tenant=order.tenant)


def _override(order: Order) -> None:
    numbers = numbers_in(order.values)
    if numbers == UNLIMITED:
        raise InvalidError("slots", "give at least one of slots, rate and throttle")
    span = order.values["for"]
    until = None if span is None else order.now + span
    order.engine.override(order.values["key"], numbers, until=until, tenant=order.tenant)


def _clear(order: Order) -> None:
    order.engine.clear_override(order.values["key"], tenant=order.tenant)


def _pause(order: Order) -> None:
    order.engine.pause_gate(order.values["key"], tenant=order.tenant)


def _resume(order: Order) -> None:
    order.engine.resume_gate(order.values["key"], tenant=order.tenant)


def _shut(order: Order) -> None:
    until = order.now + order.values["for"]
    order.engine.shut(order.values["key"], until, tenant=order.tenant, reason=order.reason)


ACTIONS: Final = (
    Action(
        "/gates/configure", "gate", "Configure", "Configure a gate",
        "These numbers rule the key for all jobs, in place of those that jobs bring. "
        "With all three empty its jobs bring their own again.",
        "The gate is configured.", "/gates", _configure, _NAMES, numbers_fields(), _touches, _configured,
    ),
    Action(
        "/gates/override", "gate", "Override", "Override a gate",
        "These numbers beat all others, until then or until they are cleared.",
        "The override is in force.", "/gates", _override, _NAMES,
        (*numbers_fields(), Field("for", "For how long", as_span, "such as 15m or 2h; empty: until it is cleared")),
        _touches, _in_force,
    ),
    Action(
        "/gates/clear", "gate", "Clear", "Clear a gate",
        "An override ends, and so does a time until which the gate is shut.",
        "The override is cleared.", "/gates", _clear, _NAMES, touches=_touches,
    ),
    Action(
        "/gates/pause", "gate", "Pause", "Pause a gate",
        "Nothing starts at this key until it is resumed; what runs goes on. An override in force is replaced.",
        "The gate is paused.", "/gates", _pause, _NAMES, touches=_touches,
    ),
    Action(
        "/gates/resume", "gate", "Resume", "Resume a gate",
        "Jobs start at this key again, by its other numbers.",
        "The gate is resumed.", "/gates", _resume, _NAMES, touches=_touches,
    ),
    Action(
        "/gates/shut", "gate", "Shut for a while", "Shut a gate for a while",
        "Nothing starts at this key until then; what runs goes on. A later moment that was set before stays.",
        "The gate is shut for a while.", "/gates", _shut, _NAMES,
        (Field("for", "For how long", as_span, "such as 15m or 2h", needed=True),), _touches,
    ),
)  # fmt: skip
