"""Gates: those that keep most jobs waiting, or all of them by name."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from penstock.job import Count, GateLook, Past, Place
from penstock.limits.gate import Rules
from penstock.limits.rules import Numbers
from penstock.monitor.lookback import pace
from penstock.monitor.page import View
from penstock.monitor.requests import Query

ORDERS: Final = ("pressure", "name")


class GateRow(Struct):
    """A gate, and about when its line is through (None: unknown).

    *starts* is how many jobs started in each of the last minutes, *trend* how many it kept in each of the last hour.
    """

    gate: GateLook
    clears: int | None
    starts: float
    trend: list[float]


class Cleared(Struct):
    """The numbers that would be in force without an override, and about when the line would be through."""

    numbers: Numbers
    clears: int


class Gates(Struct):
    """A list of gates; *after* is where it goes on."""

    order: str
    prefix: str
    tenant: str | None
    total: Count
    gates: list[GateRow]
    after: Place | None = None


def show(view: View, query: Query) -> Gates:
    """Return the gates in an order, perhaps of one tenant, or whose keys begin alike."""
    prefix = query.text("prefix") or ""
    tenant = view.tenant if view.tenant is not None else query.text("tenant")
    order = query.choice("order", ORDERS) or ("name" if prefix else "pressure")
    total = view.engine.gates_counted(tenant=tenant)
    if order == "pressure":
        found = view.engine.gates_under_pressure(tenant=tenant)
        chosen = rows(view, [gate for gate in found if gate.key.startswith(prefix)])
        return Gates(order, prefix, tenant, total, chosen)
    key = query.text("after")
    after = None if key is None else Place(query.text("after_tenant") or "", key)
    page = view.engine.gate_page(tenant=tenant, prefix=prefix, after=after)
    return Gates(order, prefix, tenant, total, rows(view, page.gates), page.after)


def rows(view: View, gates: Sequence[GateLook]) -> list[GateRow]:
    """Return gates, about when their lines are through as far as the clock decides it, and how they did."""
    return rows_of(view, gates, view.engine.gates_past(places(gates)))


def places(gates: Sequence[GateLook]) -> list[Place]:
    """Return what gates are called."""
    return [Place(gate.tenant, gate.key) for gate in gates]


def rows_of(view: View, gates: Sequence[GateLook], pasts: Sequence[Past]) -> list[GateRow]:
    """Return gates, given how they did."""
    return [
        GateRow(gate, clears(gate, view.now), pace(past), [moment.kept for moment in past.moments])
        for gate, past in zip(gates, pasts, strict=True)
    ]


def clears(gate: GateLook, now: int) -> int | None:
    """Return about when the jobs that a gate keeps will have started, if its rate or its throttle decides that."""
    numbers, held = gate.numbers, gate.held or gate.waiting
    if not held.number or held.more or gate.opens_at is None or numbers.slots is not None:
        return None
    ends = [gate.opens_at]
    if numbers.throttle is not None and numbers.throttle.limit:
        ends.append(gate.opens_at + (held.number - 1) * numbers.throttle.gap)
    if numbers.rate is not None and numbers.rate.limit:
        rounds = max(-(-(held.number + gate.recent) // numbers.rate.limit) - 1, 0)
        ends.append(now + rounds * numbers.rate.period)
    return max(ends)


def if_cleared(gate: GateLook, now: int) -> Cleared | None:
    """Return what would be without a gate's override, as far as the clock decides it."""
    if gate.override is None or gate.shut_until is not None:
        return None
    numbers = Rules(gate.configured, gate.floating).effective(gate.own, now)
    at = clears(replace(gate, numbers=numbers), now)
    return None if at is None else Cleared(numbers, at)
