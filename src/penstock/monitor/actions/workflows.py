"""Actions on instances, which are runs of workflows with a body, and on flows of calls."""

from typing import Final

from penstock.errors import NotFoundError
from penstock.job import Count, EntryState
from penstock.monitor.actions.action import Action, Order
from penstock.monitor.actions.fields import TENANT, Field, as_text
from penstock.workflows.steps import StepState

_INSTANCE: Final = (Field("id", "Instance", as_text, needed=True), TENANT)
_FLOW: Final = (Field("id", "Flow", as_text, needed=True), TENANT)


def _steps(order: Order) -> Count:
    steps = order.engine.instance(order.values["id"], order.tenant).steps
    return Count(sum(step.state is EntryState.LIVE and step.job_id is not None for step in steps))


def _live(order: Order) -> Count:
    view = order.engine.workflow(order.values["id"])
    _check(order, view.tenant)
    return Count(sum(step.state is StepState.RUNNING for step in view.steps))


def _pause(order: Order) -> None:
    order.engine.pause_instance(order.values["id"], order.tenant)


def _resume(order: Order) -> None:
    order.engine.resume_instance(order.values["id"], order.tenant)


def _cancel(order: Order) -> None:
    order.engine.cancel_instance(order.values["id"], order.reason, order.tenant)


def _retry(order: Order) -> None:
    order.engine.retry_instance(order.values["id"], order.tenant)


def _cancel_flow(order: Order) -> None:
    _check(order, order.engine.workflow(order.values["id"]).tenant)
    order.engine.cancel_workflow(order.values["id"], order.reason)


def _check(order: Order, owner: str) -> None:
    """Raise if a flow is another tenant's: its id is the store's, not a tenant's."""
    if owner != order.tenant:
        raise NotFoundError("flow", order.values["id"])


ACTIONS: Final = (
    Action(
        "/workflows/pause", "instance", "Pause", "Pause an instance",
        "No step of it begins until it is resumed; those that run go on, and its slots stay taken.",
        "The instance is paused.", "/workflows", _pause, _INSTANCE, touches=_steps,
    ),
    Action(
        "/workflows/resume", "instance", "Resume", "Resume an instance",
        "Its steps begin again.",
        "The instance goes on.", "/workflows", _resume, _INSTANCE, touches=_steps,
    ),
    Action(
        "/workflows/cancel", "instance", "Cancel", "Cancel an instance",
        "Its steps that wait are removed; of those that run the workers are asked to stop.",
        "The instance is cancelled, or ends as soon as its steps have.", "/workflows", _cancel, _INSTANCE,
        touches=_steps, grave=True,
    ),
    Action(
        "/workflows/retry", "instance", "Retry", "Retry an instance",
        "It arrives again and goes on from the step that failed.",
        "The instance is in line again.", "/workflows", _retry, _INSTANCE,
    ),
    Action(
        "/flows/cancel", "flow", "Cancel", "Cancel a flow",
        "Its jobs that wait are cancelled; of those that run the workers are asked to stop.",
        "The flow is cancelled.", "/workflows", _cancel_flow, _FLOW, touches=_live, grave=True,
    ),
)  # fmt: skip
