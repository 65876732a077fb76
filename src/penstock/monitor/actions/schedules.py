"""Actions on schedules: enable, disable, fire."""

from typing import Final

from penstock.http.tenancy import check_own
from penstock.monitor.actions.action import Action, Order, no_job
from penstock.monitor.actions.fields import TENANT, Field, as_text

_NAMES: Final = (Field("schedule", "Schedule", as_text, needed=True), TENANT)


def _enable(order: Order) -> None:
    order.engine.resume_schedule(order.values["schedule"], order.tenant)


def _disable(order: Order) -> None:
    order.engine.pause_schedule(order.values["schedule"], order.tenant)


def _fire(order: Order) -> None:
    check_own(order.own, order.engine.schedule(order.values["schedule"], order.tenant).job.limits)
    order.engine.fire_schedule(order.values["schedule"], order.tenant)


ACTIONS: Final = (
    Action(
        "/schedules/enable", "schedule", "Enable", "Enable a schedule",
        "It fires again, from its next moment on.",
        "The schedule is enabled.", "/schedules", _enable, _NAMES, touches=no_job,
    ),
    Action(
        "/schedules/disable", "schedule", "Disable", "Disable a schedule",
        "It fires no more until it is enabled; its jobs stay.",
        "The schedule is disabled.", "/schedules", _disable, _NAMES, touches=no_job,
    ),
    Action(
        "/schedules/fire", "schedule", "Fire now", "Fire a schedule now",
        "Its job is enqueued now, besides those of its moments.",
        "The schedule has fired.", "/schedules", _fire, _NAMES,
    ),
)  # fmt: skip
