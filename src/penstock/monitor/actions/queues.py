"""Actions on queues: pause, resume, bound."""

from collections.abc import Mapping
from typing import Final

from penstock.errors import InvalidError
from penstock.job import Bound, Count, OnFull
from penstock.monitor.actions.action import Action, Order, no_job
from penstock.monitor.actions.fields import TENANT, Field, as_number, as_text, one_of

_FULL: Final = tuple(each.value for each in OnFull)
_MOST_WARNING: Final = 100  # percent
_NAMES: Final = (Field("queue", "Queue", as_text, needed=True), TENANT)


def _touches(order: Order) -> Count:
    return order.engine.touched_by_queue(order.values["queue"], order.tenant)


def _pause(order: Order) -> None:
    order.engine.pause(order.values["queue"], tenant=order.tenant)


def _resume(order: Order) -> None:
    order.engine.resume(order.values["queue"], tenant=order.tenant)


def _bounded(order: Order) -> Mapping[str, str]:
    bound = order.engine.bounds().get((order.tenant, order.values["queue"]))
    if bound is None:
        return {}
    warning = "" if bound.warning is None else str(round(bound.warning * 100))
    return {"most": str(bound.max_depth), "full": bound.strategy.value, "warning": warning}


def _bound(order: Order) -> None:
    most, warning = order.values["most"], order.values["warning"]
    if warning is not None and not 1 <= warning <= _MOST_WARNING:
        raise InvalidError("warning", f"{warning} must be from 1 to {_MOST_WARNING} percent")
    if most is None and warning is not None:
        raise InvalidError("warning", "needs a bound")
    part = None if warning is None else warning / 100
    bound = None if most is None else Bound(most, OnFull(order.values["full"] or OnFull.REJECT), part)
    order.engine.bound(order.values["queue"], bound, tenant=order.tenant)


ACTIONS: Final = (
    Action(
        "/queues/pause", "queue", "Pause", "Pause a queue",
        "Nothing starts from this queue until it is resumed; what runs goes on. Without a tenant it is the queue of "
        "that name of every tenant.",
        "The queue is paused.", "/queues", _pause, _NAMES, touches=_touches,
    ),
    Action(
        "/queues/resume", "queue", "Resume", "Resume a queue",
        "Jobs start from this queue again.",
        "The queue is resumed.", "/queues", _resume, _NAMES, touches=_touches,
    ),
    Action(
        "/queues/bound", "queue", "Bound", "Bound a queue",
        "So many jobs may wait in this queue; those that wait already stay. Empty: as many as come.",
        "The bound is set.", "/queues", _bound, _NAMES,
        (
            Field("most", "At most", as_number, "jobs that wait or are scheduled, such as 10000"),
            Field("full", "When it is full", one_of(*_FULL), "", among=_FULL),
            Field("warning", "Warn from", as_number, "percent of it, such as 80"),
        ),
        no_job, _bounded,
    ),
)  # fmt: skip
