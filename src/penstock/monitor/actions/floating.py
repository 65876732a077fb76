"""Actions on floating limits: have one refreshed."""

from typing import Final

from penstock.job import Count
from penstock.monitor.actions.action import Action, Order
from penstock.monitor.actions.fields import TENANT, Field, as_key

_NAMES: Final = (Field("key", "Key", as_key, needed=True), TENANT)


def _touches(order: Order) -> Count:
    return order.engine.touched_by_gate(order.values["key"], order.tenant)


def _refresh(order: Order) -> None:
    order.engine.refresh_floating(order.values["key"], tenant=order.tenant)


ACTIONS: Final = (
    Action(
        "/floating/refresh", "floating", "Refresh", "Refresh a floating limit",
        "The next worker that can computes its number of slots, in use or not.",
        "The floating limit is refreshed as soon as a worker asks.", "/floating", _refresh, _NAMES, touches=_touches,
    ),
)  # fmt: skip
