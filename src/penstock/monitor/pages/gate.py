"""One gate: its numbers and where they come from, its window, its line, and who has to do with it."""

from typing import Final

from msgspec import Struct

from penstock.engine.look_minutes import SPANS
from penstock.job import AuditEntry, AuditFilter, GateDetail, Past
from penstock.limits.rules import Numbers
from penstock.monitor import drawing, hidden
from penstock.monitor.limit_past import Limit, limits_over
from penstock.monitor.lookback import span_of
from penstock.monitor.page import View
from penstock.monitor.pages.gates import clears
from penstock.monitor.requests import Query

CHANGES: Final = 20  # of a gate, that are looked at


class Source(Struct):
    """Numbers that were given for a gate, and by what; *holds* says whether any of them is in force."""

    origin: str
    numbers: Numbers
    holds: bool
    until: int | None = None


class Gate(Struct):
    """One gate.  *window* is how far back its starts are shown, *clears* about when its line is through.

    *hour* is what happened in the past hour, *past* in the *last* hour, day or week, in which the *limits* were in
    force; *changes* are the latest of the audit.
    """

    detail: GateDetail
    sources: list[Source]
    window: int
    clears: int | None
    elsewhere: int
    last: str
    hour: Past
    past: Past
    limits: list[Limit]
    changes: list[AuditEntry]


def show(view: View, query: Query) -> Gate:
    """Return the gate of a key."""
    tenant = view.tenant if view.tenant is not None else query.text("tenant") or ""
    engine, key, last = view.engine, query.needed("key"), span_of(query)
    detail = hidden.in_line(view, engine.gate_detail(key, tenant=tenant))
    past = hour = engine.gate_past(key, tenant=tenant)
    if last != "hour":
        name = ("gate", tenant, key, last)
        past = view.remembered.get(
            name, view.now, lambda: engine.gate_past(key, tenant=tenant, last=SPANS[last])
        )
    changes = engine.audit(AuditFilter(kind="gate", subject=key, tenant=tenant), limit=CHANGES)
    return Gate(
        detail,
        _sources(detail),
        drawing.window_of(detail.gate.numbers),
        clears(detail.gate, view.now),
        sum(other.jobs for other in detail.elsewhere),
        last,
        hour,
        past,
        limits_over(detail.gate, changes, past.since, past.until),
        changes,
    )


def _sources(detail: GateDetail) -> list[Source]:
    """Return where the numbers of a gate come from, what counts most first."""
    gate = detail.gate
    found = []
    if gate.override is not None:
        found.append(("override", gate.override, gate.override_until))
    if gate.configured is not None:
        found.append(("configured", gate.configured, None))
    if gate.floating is not None:
        found.append(("floating", Numbers(slots=gate.floating), None))
    if gate.own.text:
        found.append(("jobs bring", gate.own, None))
    return [Source(origin, numbers, _holds(numbers, gate.numbers), until) for origin, numbers, until in found]


def _holds(numbers: Numbers, in_force: Numbers) -> bool:
    """Tell whether one of *numbers* is in force."""
    return (
        (numbers.slots is not None and numbers.slots == in_force.slots)
        or (numbers.rate is not None and numbers.rate == in_force.rate)
        or (numbers.throttle is not None and numbers.throttle == in_force.throttle)
    )
