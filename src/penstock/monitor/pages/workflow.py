"""One run of a workflow, with its steps."""

from typing import Final

from msgspec import Struct

from penstock.errors import NotFoundError
from penstock.job import EntryView, InstanceState, InstanceView, StepView, Why
from penstock.monitor import hidden
from penstock.monitor.page import View
from penstock.monitor.pages.job import Part
from penstock.monitor.pages.workflows import Run, run
from penstock.monitor.requests import Query

SHOWN: Final = 500  # steps


class Facts(Struct):
    """What else is known of an instance."""

    queue: str
    priority: int
    due: int | None
    started: int | None
    needs: list[str]  # the keys of its limits
    parent: str | None


class Workflow(Struct):
    """One run: an instance with its memo and its life, or one of fixed steps.  Arguments that are hidden are None."""

    run: Run
    facts: Facts | None
    life: list[Part]
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
    args = None if secret else found.args
    limits = [limit.key for limit in found.limits]
    facts = Facts(found.queue, found.priority, found.due, found.started, limits, found.parent)
    parts = life(found, view.now)
    return Workflow(
        run(found), facts, parts, args, found.result, why, memo, [], more=len(found.steps) > SHOWN
    )


def life(found: InstanceView, now: int) -> list[Part]:
    """Return the parts of an instance's life, from its creation until now or its end."""
    end = now if found.ended is None else found.ended
    begun = end if found.started is None else min(found.started, end)
    due = min(max(found.due or 0, found.created), begun)
    well = found.state not in (InstanceState.FAILED, InstanceState.CANCELLED)
    behind = f"for {', '.join(limit.key for limit in found.limits)}" if found.limits else ""
    parts = [
        Part("rest", found.created, due, "until it was due"),
        Part("wait", due, begun, behind),
        Part("run" if well else "bad", begun, end, "and kept its slots" if found.limits else ""),
    ]
    return [part for part in parts if part.begin < part.end]


def _of_steps(view: View, id_: str) -> Workflow:
    found = view.engine.workflow(id_)
    if view.tenant not in (None, found.tenant):
        raise NotFoundError("workflow", id_)
    shown = Run(
        found.id, found.tenant, found.name or found.kind, found.state.value, "", found.created, found.finished,
        found.steps_total, found.steps_completed,
    )  # fmt: skip
    return Workflow(
        shown, None, [], None, None, None, [], list(found.steps[:SHOWN]), more=len(found.steps) > SHOWN
    )
