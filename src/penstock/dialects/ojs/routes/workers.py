"""Fetch, ack, nack and heartbeat."""

import logging
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from penstock.clock import MILLISECOND, SECOND
from penstock.dialects.ojs.format import envelope
from penstock.dialects.ojs.format.names import check_pattern, check_queue, moment, written
from penstock.dialects.ojs.format.new_job import KEPT
from penstock.dialects.ojs.format.requests import (
    DRAINING,
    ORDERS,
    RESTING,
    AckBody,
    ErrorBody,
    FetchBody,
    HeartbeatBody,
    NackBody,
)
from penstock.dialects.ojs.format.responses import JobsAnswer, SettledAnswer
from penstock.dialects.ojs.format.retry import check_error, is_final
from penstock.dialects.ojs.routes.jobs import show
from penstock.engine import Engine
from penstock.errors import InvalidError, StoreError, WrongStateError
from penstock.http.access import WORKERS
from penstock.http.codec import decode, encode
from penstock.http.fetch_order import Fetch, claim
from penstock.http.routes import Reply, Request, Route, if_possible
from penstock.http.worker_directives import RUNNING, directive, unless_idle
from penstock.http.worker_registry import WorkerRegistry
from penstock.job import Claimed, Running, Settlement
from penstock.lifecycle.outcomes import Done, Failed, HandedBack, Outcome

# Long, because a worker that sends no heartbeats keeps its jobs as long as this.
VISIBILITY: Final = 1_800 * SECOND
MOST_BEATS: Final = 10_000
TRIES: Final = 3  # if all that was claimed comes too late to begin
PUT_OFF: Final = 60 * SECOND
_FACTS: Final = ("labels", "queues", "hostname", "pid", "concurrency")  # what workers say of themselves
# What a worker is told of a job that failed, beside the job itself.
_TOLD: Final = (
    "state", "attempt", "max_attempts", "next_attempt_at", "retry_delay_ms", "completed_at", "discarded_at",
)  # fmt: skip

log = logging.getLogger("penstock.server")


async def fetch(request: Request) -> Reply:
    """Hand out jobs that may start now."""
    body = request.read(FetchBody)
    for n, name in enumerate(body.queues):
        check_queue(name, f"queues[{n}]")
    for n, name in enumerate(body.types or ()):
        check_pattern(name, f"types[{n}]")
    service = request.service
    wanted = Fetch(
        body.queues,
        body.count,
        body.worker_id,
        _lease(body.visibility_timeout_ms),
        body.wait_ms * MILLISECOND,
        body.pool,
        ORDERS[body.strategy or "strict"],
        body.weights or {},
        None if body.types is None else tuple(body.types),
    )
    wait = body.wait_ms / 1_000
    jobs: list[Claimed] = []
    shown: dict[int, msgspec.Raw] = {}
    for _ in range(TRIES):
        claimed = await unless_idle(request, body.worker_id, wait, lambda: claim(request, wanted))
        shown = await _envelopes(request, claimed)
        jobs = await service.in_time([job for job in claimed if job.seq in shown])
        if jobs or not claimed:
            break
    return Reply({"jobs": [shown[job.seq] for job in jobs]})


def _lease(milliseconds: int | None) -> int:
    return VISIBILITY if milliseconds is None else milliseconds * MILLISECOND


async def _envelopes(request: Request, claimed: Sequence[Claimed]) -> dict[int, msgspec.Raw]:
    """Return the envelopes of claimed jobs, by number; a job that cannot be written is put off."""
    shown, unreadable = {}, []
    for job in claimed:
        try:
            shown[job.seq] = msgspec.Raw(encode(await _handed_out(request, job)))
        except StoreError:
            raise
        except Exception:
            log.exception("no worker can be told of job %s; it is put off for a minute", job.id)
            unreadable.append(job)
    if unreadable:
        reason = "no worker can be told of it: its arguments or its meta cannot be read"
        await request.service.hand_back(unreadable, HandedBack(after=PUT_OFF, reason=reason))
    return shown


async def _handed_out(request: Request, job: Claimed) -> dict[str, Any]:
    if job.attempt == 1 and not job.lost:
        return envelope.of_claimed(job)
    return await request.service.run(lambda engine: show(engine, job.id, job.tenant))


async def ack(request: Request) -> Reply:
    """Record that a job was done."""
    body = request.read(AckBody)
    attempt = await held(request, body.job_id, body.worker_id)
    result = encode(body.result).decode()
    await spend(request, attempt, body.used)
    shown = await settle(request, attempt, Done(result))
    answer = {"acknowledged": True, "id": body.job_id, "job_id": body.job_id, "state": shown["state"]}
    return Reply({**answer, "completed_at": shown.get("completed_at"), "job": shown})


async def nack(request: Request) -> Reply:
    """Record that a job failed, or give it back."""
    body = request.read(NackBody)
    check_error(body.error)
    attempt = await held(request, body.job_id, body.worker_id)
    await spend(request, attempt, body.used)
    until, keys = await _shut(request, attempt, body)
    outcome: Outcome = HandedBack(begun=True)
    if not body.requeue:
        kept = decode(attempt.meta).get(KEPT, {})
        outcome = _failed(body.error, kept.get("final", []), until, keys)
    shown = await settle(request, attempt, outcome)
    told: dict[str, Any] = {name: shown[name] for name in _TOLD if name in shown}
    return Reply({"id": body.job_id, "job_id": body.job_id, **told, "job": shown})


async def _shut(request: Request, attempt: Running, body: NackBody) -> tuple[int | None, list[str]]:
    """Shut the keys whose limits a handler met elsewhere; return until when, and the keys left to the outcome."""
    error, service = body.error, request.service
    if error.rate_limit_until is None:
        return None, []
    until = moment(error.rate_limit_until, "error.rate_limit_until", service.engine.clock.now())
    view = await service.run(lambda engine: engine.job(attempt.id, attempt.tenant))
    met = [limit for limit in view.limits if error.rate_limit_key in (None, limit.key)]
    # One is shut in the transaction that records the failure.
    by_outcome = [] if body.requeue else met[:1]

    def work(engine: Engine) -> None:
        for limit in met[len(by_outcome) :]:
            tenant = limit.owner(view.tenant)
            engine.shut(limit.key, until, tenant=tenant, reason=error.message)

    if len(met) > len(by_outcome):
        await service.run(work)
    return until if by_outcome else None, [limit.key for limit in by_outcome]


def _failed(error: ErrorBody, patterns: list[str], until: int | None, keys: list[str]) -> Failed:
    sent = {
        name: value
        for name in ("code", "type", "retryable", "details")
        if (value := getattr(error, name)) is not None
    }
    return Failed(
        error.type or error.code,
        error.message,
        details=encode(sent).decode(),
        final=is_final(error, patterns),
        shut_until=until,
        shut_key=keys[0] if keys else None,
    )


async def spend(request: Request, attempt: Running, used: dict[str, int] | None) -> None:
    """Keep what an attempt used of each key, if its worker tells."""
    if used:
        await request.service.run(lambda engine: engine.spend([(attempt.seq, attempt.fence, used)]))


async def settle(request: Request, attempt: Running, outcome: Outcome) -> dict[str, Any]:
    """Settle an attempt and return its job; a conflict if it was lost or cancelled meanwhile."""
    service = request.service
    ended = await service.settle(Settlement(attempt.seq, attempt.fence, outcome, heed_cancel=True))
    claimed = service.forget(attempt.id, attempt.tenant)
    if ended is None:
        view = await service.run(lambda engine: engine.job(attempt.id, attempt.tenant))
        raise WrongStateError(attempt.id, envelope.state_of(view), "an active job held by this worker")

    async def shown() -> dict[str, Any]:
        if claimed is not None and isinstance(outcome, Done) and claimed.attempt == 1:
            return envelope.of_done(claimed, outcome.result, ended)
        return await service.run(lambda engine: show(engine, attempt.id, attempt.tenant))

    # It is settled: a worker that reads an error would settle it again, in vain.
    known = {"id": attempt.id, **({"state": "completed"} if isinstance(outcome, Done) else {})}
    return await if_possible(shown(), known)


async def held(request: Request, job_id: str, worker: str) -> Running:
    """Return the attempt that a worker holds; a conflict if it holds none."""
    known = request.service.held(job_id, request.tenant)
    if known is not None:
        job, holder = known
        if not worker or worker == holder:
            return Running(job.id, job.seq, job.fence, holder, job.queue, job.task, job.tenant, job.meta)
    return await request.service.run(lambda engine: _running(engine, job_id, request.tenant, worker))


def _running(engine: Engine, job_id: str, tenant: str | None, worker: str) -> Running:
    found = engine.attempts([job_id], tenant)
    mine = [each for each in found if not (worker and each.worker and worker != each.worker)]
    if len(mine) == 1:
        return mine[0]
    if mine:
        whose = ", ".join(repr(each.tenant) for each in mine)
        raise InvalidError(
            "job_id", f"jobs of several tenants have the id {job_id!r}: {whose}; name one in X-OJS-Tenant"
        )
    view = engine.job(job_id, tenant)
    if any(each.seq == view.seq for each in found):
        raise WrongStateError(job_id, "active", "a job that this worker holds")
    raise WrongStateError(job_id, envelope.state_of(view), "an active job")


async def heartbeat(request: Request) -> Reply:
    """Renew the leases of a worker's jobs, and tell it whether to go on."""
    body = request.read(HeartbeatBody)
    ids = body.active_job_ids or (body.active_jobs if isinstance(body.active_jobs, list) else [])
    if len(ids) > MOST_BEATS:
        raise InvalidError("active_jobs", f"has {len(ids)} jobs; at most {MOST_BEATS} are allowed")
    _note(request, body, len(ids))
    alive = await request.service.run(lambda engine: _renew(engine, request, body, ids))
    wished = _test_directive(alive) if request.service.test_mode else ""
    state = wished or await directive(request, request.owner, body.worker_id) or RUNNING
    return Reply(
        {
            "acknowledged": True,
            "state": state,
            "directive": state,
            "jobs_extended": [attempt.id for attempt in alive],
            "server_time": written(request.now),
        }
    )


def _note(request: Request, body: HeartbeatBody, active: int) -> None:
    """Note what a worker says of itself."""
    state = DRAINING.get(body.state or "", body.state or RUNNING)
    request.service.part(WorkerRegistry).beat(
        body.worker_id,
        request.tenant,
        request.now,
        {name: value for name in _FACTS if (value := getattr(body, name)) is not None},
        state=state,
        resting=state in RESTING,
        active=body.active_jobs if isinstance(body.active_jobs, int) else active,
    )


def _test_directive(alive: Sequence[Running]) -> str:
    """Return what the jobs of a worker ask of it: a hook of the conformance tests."""
    for attempt in alive:
        wanted = decode(attempt.meta).get("test_directive")
        if wanted in ("quiet", "terminate"):
            return str(wanted)
    return ""


def _renew(engine: Engine, request: Request, body: HeartbeatBody, ids: list[str]) -> list[Running]:
    """Renew the leases of running attempts, each for its own time; return those still held."""
    asked = _lease(body.visibility_timeout_ms)
    spans: dict[int, list[Running]] = {}
    for attempt in engine.attempts(ids, request.tenant):
        if not (body.worker_id and attempt.worker and attempt.worker != body.worker_id):
            spans.setdefault(attempt.own_lease or asked, []).append(attempt)
    alive = []
    for span, attempts in spans.items():
        beats = engine.heartbeat([(attempt.seq, attempt.fence) for attempt in attempts], lease=span)
        alive += [attempt for attempt, beat in zip(attempts, beats, strict=True) if beat.alive]
    return alive


ROUTES = (
    Route("POST", "/workers/fetch", fetch, WORKERS, "Fetch jobs to work on", JobsAnswer, FetchBody),
    Route("POST", "/workers/ack", ack, WORKERS, "A job was done", SettledAnswer, AckBody),
    Route("POST", "/workers/nack", nack, WORKERS, "A job failed", SettledAnswer, NackBody),
    Route("POST", "/workers/heartbeat", heartbeat, WORKERS, "A worker is alive", body=HeartbeatBody),
    Route("POST", "/workers/beat", heartbeat, WORKERS, "A worker is alive", body=HeartbeatBody),
)
