"""Gates: those that keep most jobs waiting, or all of them by name."""

from typing import Final

from msgspec import Struct

from penstock.job import Count, GateLook, Place
from penstock.monitor.page import View
from penstock.monitor.requests import Query

ORDERS: Final = ("pressure", "name")


class GateRow(Struct):
    """A gate, and about when its line is through (None: unknown)."""

    gate: GateLook
    clears: int | None


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
        chosen = [row(gate, view.now) for gate in found if gate.key.startswith(prefix)]
        return Gates(order, prefix, tenant, total, chosen)
    key = query.text("after")
    after = None if key is None else Place(query.text("after_tenant") or "", key)
    page = view.engine.gate_page(tenant=tenant, prefix=prefix, after=after)
    return Gates(order, prefix, tenant, total, [row(gate, view.now) for gate in page.gates], page.after)


def row(gate: GateLook, now: int) -> GateRow:
    """Return a gate, and about when its line is through as far as the clock decides it."""
    return GateRow(gate, clears(gate, now))


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
