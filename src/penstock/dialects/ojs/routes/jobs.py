"""Enqueue, look and cancel."""

from penstock.dialects.ojs.format import envelope
from penstock.dialects.ojs.format.limits import limit_headers
from penstock.dialects.ojs.format.new_job import new_job
from penstock.dialects.ojs.format.requests import BatchBody, JobBody
from penstock.dialects.ojs.format.responses import CancelledJob, JobAnswer, JobsAnswer
from penstock.engine import Engine
from penstock.errors import InvalidError, NotFoundError, WrongStateError
from penstock.http.access import JOBS, PRODUCERS
from penstock.http.backpressure import Fullness, add
from penstock.http.routes import Reply, Request, Route, if_possible
from penstock.http.tenancy import check_shared, own
from penstock.job import Enqueued, JobView, NewJob
from penstock.lifecycle.states import State
from penstock.tracing import PARENT, carried

MOST_AT_ONCE = 1_000
_DAY = 86_400  # seconds


async def enqueue(request: Request) -> Reply:
    """Add a job."""
    now = request.service.engine.clock.now()  # for spans; the engine says when it came
    job = new_job(_traced(request, request.json()), request.tenant, now)
    check_shared(request, [job])
    (added,), full = await add(request, [job], lambda: block_timeout(request))
    headers = {**pressure_headers(full), "Location": f"/ojs/v1/jobs/{added.id}"}
    if job.limits:
        work = request.service.run(lambda engine: _limit_headers(engine, job))
        headers |= await if_possible(work, {})
    return Reply({"job": await _added(request, job, added)}, 200 if added.reused else 201, headers)


async def enqueue_batch(request: Request) -> Reply:
    """Add jobs, all or none."""
    now = request.service.engine.clock.now()
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
    shown = [await _added(request, job, one) for job, one in zip(jobs, added, strict=True)]
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


async def _added(request: Request, job: NewJob, added: Enqueued) -> dict[str, object]:
    """Return the envelope of the job that was added or reused; if that fails, what is known of it."""

    async def shown() -> dict[str, object]:
        if added.reused:
            return await request.service.run(lambda engine: show(engine, added.id))
        return envelope.of_new(job, added)

    return await if_possible(shown(), {"id": added.id, "type": job.task})


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
    return Reply({"job": await request.service.run(lambda engine: show(engine, view.id))})


async def cancel(request: Request) -> Reply:
    """Cancel a job: what waits ends at once, what runs counts as cancelled from now on."""
    view = await own(request, request.params["id"])
    if view.cancel_at and view.state is State.RUNNING:
        raise WrongStateError(view.id, "cancelled", "a job that has not ended")

    def work(engine: Engine) -> object:
        engine.cancel(view.id)
        return show(engine, view.id)

    return Reply({"job": await request.service.run(work)})


def show(engine: Engine, job_id: str, view: JobView | None = None) -> dict[str, object]:
    """Return the envelope of a job as it is now."""
    view = view or engine.job(job_id)
    return envelope.of_view(view, engine.failures(job_id) if view.attempt else ())


def _limit_headers(engine: Engine, job: NewJob) -> dict[str, str]:
    try:
        limit = job.limits[0]
        return limit_headers(engine.gate(limit.key, "" if limit.shared else job.tenant))
    except NotFoundError:
        return {}  # done and forgotten meanwhile


ROUTES = (
    Route("POST", "/jobs", enqueue, PRODUCERS, "Enqueue a job", JobBody, JobAnswer, 201),
    Route(
        "POST",
        "/jobs/batch",
        enqueue_batch,
        PRODUCERS,
        "Enqueue jobs, all or none",
        BatchBody,
        JobsAnswer,
        201,
    ),
    Route("GET", "/jobs/{id}", info, JOBS, "Look at a job", None, JobAnswer),
    Route("DELETE", "/jobs/{id}", cancel, PRODUCERS, "Cancel a job", None, CancelledJob),
    Route("POST", "/jobs/{id}/cancel", cancel, PRODUCERS, "Cancel a job", None, CancelledJob),
)
