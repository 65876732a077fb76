"""Schedules: jobs that the clock enqueues."""

from collections.abc import Callable
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta, Struct

from penstock.dialects.ojs.format.names import check_queue, written
from penstock.dialects.ojs.format.new_job import new_job
from penstock.dialects.ojs.format.paging import OFFSETS, page_of
from penstock.dialects.ojs.format.patterns import Expression, Queue, Type, Zone
from penstock.dialects.ojs.format.requests import JobBody, OptionsBody
from penstock.engine import Engine
from penstock.errors import InvalidError
from penstock.http.access import PRODUCERS
from penstock.http.codec import decode, encode
from penstock.http.routes import Handler, Reply, Request, Route
from penstock.http.tenancy import check_shared
from penstock.job import NewJob, Schedule
from penstock.lifecycle.overlap import Overlap

PER_PAGE: Final = 50
_OVERLAPS: Final = {
    "allow": Overlap.ALLOW,
    "skip": Overlap.SKIP,
    "cancel_previous": Overlap.CANCEL_PREVIOUS,
    "replace": Overlap.CANCEL_PREVIOUS,
    "enqueue": Overlap.WAIT,
    "queue": Overlap.WAIT,
    "wait": Overlap.WAIT,
}


class CronBody(Struct):
    """When a job is enqueued; the job stands in *job_template*, or beside the name."""

    name: Queue
    expression: Expression | None = None
    cron: Annotated[Expression, Meta(description="the same as expression")] | None = None
    timezone: Zone = "UTC"
    overlap_policy: Literal["allow", "skip", "cancel_previous", "replace", "enqueue", "queue", "wait"] = (
        "skip"
    )
    enabled: bool = True
    description: Annotated[str, Meta(max_length=1_000)] | None = None
    job_template: JobBody | None = None
    type: Type | None = None
    args: list[Any] = []
    meta: dict[str, Any] | None = None
    options: OptionsBody | None = None


class CronShape(Struct):
    name: str
    expression: str
    timezone: str
    overlap_policy: str
    enabled: bool
    created_at: str


class CronAnswer(Struct):
    cron: CronShape
    cron_job: CronShape


class CronsAnswer(Struct):
    crons: list[CronShape]
    cron_jobs: list[CronShape]


async def put(request: Request) -> Reply:
    """Add a schedule, or replace the one of its name."""
    body = request.read(CronBody)
    schedule = _schedule(request, body)
    stored = await request.service.run(lambda engine: engine.set_schedule(schedule))
    return Reply(_answer(stored), 201, {"Location": f"/ojs/v1/cron/{stored.name}"})


async def listing(request: Request) -> Reply:
    """Return schedules by name."""
    page = page_of(request, PER_PAGE)
    found, total = await request.service.run(
        lambda engine: engine.schedules(request.tenant, page.offset, page.limit)
    )
    crons = [shown(schedule) for schedule in found]
    return Reply({"crons": crons, "cron_jobs": crons, "items": crons, "pagination": page.shown(total)})


async def delete(request: Request) -> Reply:
    """Delete a schedule; its jobs stay."""
    name, tenant = request.params["name"], request.owner
    gone = await request.service.run(lambda engine: engine.schedule(name, tenant))
    await request.service.run(lambda engine: engine.delete_schedule(name, tenant))
    return Reply({**_answer(gone), "deleted": True, "name": name})


def _answering(verb: Callable[[Engine, str, str], Schedule]) -> Handler:
    """Return what calls *verb* with the schedule of the path, and answers with how it is then."""

    async def handle(request: Request) -> Reply:
        name, tenant = request.params["name"], request.owner
        return Reply(_answer(await request.service.run(lambda engine: verb(engine, name, tenant))))

    return handle


def _schedule(request: Request, body: CronBody) -> Schedule:
    check_queue(body.name, "name")
    expression = body.expression if body.expression is not None else body.cron
    if expression is None:
        raise InvalidError("expression", "is missing")
    template, at = _template(request.fields(), body)
    now = request.now
    job = new_job(template, request.tenant, now, at)
    check_shared(request, [job])
    ttl = None if job.expires is None else _ttl(job, template, now, at)
    kept = {"template": template, "overlap_policy": body.overlap_policy, "description": body.description}
    return Schedule(
        body.name,
        expression,
        msgspec.structs.replace(job, expires=None),
        body.timezone,
        request.owner,
        _OVERLAPS[body.overlap_policy],
        body.enabled,
        ttl,
        encode({name: value for name, value in kept.items() if value is not None}).decode(),
    )


def _template(plain: dict[str, Any], body: CronBody) -> tuple[dict[str, Any], str]:
    """Return the job as it was sent, and where it stood."""
    if body.job_template is not None:
        if body.type is not None:
            raise InvalidError("type", "stands in job_template as well; give it once")
        return plain["job_template"], "job_template"
    if body.type is None:
        raise InvalidError("job_template", "is missing: it says what to enqueue")
    template = {
        name: plain[name] for name in ("type", "args", "meta", "options") if plain.get(name) is not None
    }
    return {"args": [], **template}, ""


def _ttl(job: NewJob, template: dict[str, Any], now: int, at: str) -> int:
    """Return for how long each job may start; a fixed moment would fit only one of them."""
    field = f"{at}.options.expires_at".lstrip(".")
    if not str(template["options"]["expires_at"]).startswith("+"):
        raise InvalidError(field, "must be a span such as +PT10M: each job has its own moment")
    ttl = (job.expires or now) - now
    if ttl <= 0:
        raise InvalidError(field, "must be longer than nothing")
    return ttl


def _answer(schedule: Schedule) -> dict[str, Any]:
    cron = shown(schedule)
    return {"cron": cron, "cron_job": cron}


def shown(schedule: Schedule) -> dict[str, Any]:
    """Return a schedule the way the spec writes it."""
    kept = decode(schedule.meta)
    template = kept.get("template") or {"type": schedule.job.task, "args": []}
    cron: dict[str, Any] = {
        "name": schedule.name,
        "expression": schedule.expression,
        "cron": schedule.expression,
        "timezone": schedule.timezone,
        "overlap_policy": kept.get("overlap_policy", schedule.overlap.value),
        "enabled": schedule.enabled,
        "status": "active" if schedule.enabled else "paused",
        "type": template["type"],
        "args": template.get("args", []),
        "job_template": template,
        "created_at": written(schedule.created),
        "run_count": schedule.fired,
    }
    for name in ("meta", "options"):
        if name in template:
            cron[name] = template[name]
    for name, at in (("next_run_at", schedule.next_at), ("last_run_at", schedule.last_at)):
        if at is not None:
            cron[name] = written(at)
    if schedule.last_job is not None:
        cron["last_job_id"] = schedule.last_job
    if "description" in kept:
        cron["description"] = kept["description"]
    if schedule.tenant:
        cron["tenant_id"] = schedule.tenant
    return cron


_ONE: Final = "/cron/{name}"
_look, _pause, _resume = map(_answering, (Engine.schedule, Engine.pause_schedule, Engine.resume_schedule))
ROUTES = (
    Route("POST", "/cron", put, PRODUCERS, "Add or replace a schedule", CronAnswer, CronBody, 201),
    Route("GET", "/cron", listing, PRODUCERS, "List schedules", CronsAnswer, query=OFFSETS),
    Route("GET", _ONE, _look, PRODUCERS, "Look at a schedule", CronAnswer),
    Route("DELETE", _ONE, delete, PRODUCERS, "Delete a schedule", CronAnswer),
    Route("POST", f"{_ONE}/pause", _pause, PRODUCERS, "Pause a schedule", CronAnswer),
    Route("POST", f"{_ONE}/resume", _resume, PRODUCERS, "Resume a schedule", CronAnswer),
)
