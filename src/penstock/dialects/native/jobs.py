"""Enqueue jobs, look at them, cancel them and run them again."""

from msgspec.structs import replace

from penstock.client import verbs, wire
from penstock.dialects.native.endpoint import endpoint
from penstock.dialects.native.json_checks import check_job
from penstock.dialects.native.tenancy import tenant_in, tenant_or_all
from penstock.engine import Engine
from penstock.http.backpressure import add
from penstock.http.routes import Request
from penstock.http.tenancy import check_shared, own
from penstock.job import Enqueued, JobView, NewJob
from penstock.lifecycle.checks import MAX_NUMBER, check_whole
from penstock.lifecycle.states import State


async def enqueue(request: Request, body: wire.EnqueueRequest) -> list[Enqueued]:
    """Add jobs, all or none."""
    jobs = [_new(request, job) for job in body.jobs]
    if not jobs:
        return []
    check_shared(request, jobs)
    added, _ = await add(request, jobs)
    return added


async def job(request: Request, body: wire.JobRequest) -> JobView:
    """Return one job."""
    return await own(request, body.job_id)


async def jobs(request: Request, body: wire.JobsRequest) -> list[JobView]:
    """Return jobs, newest first."""
    tenant = tenant_in(request, body.tenant or "") or None

    def work(engine: Engine) -> list[JobView]:
        return engine.jobs(
            state=body.state, queue=body.queue, task=body.task, tenant=tenant, key=body.key, before=body.before,
            begins=body.begins, limit=body.limit,
        )  # fmt: skip

    return await request.service.run(work)


async def count(request: Request, body: wire.CountRequest) -> dict[State, int]:
    """Return how many jobs are in each state."""
    return await request.service.run(
        lambda engine: engine.count(
            queue=body.queue, task=body.task, tenant=tenant_or_all(request, body.tenant)
        )
    )


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
    endpoint(verbs.JOB, job),
    endpoint(verbs.FAILURES),
    endpoint(verbs.JOBS, jobs),
    endpoint(verbs.COUNT, count),
    endpoint(verbs.WHY),
    endpoint(verbs.CANCEL),
    endpoint(verbs.RETRY),
)
