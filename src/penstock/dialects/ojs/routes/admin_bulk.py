"""All jobs that fit, at once: try again, cancel, delete."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final

from msgspec import Meta, Struct, to_builtins

from penstock.acting import acting
from penstock.dialects.ojs.format.counts import engine_states, queues_of
from penstock.dialects.ojs.format.names import moment
from penstock.dialects.ojs.format.patterns import Id, Moment
from penstock.dialects.ojs.routes.admin_jobs import JobFilterBody, State, filter_of
from penstock.engine import Engine
from penstock.errors import ConflictError, InvalidError, NotFoundError
from penstock.http.access import OPERATORS
from penstock.http.engine_service import EngineService
from penstock.http.routes import Handler, Reply, Request, Route
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
        before = moment(body.older_than, "older_than", request.now)
    states = frozenset[str]().union(*(engine_states(state, "states") for state in body.states))
    wanted = JobFilter(states, queues, tenant=request.tenant, ended_before=before)
    done = await _to_all(request.service, wanted, Engine.forget)
    return Reply({"purged_count": done["succeeded"], "states": body.states, **done})


def _bulk(action: str, verb: Callable[..., object]) -> Handler:
    async def bulk(request: Request) -> Reply:
        body = request.read(BulkBody)
        _check_meant(confirm=body.confirm)
        if (body.filter is None) is (body.job_ids is None):
            raise InvalidError("filter", "say which jobs are meant: give filter or job_ids")
        if body.job_ids is None:
            wanted = await filter_of(body.filter or JobFilterBody(), request)
            return Reply({"action": action, **await _to_all(request.service, wanted, verb)})
        jobs = [(id_, request.tenant) for id_ in dict.fromkeys(body.job_ids)]
        subject = ", ".join(body.job_ids)
        done = await _to_each(request.service, subject, request.owner, jobs, verb)
        return Reply({"action": action, **done})

    return bulk


async def _to_all(service: EngineService, wanted: JobFilter, verb: Callable[..., object]) -> dict[str, Any]:
    jobs, total = await service.run(lambda engine: engine.matching(wanted, MOST))
    done = await _to_each(service, _described(wanted), wanted.tenant or "", jobs, verb)
    return {**done, "matched": total, "has_more": total > len(jobs)}


async def _to_each(
    service: EngineService,
    subject: str,
    tenant: str,
    jobs: Sequence[tuple[str, str | None]],
    verb: Callable[..., object],
) -> dict[str, Any]:
    """Do something to jobs, given (id, tenant), some at a time; not all may be in a state for it."""
    hands = asyncio.Semaphore(HANDS)

    async def to_one(id_: str, tenant: str | None) -> str | None:
        async with hands:
            try:
                await service.run(lambda engine: verb(engine, id_, tenant=tenant))
            except (ConflictError, InvalidError, NotFoundError) as error:
                return str(error)
        return None

    who = await service.run(
        lambda engine: engine.begin_bulk(f"job.{verb.__name__}", "jobs", subject, tenant=tenant)
    )
    with acting(who):
        found = await asyncio.gather(*(to_one(*job) for job in jobs))
    problems = zip(jobs, found, strict=True)
    errors = [{"job_id": id_, "error": problem} for (id_, _), problem in problems if problem is not None]
    succeeded = len(jobs) - len(errors)
    return {"matched": len(jobs), "succeeded": succeeded, "failed": len(errors), "errors": errors[:_ERRORS]}


def _described(wanted: JobFilter) -> str:
    """Return in a line which jobs are meant."""
    given = {name: value for name, value in to_builtins(wanted).items() if value is not None}
    return " ".join(f"{name}={value}" for name, value in given.items())


def _check_meant(*, confirm: bool) -> None:
    if not confirm:
        raise InvalidError("confirm", "must be true: this cannot be taken back")


_BULK: Final = "/admin/jobs/bulk"
ROUTES = (
    Route(
        "DELETE", "/admin/queues/{name}/jobs", purge, OPERATORS, "Delete ended jobs", PurgeAnswer, PurgeBody
    ),
    Route(
        "POST",
        f"{_BULK}/retry",
        _bulk("retry", Engine.retry),
        OPERATORS,
        "Try jobs again",
        BulkAnswer,
        BulkBody,
    ),
    Route(
        "POST",
        f"{_BULK}/cancel",
        _bulk("cancel", Engine.cancel),
        OPERATORS,
        "Cancel jobs",
        BulkAnswer,
        BulkBody,
    ),
    Route(
        "POST",
        f"{_BULK}/delete",
        _bulk("delete", Engine.forget),
        OPERATORS,
        "Delete jobs",
        BulkAnswer,
        BulkBody,
    ),
)
