"""Enqueue jobs, look at them, cancel them and run them again."""

from msgspec.structs import asdict, replace

from penstock.client import verbs, wire
from penstock.dialects.native.endpoint import endpoint
from penstock.dialects.native.json_checks import check_job, check_value
from penstock.dialects.native.tenancy import tenant_in
from penstock.http.backpressure import add
from penstock.http.routes import Request
from penstock.http.tenancy import check_shared
from penstock.job import Enqueued, JobView, NewJob, UnknownTask
from penstock.lifecycle.checks import MAX_NUMBER, check_whole


async def enqueue(request: Request, body: wire.EnqueueRequest) -> list[Enqueued]:
    """Add jobs, all or none."""
    jobs = [_new(request, job) for job in body.jobs]
    if not jobs:
        return []
    check_shared(request, jobs)
    added, _ = await add(request, jobs)
    return added


async def import_jobs(request: Request, body: wire.ImportRequest) -> list[Enqueued]:
    """Bring in jobs with the attempts that they made elsewhere."""
    brought = [replace(each, job=_new(request, each.job)) for each in body.jobs]
    for each in brought:
        for attempt in each.attempts:
            if attempt.result is not None:
                check_value("result", attempt.result)
    check_shared(request, [each.job for each in brought])
    return await request.service.run(lambda engine: engine.import_jobs(brought))


async def jobs(request: Request, body: wire.JobsRequest) -> list[JobView]:
    """Return jobs, newest first."""
    wanted = {**asdict(body), "tenant": tenant_in(request, body.tenant or "") or None}
    return await request.service.run(lambda engine: engine.jobs(**wanted))


async def unknown_tasks(request: Request, body: wire.UnknownTasksRequest) -> list[UnknownTask]:
    """Return tasks that no worker asks for; none to a token of one tenant, because all tenants may share them."""
    if request.tenant is not None:
        return []
    return await request.service.run(lambda engine: engine.unknown_tasks(body.queues))


def _new(request: Request, new: NewJob) -> NewJob:
    check_job(new)
    for name in ("due", "expires", "timeout"):
        value = getattr(new, name)
        if value is not None:
            check_whole(name, value, 0, MAX_NUMBER)
    if request.tenant is None:
        return new
    return replace(new, tenant=tenant_in(request, new.tenant))


ROUTES = (
    endpoint(verbs.ENQUEUE, enqueue),
    endpoint(verbs.IMPORT_JOBS, import_jobs),
    endpoint(verbs.EXPEDITE),
    endpoint(verbs.JOB),
    endpoint(verbs.FAILURES),
    endpoint(verbs.HISTORY),
    endpoint(verbs.JOBS, jobs),
    endpoint(verbs.COUNT),
    endpoint(verbs.UNKNOWN_TASKS, unknown_tasks),
    endpoint(verbs.WHY),
    endpoint(verbs.CANCEL),
    endpoint(verbs.RETRY),
)
