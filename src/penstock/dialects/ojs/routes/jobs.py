"""Enqueue, look and cancel."""

from collections.abc import Callable, Sequence
from urllib.parse import quote

from penstock.dialects.ojs.format import envelope
from penstock.dialects.ojs.format.limits import limit_headers
from penstock.dialects.ojs.format.new_job import new_job
from penstock.dialects.ojs.format.paging import Page
from penstock.dialects.ojs.format.requests import BatchBody, JobBody
from penstock.dialects.ojs.format.responses import CancelledJob, JobAnswer, JobsAnswer
from penstock.engine import Engine
from penstock.errors import InvalidError, NotFoundError, WrongStateError
from penstock.http.access import JOBS, PRODUCERS
from penstock.http.backpressure import Fullness, add
from penstock.http.routes import Reply, Request, Route, if_possible
from penstock.http.tenancy import check_shared, own
from penstock.job import Enqueued, JobFilter, JobView, NewJob
from penstock.lifecycle.states import State
from penstock.limits.rules import OnLimit
from penstock.tracing import PARENT, carried

MOST_AT_ONCE = 1_000
_DAY = 86_400  # seconds


async def enqueue(request: Request) -> Reply:
    """Add a job."""
    now = request.now  # for spans; the engine says when it came
    job = new_job(_traced(request, request.json()), request.tenant, now)
    check_shared(request, [job])
    (added,), full = await add(request, [job], lambda: block_timeout(request))
    headers = {**pressure_headers(full), "Location": f"/ojs/v1/jobs/{quote(added.id, safe='')}"}
    if job.limits:
        work = request.service.run(lambda engine: _limit_headers(engine, job))
        headers |= await if_possible(work, {})
    (shown,) = await _added(request, [job], [added])
    return Reply({"job": shown}, 200 if added.reused else 201, headers)


async def enqueue_batch(request: Request) -> Reply:
    """Add jobs, all or none."""
    now = request.now
    plain = request.fields().get("jobs")
    if not isinstance(plain, list) or not plain:
        raise InvalidError("jobs", "must be a list of jobs, and not empty")
    if len(plain) > MOST_AT_ONCE:
        raise InvalidError("jobs", f"has {len(plain)} jobs; at most {MOST_AT_ONCE} are allowed at once")
    jobs = [
        new_job(_traced(request, each), request.tenant, now, f"jobs[{n}]") for n, each in enumerate(plain)
    ]
    check_shared(request, jobs)
    added, full = await add(request, jobs, lambda: block_timeout(request))
    shown = await _added(request, jobs, added)
    return Reply({"jobs": shown, "count": len(shown)}, 201, pressure_headers(full))


def block_timeout(request: Request) -> float:
    """Return how many seconds the client would wait for room in a queue."""
    text = request.headers.get("ojs-block-timeout")
    if text is None:
        return 0.0
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= _DAY:
        raise InvalidError("OJS-Block-Timeout", f"{text[:40]!r} must be a number of seconds, zero or more")
    return seconds


def pressure_headers(full: Fullness | None) -> dict[str, str]:
    """Return the headers that tell of a queue that is nearly full."""
    if full is None:
        return {}
    return {
        "X-OJS-Queue-Pressure": f"{full.share:.3g}",
        "X-OJS-Queue-Depth": str(full.depth),
        "X-OJS-Queue-Bound": str(full.bound),
    }


async def _added(
    request: Request, jobs: Sequence[NewJob], added: Sequence[Enqueued]
) -> list[dict[str, object]]:
    """Return the envelopes of jobs that were added or reused; if that fails, what is known of them."""
    pairs = list(zip(jobs, added, strict=True))
    perhaps = [one.id for job, one in pairs if not one.reused and _can_be_rescheduled(job)]
    views: list[JobView] = []
    if perhaps:
        views = await if_possible(
            request.service.run(lambda engine: engine.standing(perhaps, jobs[0].tenant)), views
        )
    rescheduled = {view.id: view for view in views if view.rescheduled}

    async def shown(job: NewJob, one: Enqueued) -> dict[str, object]:
        if one.reused:
            return await request.service.run(lambda engine: show(engine, one.id, job.tenant))
        view = rescheduled.get(one.id)
        return envelope.of_new(job, one) if view is None else envelope.of_view(view)

    return [await if_possible(shown(job, one), {"id": one.id, "type": job.task}) for job, one in pairs]


def _can_be_rescheduled(job: NewJob) -> bool:
    return any(limit.on_limit is OnLimit.RESCHEDULE for limit in job.limits)


def _traced(request: Request, plain: object) -> object:
    """Return a job that was sent, with the trace context of its request unless it has its own."""
    if PARENT not in request.headers or not isinstance(plain, dict):
        return plain
    meta = plain.get("meta") or {}
    if not isinstance(meta, dict) or PARENT in meta:
        return plain
    return {**plain, "meta": {**meta, **carried(request.headers)}}


async def info(request: Request) -> Reply:
    """Return a job."""
    view = await own(request, request.params["id"])
    return Reply({"job": await request.service.run(lambda engine: show_view(engine, view))})


async def cancel(request: Request) -> Reply:
    """Cancel a job: what waits ends at once, what runs counts as cancelled from now on."""
    view = await own(request, request.params["id"])
    if view.cancel_at and view.state is State.RUNNING:
        raise WrongStateError(view.id, "cancelled", "a job that has not ended")

    return Reply({"job": await shown_after(request, Engine.cancel, view)})


async def shown_after(request: Request, verb: Callable[..., object], view: JobView) -> dict[str, object]:
    """Call *verb* with a job, and return the envelope that it has then."""

    def work(engine: Engine) -> dict[str, object]:
        verb(engine, view.id, tenant=view.tenant)
        return show(engine, view.id, view.tenant)

    return await request.service.run(work)


async def matching(request: Request, wanted: JobFilter, page: Page) -> tuple[list[dict[str, object]], int]:
    """Return the envelopes on a *page* of the jobs that fit, newest first, and how many fit in all."""

    def work(engine: Engine) -> tuple[list[dict[str, object]], int]:
        views, total = engine.search(wanted, offset=page.offset, limit=page.limit)
        return [show_view(engine, view) for view in views], total

    return await request.service.run(work)


def show(engine: Engine, job_id: str, tenant: str) -> dict[str, object]:
    """Return the envelope of a job as it is now."""
    return show_view(engine, engine.job(job_id, tenant))


def show_view(engine: Engine, view: JobView) -> dict[str, object]:
    """Return the envelope of a job."""
    return envelope.of_view(view, engine.failures(view.id, view.tenant) if view.attempt else ())


def _limit_headers(engine: Engine, job: NewJob) -> dict[str, str]:
    try:
        limit = job.limits[0]
        return limit_headers(engine.gate(limit.key, limit.owner(job.tenant)))
    except NotFoundError:
        return {}  # done and forgotten meanwhile


ROUTES = (
    Route("POST", "/jobs", enqueue, PRODUCERS, "Enqueue a job", JobAnswer, JobBody, 201),
    Route(
        "POST",
        "/jobs/batch",
        enqueue_batch,
        PRODUCERS,
        "Enqueue jobs, all or none",
        JobsAnswer,
        BatchBody,
        201,
    ),
    Route("GET", "/jobs/{id}", info, JOBS, "Look at a job", JobAnswer),
    Route("DELETE", "/jobs/{id}", cancel, PRODUCERS, "Cancel a job", CancelledJob),
    Route("POST", "/jobs/{id}/cancel", cancel, PRODUCERS, "Cancel a job", CancelledJob),
)
