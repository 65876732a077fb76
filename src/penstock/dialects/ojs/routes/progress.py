"""The progress of a job."""

from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from penstock.dialects.ojs.format.envelope import state_of
from penstock.dialects.ojs.format.names import written
from penstock.dialects.ojs.format.requests import Used
from penstock.dialects.ojs.routes.workers import VISIBILITY
from penstock.engine import Engine
from penstock.errors import InvalidError
from penstock.http.access import JOBS, WORKERS
from penstock.http.codec import decode, encode
from penstock.http.routes import Reply, Request, Route
from penstock.http.tenancy import own
from penstock.job import JobView
from penstock.lifecycle.states import State

WHOLE: Final = 100.0
MOST: Final = 64 * 1024


class ProgressBody(Struct):
    """How far a job is, from 0 to 1; a number outside counts as the nearest of them."""

    progress: float | None = None
    message: Annotated[str, Meta(max_length=10_000)] | None = None
    data: dict[str, Any] | None = None
    percentage: float | None = None
    worker_id: Annotated[str, Meta(max_length=256)] = ""
    used: Used | None = None


class ReportBody(ProgressBody, kw_only=True):
    """The same, with the job."""

    job_id: str


class ProgressAnswer(Struct):
    job_id: str
    state: str
    progress: float | None
    message: str | None


async def report(request: Request) -> Reply:
    """Note how far a job is."""
    return await _note(request, request.params["id"], request.read(ProgressBody))


async def report_by_worker(request: Request) -> Reply:
    """Note how far a job is."""
    body = request.read(ReportBody)
    return await _note(request, body.job_id, body)


async def show(request: Request) -> Reply:
    """Tell how far a job is."""
    return Reply(_shown(await own(request, request.params["id"])))


async def _note(request: Request, job_id: str, body: ProgressBody) -> Reply:
    told = (body.progress, body.percentage, body.data, body.message, body.used)
    if all(each is None for each in told):
        raise InvalidError("progress", "is missing: give progress, percentage, message, data or used")
    view = await own(request, job_id)
    note = _noted(body, view, request.now)
    kept = await request.service.run(lambda engine: _keep(engine, view, body, note))
    # A report that comes too early or too late changes nothing.
    shown = _shown(view if kept is None else kept)
    if kept is None:
        shown |= {
            name: value for name, value in decode(note).items() if name in ("progress", "message", "data")
        }
    return Reply({"acknowledged": True, "recorded": kept is not None, **shown})


def _noted(body: ProgressBody, view: JobView, now: int) -> str:
    """Return how far the job is now; it never goes back."""
    part = body.progress
    if part is None and body.percentage is not None:
        part = body.percentage / WHOLE
    before = _told(view)
    note: dict[str, Any] = {
        "progress": before["progress"],
        "updated_at": written(now),
        "attempt": view.attempt,
    }
    if part is not None:
        note["progress"] = max(min(max(part, 0.0), 1.0), before["progress"] or 0.0)
    if body.message is not None:
        note["message"] = body.message
    if body.data is not None:
        note["data"] = body.data
    text = encode(note).decode()
    if len(text) > MOST:
        raise InvalidError("data", f"is longer than {MOST} characters")
    return text


def _keep(engine: Engine, view: JobView, body: ProgressBody, note: str) -> JobView | None:
    """Keep the report if this worker runs the job, and renew its lease.  None if it is not kept."""
    running = next(iter(engine.attempts([view.id], view.tenant)), None)
    worker = body.worker_id
    if running is None or running.cancel_at or (worker and running.worker and worker != running.worker):
        return None
    if body.used is not None:
        engine.spend([(running.seq, running.fence, body.used)])
    if not engine.progress(running.seq, running.fence, note):
        return None
    engine.heartbeat([(running.seq, running.fence)], lease=running.own_lease or VISIBILITY)
    return engine.job(view.id, view.tenant)


def _told(view: JobView) -> dict[str, Any]:
    """Return what was reported of this attempt; a worker of another kind may have reported anything."""
    if view.progress is None:
        return {"progress": None}
    told = decode(view.progress)
    if isinstance(told, dict) and "progress" in told:
        return told if told.pop("attempt", view.attempt) == view.attempt else {"progress": None}
    return {"progress": told} if isinstance(told, int | float) else {"progress": None, "data": told}


def _shown(view: JobView) -> dict[str, Any]:
    told = _told(view)
    part = 1.0 if view.state is State.DONE and view.progress is not None else told["progress"]
    shown = {
        "job_id": view.id,
        "id": view.id,
        "state": state_of(view),
        "progress": part,
        "message": None,
        "data": None,
    }
    shown |= {name: value for name, value in told.items() if name != "progress"}
    if part is not None:
        shown["percentage"] = round(part * WHOLE, 6)
    return shown


ROUTES = (
    Route("PUT", "/jobs/{id}/progress", report, WORKERS, "How far a job is", ProgressAnswer, ProgressBody),
    Route("GET", "/jobs/{id}/progress", show, JOBS, "Ask how far a job is", ProgressAnswer),
    Route(
        "POST", "/workers/progress", report_by_worker, WORKERS, "How far a job is", ProgressAnswer, ReportBody
    ),
)
