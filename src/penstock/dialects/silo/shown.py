"""Write jobs, their attempts and floating limits as Silo's clients read them."""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import msgspec

from penstock.clock import MILLISECOND
from penstock.dialects.silo import silo_pb2 as pb
from penstock.dialects.silo.stored import (
    LEASE_MS,
    SHARD,
    Kept,
    bytes_of,
    error_code,
    kept_in,
    refresh_id,
    shown_priority,
    task_id,
)
from penstock.job import Claimed, JobView, PastAttempt, Refresh
from penstock.lifecycle.outcomes import Ending
from penstock.lifecycle.states import State

T = TypeVar("T")

MOST_SLOTS: Final = 2**32 - 1  # that the protocol can tell of
_STATUS: Final = {
    State.SCHEDULED: pb.SCHEDULED,
    State.WAITING: pb.SCHEDULED,
    State.RUNNING: pb.RUNNING,
    State.DONE: pb.SUCCEEDED,
    State.CANCELLED: pb.CANCELLED,
    State.EXPIRED: pb.CANCELLED,
}
_ATTEMPT: Final = {
    Ending.RUNNING: pb.ATTEMPT_RUNNING,
    Ending.DONE: pb.ATTEMPT_SUCCEEDED,
    Ending.CANCELLED: pb.ATTEMPT_CANCELLED,
}
_metadata: Final = msgspec.json.Decoder(dict[str, Any]).decode


def status_of(view: JobView) -> int:
    """Return the status of a job; one that was discarded has failed, one that expired is cancelled."""
    return _STATUS.get(view.state, pb.FAILED)


def task(job: Claimed) -> pb.Task:
    """Return what a worker is told of an attempt."""
    return _of_kept(job.meta, lambda kept: _task(job, kept))


def _of_kept(meta: str, make: Callable[[Kept], T]) -> T:
    """Return what *make* makes of what a job keeps; of nothing kept, if another client wrote what cannot be said."""
    try:
        return make(kept_in(meta))
    except (TypeError, ValueError, LookupError):
        return make(Kept())


def _task(job: Claimed, kept: Kept) -> pb.Task:
    return pb.Task(
        id=task_id(job.seq, job.fence),
        job_id=job.id,
        tenant_id=job.tenant or None,
        attempt_number=job.number,
        relative_attempt_number=job.attempt,
        is_last_attempt=job.attempt > _retries(kept),
        metadata=kept.metadata,
        limits=[pb.Limit(**limit) for limit in kept.limits],
        payload=_bytes(job.args),
        priority=kept.priority,
        shard=SHARD,
        task_group=job.queue,
        lease_ms=LEASE_MS,
    )


def refresh_task(refresh: Refresh) -> pb.RefreshFloatingLimitTask:
    """Return what a worker is told of a floating limit that it must compute."""
    told = _metadata(refresh.metadata)
    return pb.RefreshFloatingLimitTask(
        id=refresh_id(refresh.gate, refresh.fence),
        queue_key=refresh.key,
        current_max_concurrency=min(refresh.current, MOST_SLOTS),
        last_refreshed_at_ms=(refresh.refreshed or 0) // MILLISECOND,
        metadata={name: value if isinstance(value, str) else str(value) for name, value in told.items()},
        lease_ms=LEASE_MS,
        shard=SHARD,
        task_group=refresh.queue,
        tenant_id=refresh.tenant or None,
    )


def job(view: JobView, history: Sequence[PastAttempt], *, attempts: bool) -> pb.GetJobResponse:
    """Return a job, with its *attempts* if they are wanted."""
    return _of_kept(view.meta, lambda kept: _job(view, kept, history, attempts=attempts))


def _job(view: JobView, kept: Kept, history: Sequence[PastAttempt], *, attempts: bool) -> pb.GetJobResponse:
    status = status_of(view)
    waits = status == pb.SCHEDULED
    changed = _changed(view, history)
    return pb.GetJobResponse(
        id=view.id,
        priority=shown_priority(view.priority),
        enqueue_time_ms=view.enqueued // MILLISECOND,
        payload=_bytes(view.args),
        retry_policy=None if kept.retry_policy is None else pb.RetryPolicy(**kept.retry_policy),
        limits=[pb.Limit(**limit) for limit in kept.limits],
        metadata=kept.metadata,
        status=status,  # type: ignore[arg-type]
        status_changed_at_ms=changed // MILLISECOND,
        attempts=[_attempt(view, past) for past in history] if attempts else (),
        next_attempt_starts_after_ms=(view.due or changed) // MILLISECOND if waits else None,
        task_group=view.queue,
        result=_bytes(view.result) if view.state is State.DONE else None,
    )


def result(view: JobView) -> pb.GetJobResultResponse:
    """Return how a job has ended."""
    finished = (view.finished or 0) // MILLISECOND
    found = pb.GetJobResultResponse(id=view.id, status=status_of(view), finished_at_ms=finished)  # type: ignore[arg-type]
    if view.state is State.DONE:
        found.success_data.msgpack = bytes_of(view.result)
    elif found.status == pb.CANCELLED:
        found.cancelled.cancelled_at_ms = finished
    else:
        error: dict[str, Any] = view.error or {"kind": view.state.value}
        found.failure.error_code = error_code(error)
        found.failure.error_data.msgpack = _details(error)
    return found


def _retries(kept: Kept) -> int:
    return 0 if kept.retry_policy is None else int(kept.retry_policy["retry_count"])


def _bytes(text: str | None) -> pb.SerializedBytes:
    return pb.SerializedBytes(msgpack=bytes_of(text))


def _details(error: dict[str, Any]) -> bytes:
    details = str(error.get("details", ""))
    return bytes_of(details) if details else b""


def _changed(view: JobView, history: Sequence[PastAttempt]) -> int:
    """Return when a job came to where it stands."""
    if view.finished is not None:
        return view.finished
    if view.state is State.RUNNING and view.started is not None:
        return view.started
    last = history[-1] if history else None
    moments = () if last is None else (last.ended, last.retried)
    return max(view.enqueued, *(moment for moment in moments if moment is not None), 0)


def _attempt(view: JobView, past: PastAttempt) -> pb.JobAttempt:
    error = past.error
    running = past.outcome is Ending.RUNNING
    return pb.JobAttempt(
        job_id=view.id,
        attempt_number=past.number,
        # Those that have ended are known by their numbers alone.
        task_id=task_id(view.seq, view.fence or 0) if running else f"{view.seq}-attempt-{past.number}",
        status=_ATTEMPT.get(past.outcome, pb.ATTEMPT_FAILED),
        started_at_ms=(past.started or 0) // MILLISECOND,
        finished_at_ms=None if past.ended is None else past.ended // MILLISECOND,
        result=_bytes(past.result) if past.outcome is Ending.DONE else None,
        error_code=None if error is None else error_code(error),
        error_data=None if error is None else pb.SerializedBytes(msgpack=_details(error)),
    )
