"""One gate: its numbers and where they come from, its window, its line, and who has to do with it."""

from msgspec import Struct

from penstock.job import GateDetail
from penstock.limits.rules import Numbers
from penstock.monitor import drawing, hidden
from penstock.monitor.page import View
from penstock.monitor.pages.gates import clears
from penstock.monitor.requests import Query


class Source(Struct):
    """Numbers that were given for a gate, and by what; *holds* says whether any of them is in force."""

    origin: str
    numbers: Numbers
    holds: bool
    until: int | None = None


class Gate(Struct):
    """One gate.  *window* is how far back its starts are shown, *clears* about when its line is through."""

    detail: GateDetail
    sources: list[Source]
    window: int
    clears: int | None
    elsewhere: int


def show(view: View, query: Query) -> Gate:
    """Return the gate of a key."""
    tenant = view.tenant if view.tenant is not None else query.text("tenant") or ""
    detail = view.engine.gate_detail(query.needed("key"), tenant=tenant)
    detail = hidden.in_line(view, detail)
    return Gate(
        detail,
        _sources(detail),
        drawing.window_of(detail.gate.numbers),
        clears(detail.gate, view.now),
        sum(other.jobs for other in detail.elsewhere),
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
