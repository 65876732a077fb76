"""Jobs, as operators see them: one, or a page of those that fit."""

from typing import Annotated, Any, Final, Literal

from msgspec import Meta, Struct

from penstock.dialects.ojs.format.counts import engine_states, queues_of
from penstock.dialects.ojs.format.names import check_type, moment
from penstock.dialects.ojs.format.paging import OFFSETS, page_of
from penstock.dialects.ojs.format.patterns import Moment, Queue, Type
from penstock.dialects.ojs.format.responses import JobShape
from penstock.dialects.ojs.routes.jobs import cancel, matching, show_view, shown_after
from penstock.engine import Engine
from penstock.http.access import OPERATORS
from penstock.http.routes import Reply, Request, Route, converted
from penstock.http.tenancy import own
from penstock.job import JobFilter

_FILTERS: Final = ("state", "queue", "type", "since", "until")
State = Literal[
    "scheduled", "available", "pending", "active", "completed", "retryable", "cancelled", "discarded"
]


class JobFilterBody(Struct, forbid_unknown_fields=True):
    """Which jobs are meant: all that is given must fit."""

    state: State | None = None
    queue: Queue | None = None
    type: Annotated[Type, Meta(description="a type, or how it begins and a star")] | None = None
    since: Moment | None = None
    until: Moment | None = None


class JobPage(Struct):
    items: list[JobShape]


async def listing(request: Request) -> Reply:
    """Return the jobs that fit, newest first."""
    page = page_of(request)
    wanted = await filter_of(_filter(request), request)
    items, total = await matching(request, wanted, page)
    return Reply({"items": items, "pagination": page.shown(total)})


def _filter(request: Request) -> JobFilterBody:
    return converted({name: request.query[name] for name in _FILTERS if name in request.query}, JobFilterBody)


async def info(request: Request) -> Reply:
    """Return a job."""
    view = await own(request, request.params["id"])
    return Reply(await request.service.run(lambda engine: show_view(engine, view)))


async def cancel_one(request: Request) -> Reply:
    """Cancel a job."""
    reply = await cancel(request)
    return _both(reply.body["job"])  # type: ignore[index]


async def retry_one(request: Request) -> Reply:
    """Stand an ended job in line again."""
    view = await own(request, request.params["id"])
    return _both(await shown_after(request, Engine.retry, view))


async def filter_of(body: JobFilterBody, request: Request) -> JobFilter:
    """Return the filter of a request, for its own tenant."""
    now = request.now
    prefix = body.type.removesuffix("*") if body.type is not None and body.type.endswith("*") else None
    if body.type is not None and prefix is None:
        check_type(body.type)
    return JobFilter(
        None if body.state is None else engine_states(body.state),
        queues_of(body.queue),
        body.type if prefix is None else None,
        prefix,
        request.tenant,
        None if body.since is None else moment(body.since, "since", now),
        None if body.until is None else moment(body.until, "until", now),
    )


def _both(job: dict[str, Any]) -> Reply:
    return Reply({**job, "job": job})


ROUTES = (
    Route("GET", "/admin/jobs", listing, OPERATORS, "Find jobs", JobPage, query=(*_FILTERS, *OFFSETS)),
    Route("GET", "/admin/jobs/{id}", info, OPERATORS, "Look at a job", JobShape),
    Route("POST", "/admin/jobs/{id}/cancel", cancel_one, OPERATORS, "Cancel a job", JobShape),
    Route("POST", "/admin/jobs/{id}/retry", retry_one, OPERATORS, "Try an ended job again", JobShape),
)
