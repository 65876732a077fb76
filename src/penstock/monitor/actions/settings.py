"""Actions on settings: maintenance, during which nothing starts."""

from typing import Final

from penstock.job import Count, Maintenance
from penstock.monitor.actions.action import Action, Order
from penstock.monitor.actions.fields import Field, as_span


def _touches(order: Order) -> Count:
    totals = order.engine.totals()
    return totals.waiting + totals.scheduled


def _begin(order: Order) -> None:
    span = order.values["for"]
    until = None if span is None else order.now + span
    order.engine.set_maintenance(Maintenance(order.now, order.reason, until))


def _end(order: Order) -> None:
    order.engine.set_maintenance(None)


ACTIONS: Final = (
    Action(
        "/settings/begin-maintenance", "maintenance", "Begin maintenance", "Begin maintenance",
        "Nothing starts, from any queue and for any worker, until maintenance ends. Jobs are still added, and those "
        "that run go on.",
        "Maintenance has begun.", "/settings", _begin, (),
        (Field("for", "Expected to last", as_span, "such as 30m: a guess for others, which ends nothing"),),
        _touches, for_all=True,
    ),
    Action(
        "/settings/end-maintenance", "maintenance", "End maintenance", "End maintenance",
        "Jobs start again.",
        "Maintenance has ended.", "/settings", _end, touches=_touches, for_all=True,
    ),
)  # fmt: skip
