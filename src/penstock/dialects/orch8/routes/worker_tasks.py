"""Tasks for workers: steps that are neither the engine's nor the server's own.  A task is the job of a step.

A start is the moment at which the answer to a poll is sent.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from penstock.clock import MILLISECOND, SECOND
from penstock.dialects.orch8.format.values import PAGE, check_name, page_of, tenant_in, tenant_of, written
from penstock.engine import Engine
from penstock.errors import ConflictError, InvalidError, NotFoundError
from penstock.http.access import WORKERS
from penstock.http.codec import decode, encode
from penstock.http.fetch_order import Fetch, claim
from penstock.http.routes import Reply, Request, Route
from penstock.job import Claimed, JobView, Running, Settlement, StepJob
from penstock.lifecycle.outcomes import Done, Failed, Outcome
from penstock.lifecycle.states import State
from penstock.sequences import block_id
from penstock.sequences.context import SECTIONS, Context

LEASE: Final = 60 * SECOND  # until a worker must be heard from again
TRIES: Final = 3  # if all that was claimed comes too late to begin
DEFAULT_QUEUE: Final = "default"
FAILED: Final = "WorkerFailed"
_STATES: Final = {"pending": (State.WAITING, State.SCHEDULED), "claimed": (State.RUNNING,)}


class PollBody(Struct):
    """Which tasks a worker can take now."""

    handler_name: str
    worker_id: str
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 1
    queue_name: str | None = None
    tenant_id: str | None = None
    wait_ms: Annotated[int, Meta(ge=0, le=60_000)] = 0


class CompleteBody(Struct):
    worker_id: str
    claim_epoch: int | None = None
    output: Any = None


class FailBody(Struct):
    """What went wrong; another attempt is made if it is *retryable* and the step allows one."""

    worker_id: str
    message: str = ""
    claim_epoch: int | None = None
    retryable: bool = False


class HeartbeatBody(Struct):
    worker_id: str
    claim_epoch: int | None = None
    checkpoint_seq: int = 0


class HeartbeatShape(Struct):
    checkpoint_seq: int
    cancel_requested: bool


class TaskShape(Struct):
    id: str
    instance_id: str
    block_id: str
    handler_name: str
    params: dict[str, Any]
    state: str
    attempt: int


async def poll(request: Request) -> Reply:
    """Hand out tasks of a handler that stand in no queue of their own."""
    return await _handed_out(request, request.read(PollBody), DEFAULT_QUEUE)


async def poll_queue(request: Request) -> Reply:
    """Hand out tasks of a handler in a queue."""
    body = request.read(PollBody)
    if body.queue_name is None:
        raise InvalidError("queue_name", "is missing")
    return await _handed_out(request, body, check_name(body.queue_name, "queue_name"))


async def complete(request: Request) -> Reply:
    """Record what a task came to."""
    body = request.read(CompleteBody)
    await _settle(request, body.worker_id, body.claim_epoch, Done(encode(body.output).decode()))
    return Reply({})


async def fail(request: Request) -> Reply:
    """Record that a task failed."""
    body = request.read(FailBody)
    outcome = Failed(FAILED, body.message or "failed", ancestry=(FAILED,), final=not body.retryable)
    await _settle(request, body.worker_id, body.claim_epoch, outcome)
    return Reply({})


async def heartbeat(request: Request) -> Reply:
    """Keep a task for another minute."""
    body = request.read(HeartbeatBody)
    attempt = await _held(request, body.worker_id, body.claim_epoch)
    (beat,) = await request.service.run(
        lambda engine: engine.heartbeat([(attempt.seq, attempt.fence)], lease=LEASE)
    )
    if not beat.alive:
        raise _lost(attempt.id)
    return Reply(HeartbeatShape(body.checkpoint_seq, beat.cancel_asked))


async def listing(request: Request) -> Reply:
    """Return tasks that have not ended, newest first."""
    tenant, (_, limit), query = tenant_of(request), page_of(request, 50), request.query
    named = query.get("state", "")
    if named and named not in _STATES:
        raise InvalidError("state", f"must be one of: {', '.join(_STATES)}; tasks that ended are not listed")
    states = _STATES[named] if named else (*_STATES["pending"], *_STATES["claimed"])

    def work(engine: Engine) -> list[dict[str, Any]]:
        found = [
            job
            for state in states
            for job in engine.jobs(
                state=state,
                queue=query.get("queue_name"),
                task=query.get("handler_name"),
                tenant=tenant,
                limit=limit,
            )
            if query.get("worker_id") in (None, job.worker)
        ]
        steps = engine.step_jobs([job.seq for job in found])
        return [_listed(job, steps[job.seq]) for job in found if job.seq in steps][:limit]

    return Reply(await request.service.run(work))


async def _handed_out(request: Request, body: PollBody, queue: str) -> Reply:
    check_name(body.worker_id, "worker_id")
    check_name(body.handler_name, "handler_name")
    request.tenant = tenant_in(request, body.tenant_id)
    wanted = Fetch(
        (queue,), body.limit, body.worker_id, LEASE, body.wait_ms * MILLISECOND, tasks=(body.handler_name,)
    )
    jobs: list[Claimed] = []
    steps: dict[int, StepJob] = {}
    for _ in range(TRIES):
        claimed = await claim(request, wanted)
        steps = await _steps(request, claimed)
        await _leave_others(request, claimed, steps)
        jobs = await request.service.in_time([job for job in claimed if job.seq in steps])
        if jobs or not claimed:
            break
    return Reply([_task(job, steps[job.seq], body.worker_id) for job in jobs])


async def _steps(request: Request, claimed: Sequence[Claimed]) -> dict[int, StepJob]:
    numbers = [job.seq for job in claimed]
    return await request.service.run(lambda engine: engine.step_jobs(numbers)) if numbers else {}


async def _leave_others(request: Request, claimed: Sequence[Claimed], steps: dict[int, StepJob]) -> None:
    """Give back jobs that are no steps: other workers know what to do with them."""
    others = [job for job in claimed if job.seq not in steps]
    if others:
        request.claims.jobs = [job for job in request.claims.jobs if job not in others]
        await request.service.hand_back(others)


async def _held(request: Request, worker: str, epoch: int | None) -> Running:
    """Return the attempt that a worker holds; without an epoch its name alone counts."""
    id_, tenant = request.params["id"], tenant_of(request)

    def work(engine: Engine) -> Running:
        found = engine.attempts([id_], tenant)
        if not found:
            engine.job(id_, tenant)
            raise _lost(id_)
        if not engine.step_jobs([found[0].seq]):
            raise NotFoundError("task", id_)
        return found[0]

    attempt = await request.service.run(work)
    if attempt.worker != worker or epoch not in (None, attempt.fence):
        raise _lost(id_)
    return attempt


async def _settle(request: Request, worker: str, epoch: int | None, outcome: Outcome) -> None:
    attempt = await _held(request, worker, epoch)
    settled = await request.service.settle(Settlement(attempt.seq, attempt.fence, outcome, heed_cancel=True))
    request.service.forget(attempt.id, attempt.tenant)
    if settled is None:
        raise _lost(attempt.id)


def _lost(task: str) -> ConflictError:
    return ConflictError(f"task {task!r} is not held by this worker: it ended, or its lease was lost")


def _task(job: Claimed, step: StepJob, worker: str) -> dict[str, Any]:
    return {
        **_common(job.id, step, job.task, job.args),
        "queue_name": None if job.queue == DEFAULT_QUEUE else job.queue,
        "attempt": job.attempt,
        "timeout_ms": None if job.timeout is None else job.timeout // MILLISECOND,
        "state": "claimed",
        "worker_id": worker,
        "claimed_at": written(job.started),
        "claim_epoch": job.fence,
        "created_at": written(job.enqueued),
    }


def _listed(job: JobView, step: StepJob) -> dict[str, Any]:
    return {
        **_common(job.id, step, job.task, job.args),
        "queue_name": None if job.queue == DEFAULT_QUEUE else job.queue,
        "attempt": job.attempt,
        "timeout_ms": None if job.timeout is None else job.timeout // MILLISECOND,
        "state": "claimed" if job.state is State.RUNNING else "pending",
        "worker_id": job.worker,
        "claimed_at": None if job.started is None else written(job.started),
        "claim_epoch": job.fence,
        "created_at": written(job.enqueued),
    }


def _common(id_: str, step: StepJob, task: str, args: str) -> dict[str, Any]:
    context = Context(decode(step.context))
    return {
        "id": id_,
        "instance_id": step.instance,
        "tenant_id": step.tenant,
        "block_id": block_id(step.key),
        "key": step.key,
        "handler_name": task,
        "params": decode(args).get("kwargs", {}),
        "context": {name: context.section(name) for name in SECTIONS},
        "checkpoint_seq": 0,
    }


_TASKS: Final = "/workers/tasks"
_QUERY: Final = (*PAGE, "state", "handler_name", "worker_id", "queue_name")
_TENANT: Final = ("tenant_id",)
ROUTES: Final = (
    Route("POST", f"{_TASKS}/poll", poll, WORKERS, "Take tasks of a handler", list[TaskShape], PollBody),
    Route("POST", f"{_TASKS}/poll/queue", poll_queue, WORKERS, "Take tasks of a handler in a queue",
          list[TaskShape], PollBody),
    Route("GET", _TASKS, listing, WORKERS, "List tasks that have not ended", list[TaskShape], query=_QUERY),
    Route("POST", f"{_TASKS}/{{id}}/complete", complete, WORKERS, "A task was done", body=CompleteBody,
          query=_TENANT),
    Route("POST", f"{_TASKS}/{{id}}/fail", fail, WORKERS, "A task failed", body=FailBody, query=_TENANT),
    Route("POST", f"{_TASKS}/{{id}}/heartbeat", heartbeat, WORKERS, "A worker is at work", HeartbeatShape,
          HeartbeatBody, query=_TENANT),
)  # fmt: skip
