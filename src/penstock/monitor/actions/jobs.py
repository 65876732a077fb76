"""Actions on one job: retry, cancel, let it be due now, enqueue a copy, forget."""

from typing import Final

from penstock.http.tenancy import check_own
from penstock.monitor.actions.action import Action, Order
from penstock.monitor.actions.fields import TENANT, Field, as_text

_NAMES: Final = (Field("id", "Job", as_text, needed=True), TENANT)


def _retry(order: Order) -> None:
    order.engine.retry(order.values["id"], order.tenant)


def _cancel(order: Order) -> None:
    order.engine.cancel(order.values["id"], order.reason, order.tenant)


def _expedite(order: Order) -> None:
    order.engine.expedite(order.values["id"], order.tenant)


def _copy(order: Order) -> None:
    check_own(order.own, order.engine.job(order.values["id"], order.tenant).limits)
    order.engine.copy_job(order.values["id"], order.tenant)


def _forget(order: Order) -> None:
    order.engine.forget(order.values["id"], order.tenant)


ACTIONS: Final = (
    Action(
        "/jobs/retry", "job", "Retry", "Retry a job",
        "The job arrives again, as a new one would; its attempts so far count no more.",
        "The job is in line again.", "/jobs", _retry, _NAMES,
    ),
    Action(
        "/jobs/cancel", "job", "Cancel", "Cancel a job",
        "A job that waits is cancelled at once; of one that runs the worker is asked to stop.",
        "The job is cancelled, or its worker is asked to stop.", "/jobs", _cancel, _NAMES, grave=True,
    ),
    Action(
        "/jobs/expedite", "job", "Due now", "Let a job be due now",
        "The job stands in line now, whatever it was to wait for; gates are kept.",
        "The job is due.", "/jobs", _expedite, _NAMES,
    ),
    Action(
        "/jobs/copy", "job", "Enqueue a copy", "Enqueue a copy of a job",
        "A new job is enqueued with the same task, arguments, queue, limits and options.",
        "A copy is enqueued.", "/jobs", _copy, _NAMES,
    ),
    Action(
        "/jobs/forget", "job", "Forget", "Forget a job",
        "The job, which has ended, is deleted with all that is known of it.",
        "The job is forgotten.", "/jobs", _forget, _NAMES, grave=True, leads_away=True,
    ),
)  # fmt: skip
