"""Dead letters: jobs that failed for good, kept for operators."""

from typing import Final

from msgspec import Struct

from penstock.dialects.ojs.format.counts import queues_of
from penstock.dialects.ojs.format.names import check_type
from penstock.dialects.ojs.format.paging import OFFSETS, page_of
from penstock.dialects.ojs.format.responses import JobAnswer, JobsAnswer, JobShape
from penstock.dialects.ojs.routes.jobs import matching, shown_after
from penstock.engine import Engine
from penstock.errors import NotFoundError
from penstock.http.access import OPERATORS, PRODUCERS
from penstock.http.routes import Reply, Request, Route
from penstock.http.tenancy import own
from penstock.job import JobFilter, JobView
from penstock.lifecycle.states import State

PER_PAGE: Final = 50
_DEAD: Final = frozenset({State.FAILED.value})
_FILTERS: Final = ("queue", "type", *OFFSETS)


class ItemsAnswer(Struct):
    items: list[JobShape]


class DeletedAnswer(Struct):
    deleted: bool
    job_id: str


class StatsAnswer(Struct):
    total: int


async def listing(request: Request) -> Reply:
    """Return dead letters, newest first."""
    page = page_of(request, PER_PAGE)
    queues, task = queues_of(request.query.get("queue")), request.query.get("type")
    if task is not None:
        check_type(task)
    jobs, total = await matching(request, JobFilter(_DEAD, queues, task, tenant=request.tenant), page)
    return Reply({"jobs": jobs, "items": jobs, "pagination": page.shown(total)})


async def stats(request: Request) -> Reply:
    """Return how many dead letters there are, by queue and type."""
    tallies = await request.service.run(lambda engine: engine.tally())
    queues = {
        (tally.tenant, tally.queue): tally.counts[State.FAILED]
        for tally in tallies
        if request.tenant in (None, tally.tenant) and State.FAILED in tally.counts
    }
    by_queue: dict[str, int] = {}
    for (_, queue), number in queues.items():
        by_queue[queue] = by_queue.get(queue, 0) + number
    return Reply({"total": sum(queues.values()), "by_queue": by_queue})


async def retry(request: Request) -> Reply:
    """Stand a dead letter in line again, with all its attempts."""
    view = await _dead(request)
    return Reply({"job": await shown_after(request, Engine.retry, view), "job_id": view.id})


async def delete(request: Request) -> Reply:
    """Delete a dead letter."""
    view = await _dead(request)
    await request.service.run(lambda engine: engine.forget(view.id, view.tenant))
    return Reply({"deleted": True, "job_id": view.id, "id": view.id})


async def delete_quietly(request: Request) -> Reply:
    """Delete a dead letter, and answer without a body."""
    await delete(request)
    return Reply(None, 204)


async def _dead(request: Request) -> JobView:
    view = await own(request, request.params["id"])
    if view.state is not State.FAILED:
        raise NotFoundError("dead letter", view.id)
    return view


ROUTES = (
    Route("GET", "/dead-letter", listing, PRODUCERS, "List dead letters", JobsAnswer, query=_FILTERS),
    Route("POST", "/dead-letter/{id}/retry", retry, PRODUCERS, "Try a dead letter again", JobAnswer),
    Route("DELETE", "/dead-letter/{id}", delete, PRODUCERS, "Delete a dead letter", DeletedAnswer),
    Route("GET", "/admin/dead-letter", listing, OPERATORS, "List dead letters", ItemsAnswer, query=_FILTERS),
    Route("GET", "/admin/dead-letter/stats", stats, OPERATORS, "Count dead letters", StatsAnswer),
    Route("POST", "/admin/dead-letter/{id}/retry", retry, OPERATORS, "Try a dead letter again", JobAnswer),
    Route("DELETE", "/admin/dead-letter/{id}", delete_quietly, OPERATORS, "Delete a dead letter", status=204),
)
