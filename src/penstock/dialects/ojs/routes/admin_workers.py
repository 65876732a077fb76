"""Workers, as operators see them."""

from typing import Any, Final

from msgspec import Struct

from penstock.dialects.ojs.format.names import written
from penstock.dialects.ojs.format.paging import OFFSETS, page_of
from penstock.dialects.ojs.format.requests import RESTING
from penstock.errors import NotFoundError, WrongStateError
from penstock.http.access import JOBS, OPERATORS
from penstock.http.routes import Handler, Reply, Request, Route
from penstock.http.worker_directives import RUNNING, directive, set_directive
from penstock.http.worker_registry import STALE, KnownWorker, WorkerRegistry


class WorkerShape(Struct):
    id: str
    state: str
    active_jobs: int
    last_heartbeat_at: str


class WorkerSummary(Struct):
    total: int
    running: int
    quiet: int
    stale: int


class WorkersAnswer(Struct):
    items: list[WorkerShape]
    summary: WorkerSummary


class AskedAnswer(Struct):
    id: str
    directive: str


class WorkerHealth(Struct):
    worker_id: str
    state: str


async def listing(request: Request) -> Reply:
    """Return the workers that were heard from."""
    page, members = page_of(request), request.service.part(WorkerRegistry).of(request.tenant)
    shown = [await _shown(request, member) for member in members]
    states = [one["state"] for one in shown]
    summary = {
        "total": len(states),
        "running": sum(state not in (*RESTING, "stale") for state in states),
        "quiet": sum(state in RESTING for state in states),
        "stale": states.count("stale"),
    }
    return Reply({"items": page.of(shown), "summary": summary, "pagination": page.shown(len(shown))})


async def info(request: Request) -> Reply:
    """Return a worker."""
    return Reply(await _shown(request, _found(request)))


async def health(request: Request) -> Reply:
    """Tell whether a worker is alive."""
    member = _found(request)
    shown = await _shown(request, member)
    state = member.state if member.state != RUNNING else shown["state"]
    return Reply({**shown, "worker_id": member.id, "state": state, "healthy": shown["state"] != "stale"})


async def forget(request: Request) -> Reply:
    """Forget a worker that was not heard from for long; its jobs are rescued when their leases run out."""
    member = _found(request)
    if request.now - member.seen <= STALE:
        raise WrongStateError(member.id, member.state, "one that was not heard from for a minute", "worker")
    await set_directive(request, member.tenant, member.id, RUNNING)
    request.service.part(WorkerRegistry).forget(member)
    return Reply({"deleted": True, "id": member.id})


def _asking(wanted: str) -> Handler:
    async def ask(request: Request) -> Reply:
        member = _found(request)
        await set_directive(request, member.tenant, member.id, wanted)
        return Reply({"id": member.id, "worker_id": member.id, "directive": wanted, "state": wanted})

    return ask


def _found(request: Request) -> KnownWorker:
    id_ = request.params["id"]
    member = request.service.part(WorkerRegistry).find(id_, request.tenant)
    if member is None:
        raise NotFoundError("worker", id_)
    return member


async def _shown(request: Request, member: KnownWorker) -> dict[str, Any]:
    wanted = await directive(request, member.tenant, member.id)
    state = member.state if member.state != RUNNING else wanted or RUNNING
    if request.now - member.seen > STALE:
        state = "stale"
    shown: dict[str, Any] = {
        **member.facts,
        "id": member.id,
        "state": state,
        "directive": wanted or RUNNING,
        "active_jobs": member.active,
        "started_at": written(member.began),
        "last_heartbeat_at": written(member.beat or member.seen),
    }
    if member.tenant:
        shown["tenant_id"] = member.tenant
    return shown


_ONE: Final = "/admin/workers/{id}"
ROUTES = (
    Route("GET", "/workers/{id}/health", health, JOBS, "Does a worker go on?", WorkerHealth),
    Route("GET", "/admin/workers", listing, OPERATORS, "List workers", WorkersAnswer, query=OFFSETS),
    Route("GET", _ONE, info, OPERATORS, "Look at a worker", WorkerShape),
    Route("DELETE", _ONE, forget, OPERATORS, "Forget a silent worker"),
    Route("POST", f"{_ONE}/quiet", _asking("quiet"), OPERATORS, "Have a worker take no more", AskedAnswer),
    Route("POST", f"{_ONE}/terminate", _asking("terminate"), OPERATORS, "Have a worker stop", AskedAnswer),
    Route("POST", f"{_ONE}/resume", _asking(RUNNING), OPERATORS, "Have a worker go on", AskedAnswer),
)
