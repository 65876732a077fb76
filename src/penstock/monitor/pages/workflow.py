"""One run of a workflow, with its steps."""

from typing import Final

from msgspec import Struct

from penstock.errors import NotFoundError
from penstock.job import EntryView, InstanceView, StepView, Why
from penstock.monitor import hidden
from penstock.monitor.page import View
from penstock.monitor.pages.workflows import Run, run
from penstock.monitor.requests import Query

SHOWN: Final = 500  # steps


class Workflow(Struct):
    """One run: an instance with its memo, or one of fixed steps.  Arguments are None where they are hidden."""

    run: Run
    args: str | None
    result: str | None
    why: Why | None
    memo: list[EntryView]
    steps: list[StepView]
    more: bool  # whether there are more steps than are shown


def show(view: View, query: Query) -> Workflow:
    """Return the run that has an id."""
    id_ = query.needed("id")
    tenant = view.tenant if view.tenant is not None else query.text("tenant")
    try:
        return _instance(view, view.engine.instance(id_, tenant))
    except NotFoundError:
        return _of_steps(view, id_)


def _instance(view: View, found: InstanceView) -> Workflow:
    secret = hidden.is_hidden(view, found.meta)
    found = hidden.instance(view, found)
    why = view.engine.why(found.id, found.tenant) if found.ended is None else None
    memo = [entry for entry in found.steps if entry.kind != "frame"][:SHOWN]
    return Workflow(
        run(found), None if secret else found.args, found.result, why, memo, [], more=len(found.steps) > SHOWN
    )


def _of_steps(view: View, id_: str) -> Workflow:
    found = view.engine.workflow(id_)
    if view.tenant not in (None, found.tenant):
        raise NotFoundError("workflow", id_)
    shown = Run(
        found.id, found.tenant, found.name or found.kind, found.state.value, "", found.created, found.finished,
        found.steps_total, found.steps_completed,
    )  # fmt: skip
    return Workflow(shown, None, None, None, [], list(found.steps[:SHOWN]), more=len(found.steps) > SHOWN)
