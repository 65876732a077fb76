"""Schedules that create instances of a sequence."""

from typing import Any, Final

from msgspec import Struct

from penstock.dialects.orch8.format.new_instance import InstanceBody, SequenceFinder, Version, new_instance
from penstock.dialects.orch8.format.values import PAGE, maybe_written, page_of, tenant_of, written
from penstock.engine import Engine
from penstock.errors import InvalidError, NotFoundError
from penstock.http.access import JOBS, PRODUCERS
from penstock.http.codec import decode, encode
from penstock.http.routes import Reply, Request, Route
from penstock.ids import new_id
from penstock.job import NewJob, Schedule
from penstock.lifecycle.cron import parse_cron
from penstock.lifecycle.overlap import Overlap

_OVERLAPS: Final = {
    "allow": Overlap.ALLOW,
    "skip": Overlap.SKIP,
    "cancel_previous": Overlap.CANCEL_PREVIOUS,
    "wait": Overlap.WAIT,
}


_FIELDS: Final = {"expression": "cron_expr"}


class CronBody(Struct, forbid_unknown_fields=True):
    """When instances of a sequence are created, and what becomes of one whose predecessor has not ended."""

    cron_expr: str
    sequence_id: str | None = None
    sequence_name: str | None = None
    version: Version | None = None
    tenant_id: str | None = None
    namespace: str | None = None
    timezone: str = "UTC"
    metadata: dict[str, Any] = {}
    context: dict[str, Any] = {}
    enabled: bool = True
    overlap_policy: str = "allow"


class CronShape(Struct):
    id: str
    tenant_id: str
    sequence_name: str
    cron_expr: str
    timezone: str
    enabled: bool
    overlap_policy: str
    next_fire_at: str | None
    created_at: str


async def create(request: Request) -> Reply:
    """Add a schedule."""
    body = request.read(CronBody)
    overlap = _OVERLAPS.get(body.overlap_policy)
    if overlap is None:
        raise InvalidError(
            "overlap_policy", f"{body.overlap_policy[:40]!r} must be one of: {', '.join(_OVERLAPS)}"
        )
    wanted = InstanceBody(
        sequence_name=body.sequence_name, version=body.version, sequence_id=body.sequence_id,
        tenant_id=body.tenant_id, namespace=body.namespace, context=body.context, metadata=body.metadata,
    )  # fmt: skip

    def work(engine: Engine) -> Schedule:
        finder = SequenceFinder(engine)
        new = new_instance(request, finder, wanted)
        found = finder.of(wanted, new.tenant)
        kept = encode({"sequence_id": found.id, "version": found.version, "namespace": found.namespace})
        job = NewJob(new.workflow, new.args, tenant=new.tenant, meta=new.meta)
        schedule = Schedule(
            new_id(), body.cron_expr, job, body.timezone, new.tenant, overlap, body.enabled,
            meta=kept.decode(), sequence=new.sequence,
        )  # fmt: skip
        return engine.set_schedule(schedule)

    try:
        parse_cron(body.cron_expr, body.timezone)
    except InvalidError as error:
        raise InvalidError(_FIELDS.get(error.field, error.field), error.problem) from None
    stored = await request.service.run(work)
    return Reply(_shown(stored), 201, {"Location": f"/cron/{stored.name}"})


async def listing(request: Request) -> Reply:
    """Return schedules that create instances."""
    tenant, (offset, limit) = tenant_of(request), page_of(request)
    found, _ = await request.service.run(
        lambda engine: engine.schedules(tenant, offset, limit, of_sequences=True)
    )
    return Reply([_shown(each) for each in found])


async def look(request: Request) -> Reply:
    """Return one schedule."""
    return Reply(_shown(await request.service.run(lambda engine: _own(engine, request))))


async def delete(request: Request) -> Reply:
    """Delete a schedule; its instances stay."""

    def work(engine: Engine) -> None:
        found = _own(engine, request)
        engine.delete_schedule(found.name, found.tenant)

    await request.service.run(work)
    return Reply(status=204)


def _own(engine: Engine, request: Request) -> Schedule:
    found = engine.schedule(request.params["id"], tenant_of(request) or "")
    if found.sequence is None:
        raise NotFoundError("schedule", found.name)
    return found


def _shown(schedule: Schedule) -> dict[str, Any]:
    return {
        "id": schedule.name,
        "tenant_id": schedule.tenant,
        "sequence_name": schedule.job.task,
        **decode(schedule.meta),
        "cron_expr": schedule.expression,
        "timezone": schedule.timezone,
        "enabled": schedule.enabled,
        "overlap_policy": next(name for name, each in _OVERLAPS.items() if each is schedule.overlap),
        "context": decode(schedule.job.args),
        "next_fire_at": maybe_written(schedule.next_at),
        "last_fire_at": maybe_written(schedule.last_at),
        "last_instance_id": schedule.last_job,
        "created_at": written(schedule.created),
        "updated_at": written(schedule.created),
    }


_ONE: Final = "/cron/{id}"
_TENANT: Final = ("tenant_id",)
ROUTES: Final = (
    Route("POST", "/cron", create, PRODUCERS, "Create instances again and again", CronShape, CronBody, 201),
    Route("GET", "/cron", listing, JOBS, "List schedules", list[CronShape], query=PAGE),
    Route("GET", _ONE, look, JOBS, "Look at a schedule", CronShape, query=_TENANT),
    Route("DELETE", _ONE, delete, PRODUCERS, "Delete a schedule", status=204, query=_TENANT),
)
