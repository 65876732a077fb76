"""Jobs that wait for each other: chains, groups, batches with callbacks, and steps in any order."""

from typing import Any, Final

from msgspec import Struct

from penstock.dialects.ojs.format.names import written
from penstock.dialects.ojs.format.paging import OFFSETS, page_of
from penstock.dialects.ojs.format.workflow_steps import CALLBACKS, StepReader, WorkflowBody
from penstock.errors import NotFoundError
from penstock.http.access import JOBS, PRODUCERS
from penstock.http.codec import decode, encode
from penstock.http.routes import Reply, Request, Route
from penstock.http.tenancy import check_shared
from penstock.job import NewWorkflow, StepView, WorkflowView
from penstock.workflows import StepState, WorkflowState

PER_PAGE: Final = 50
_STEPS: Final = {
    StepState.WAITING: "waiting",
    StepState.RUNNING: "active",
    StepState.DONE: "completed",
    StepState.FAILED: "failed",
    StepState.CANCELLED: "cancelled",
    StepState.SKIPPED: "skipped",
}


class MetadataShape(Struct, omit_defaults=True):
    """A workflow's times, and how many of its jobs ended how."""

    created_at: str
    job_count: int
    completed_count: int
    failed_count: int
    started_at: str | None = None
    completed_at: str | None = None
    cancelled_at: str | None = None


class WorkflowShape(Struct):
    id: str
    type: str
    name: str
    state: str
    steps_total: int
    steps_completed: int
    jobs_total: int
    jobs_completed: int
    created_at: str
    metadata: MetadataShape


class WorkflowAnswer(WorkflowShape):
    workflow: WorkflowShape


class WorkflowsAnswer(Struct):
    workflows: list[WorkflowShape]


async def start(request: Request) -> Reply:
    """Start a workflow."""
    body = request.read(WorkflowBody)
    steps = StepReader(request.tenant, request.now).steps(body, request.fields())
    kind = "dag" if body.type in (None, "workflow") else str(body.type)
    meta = encode(body.meta or {}).decode()
    new = NewWorkflow(steps, kind, body.name, request.owner, None, meta)
    check_shared(request, [step.job for step in steps])
    view = await request.service.run(lambda engine: engine.start_workflow(new))
    return Reply(_answer(view), 201, {"Location": f"/ojs/v1/workflows/{view.id}"})


async def info(request: Request) -> Reply:
    """Return a workflow."""
    return Reply(_answer(await _own(request)))


async def cancel(request: Request) -> Reply:
    """Cancel a workflow: no step of it starts any more."""
    own = await _own(request)
    return Reply(_answer(await request.service.run(lambda engine: engine.cancel_workflow(own.id))))


async def listing(request: Request) -> Reply:
    """Return workflows, newest first."""
    page = page_of(request, PER_PAGE)
    found, total = await request.service.run(
        lambda engine: engine.workflows(request.tenant, page.offset, page.limit)
    )
    workflows = [shown(view) for view in found]
    return Reply({"workflows": workflows, "items": workflows, "pagination": page.shown(total)})


async def _own(request: Request) -> WorkflowView:
    id_ = request.params["id"]
    view = await request.service.run(lambda engine: engine.workflow(id_))
    if request.tenant is not None and view.tenant != request.tenant:
        raise NotFoundError("workflow", id_)
    return view


def _answer(view: WorkflowView) -> dict[str, Any]:
    workflow = shown(view)
    return {**workflow, "workflow": workflow}


def shown(view: WorkflowView) -> dict[str, Any]:
    """Return a workflow the way the spec writes it."""
    workflow: dict[str, Any] = {
        "id": view.id,
        "type": view.kind,
        "name": view.name,
        "state": view.state.value,
        "steps_total": view.steps_total,
        "steps_completed": view.steps_completed,
        "jobs_total": view.jobs_total,
        "jobs_completed": view.jobs_completed,
        "created_at": written(view.created),
        "metadata": _metadata(view),
    }
    if view.steps:
        workflow["steps"] = [_step(step) for step in view.steps]
    if view.finished is not None:
        workflow["completed_at"] = written(view.finished)
    meta = decode(view.meta)
    if meta:
        workflow["meta"] = meta
    if view.tenant:
        workflow["tenant_id"] = view.tenant
    return workflow


def _metadata(view: WorkflowView) -> MetadataShape:
    ended = None if view.finished is None else written(view.finished)
    return MetadataShape(
        written(view.created),
        view.jobs_total,
        view.jobs_completed,
        view.steps_failed,
        None if view.started is None else written(view.started),
        ended,
        ended if view.state is WorkflowState.CANCELLED else None,
    )


def _step(step: StepView) -> dict[str, Any]:
    one: dict[str, Any] = {
        "id": step.id,
        "type": step.task,
        "queue": step.queue,
        "state": _STEPS[step.state],
        "depends_on": list(step.depends_on),
    }
    if step.job_id is not None:
        one["job_id"] = step.job_id
    if step.callback:
        one["callback_type"] = next(name for name, when in CALLBACKS.items() if when is step.when)
    return one


ROUTES = (
    Route("POST", "/workflows", start, PRODUCERS, "Start a workflow", WorkflowAnswer, WorkflowBody, 201),
    Route("GET", "/workflows", listing, JOBS, "List workflows", WorkflowsAnswer, query=OFFSETS),
    Route("GET", "/workflows/{id}", info, JOBS, "Look at a workflow", WorkflowAnswer),
    Route("DELETE", "/workflows/{id}", cancel, PRODUCERS, "Cancel a workflow", WorkflowAnswer),
)
