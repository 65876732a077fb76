"""Workflows: runs of fixed steps, and instances, which decide as they go; newest first."""

from typing import Final

from msgspec import Struct

from penstock.job import InstanceView, WorkflowView
from penstock.monitor import hidden
from penstock.monitor.page import View
from penstock.monitor.requests import Query

KINDS: Final = ("instances", "steps")


class Run(Struct):
    """One run of a workflow."""

    id: str
    tenant: str
    name: str
    state: str
    reason: str
    created: int
    ended: int | None
    steps: int | None = None
    completed: int | None = None


class Workflows(Struct):
    """Runs of one *kind*; *before* is where the list goes on."""

    kind: str
    runs: list[Run]
    before: int | None


def show(view: View, query: Query) -> Workflows:
    """Return runs of workflows."""
    kind = query.choice("kind", KINDS) or KINDS[0]
    before = query.number("before")
    if kind == "steps":
        page = view.engine.workflow_page(tenant=view.tenant, before=before)
        return Workflows(kind, [_of_steps(each) for each in page.workflows], page.before)
    found = view.engine.instance_page(tenant=view.tenant, before=before)
    return Workflows(kind, [run(hidden.instance(view, each)) for each in found.instances], found.before)


def run(instance: InstanceView) -> Run:
    """Return an instance as a list shows it."""
    return Run(
        instance.id,
        instance.tenant,
        instance.workflow,
        instance.state.value,
        instance.reason,
        instance.created,
        instance.ended,
    )


def _of_steps(view: WorkflowView) -> Run:
    return Run(
        view.id, view.tenant, view.name or view.kind, view.state.value, "", view.created, view.finished,
        view.steps_total, view.steps_completed,
    )  # fmt: skip
