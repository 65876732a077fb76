"""All jobs that fit, at once: try again, cancel, delete."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from penstock.dialects.ojs.format.counts import engine_states, queues_of
from penstock.dialects.ojs.format.names import moment
from penstock.dialects.ojs.format.patterns import Id, Moment
from penstock.dialects.ojs.routes.admin_jobs import JobFilterBody, State, filter_of
from penstock.engine import Engine
from penstock.errors import ConflictError, InvalidError, NotFoundError
from penstock.http.access import OPERATORS
from penstock.http.routes import Handler, Reply, Request, Route
from penstock.http.service import Service
from penstock.job import JobFilter

MOST: Final = 2_000  # jobs in one request; for more, ask again
HANDS: Final = 8  # at a time, so that other requests find a thread
_ERRORS: Final = 100  # are shown


Confirmed = Annotated[bool, Meta(extra_json_schema={"enum": [True]})]


class BulkBody(Struct):
    """Which jobs, and that it is meant."""

    confirm: Confirmed = False
    filter: JobFilterBody | None = None
    job_ids: Annotated[list[Id], Meta(max_length=MOST)] | None = None


class BulkAnswer(Struct):
    action: str
    matched: int
    succeeded: int
    failed: int


class PurgeBody(Struct):
    """Which ended jobs of a queue to delete."""

    states: Annotated[list[State], Meta(min_length=1)]
    older_than: Moment | None = None
    confirm: Confirmed = False


class PurgeAnswer(Struct):
    purged_count: int
    states: list[str]


async def purge(request: Request) -> Reply:
    """Delete the ended jobs of a queue."""
    queues = queues_of(request.params["name"], "name")
    body = request.read(PurgeBody)
    _check_meant(confirm=body.confirm)
    before = None
    if body.older_than is not None:
        before = moment(body.older_than, "older_than", request.service.engine.clock.now())
    states = frozenset[str]().union(*(engine_states(state, "states") for state in body.states))
    wanted = JobFilter(states, queues, tenant=request.tenant, ended_before=before)
    done = await _to_all(request.service, wanted, _forget)
    return Reply({"purged_count": done["succeeded"], "states": body.states, **done})


def _bulk(action: str, verb: Callable[[Engine, str], object]) -> Handler:
    async def bulk(request: Request) -> Reply:
        body = request.read(BulkBody)
        _check_meant(confirm=body.confirm)
        if (body.filter is None) is (body.job_ids is None):
            raise InvalidError("filter", "say which jobs are meant: give filter or job_ids")
        if body.job_ids is None:
            wanted = await filter_of(body.filter or JobFilterBody(), request)
            return Reply({"action": action, **await _to_all(request.service, wanted, verb)})
        ids = list(dict.fromkeys(body.job_ids))
        return Reply({"action": action, **await _to_each(request.service, ids, _own(request.tenant, verb))})

    return bulk


def _own(tenant: str | None, verb: Callable[[Engine, str], object]) -> Callable[[Engine, str], object]:
    """Return *verb* for a tenant's own jobs."""

    def own(engine: Engine, id_: str) -> object:
        if tenant is not None and engine.job(id_).tenant != tenant:
            raise NotFoundError("job", id_)
        return verb(engine, id_)

    return own


async def _to_all(
    service: Service, wanted: JobFilter, verb: Callable[[Engine, str], object]
) -> dict[str, Any]:
    ids, total = await service.run(lambda engine: engine.matching(wanted, MOST))
    done = await _to_each(service, ids, verb)
    return {**done, "matched": total, "has_more": total > len(ids)}


async def _to_each(
    service: Service, ids: Sequence[str], verb: Callable[[Engine, str], object]
) -> dict[str, Any]:
    """Do something to jobs, some at a time; not all may be in a state for it."""
    hands = asyncio.Semaphore(HANDS)

    async def to_one(id_: str) -> str | None:
        async with hands:
            try:
                await service.run(lambda engine: verb(engine, id_))
            except (ConflictError, NotFoundError) as error:
                return str(error)
        return None

    problems = zip(ids, await asyncio.gather(*map(to_one, ids)), strict=True)
    errors = [{"job_id": id_, "error": problem} for id_, problem in problems if problem is not None]
    succeeded = len(ids) - len(errors)
    return {"matched": len(ids), "succeeded": succeeded, "failed": len(errors), "errors": errors[:_ERRORS]}


def _forget(engine: Engine, id_: str) -> None:
    engine.forget(id_)


def _check_meant(*, confirm: bool) -> None:
    if not confirm:
        raise InvalidError("confirm", "must be true: this cannot be taken back")


_BULK: Final = "/admin/jobs/bulk"
ROUTES = (
    Route(
        "DELETE", "/admin/queues/{name}/jobs", purge, OPERATORS, "Delete ended jobs", PurgeBody, PurgeAnswer
    ),
    Route(
        "POST",
        f"{_BULK}/retry",
        _bulk("retry", Engine.retry),
        OPERATORS,
        "Try jobs again",
        BulkBody,
        BulkAnswer,
    ),
    Route(
        "POST",
        f"{_BULK}/cancel",
        _bulk("cancel", Engine.cancel),
        OPERATORS,
        "Cancel jobs",
        BulkBody,
        BulkAnswer,
    ),
    Route(
        "POST", f"{_BULK}/delete", _bulk("delete", _forget), OPERATORS, "Delete jobs", BulkBody, BulkAnswer
    ),
)
