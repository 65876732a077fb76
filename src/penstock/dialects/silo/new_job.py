"""Read the jobs that a client sends, to enqueue them or to bring them in from elsewhere."""

from collections.abc import Mapping
from typing import Any, Final

from penstock.clock import MILLISECOND
from penstock.dialects.silo import silo_pb2 as pb
from penstock.dialects.silo.errors import invalid
from penstock.dialects.silo.limits import MOST_MS, check_name, finite, read_limits, whole
from penstock.dialects.silo.stored import GROUP, TASK, Kept, meta_of, stored_priority, text_of
from penstock.errors import InvalidError
from penstock.job import ImportedAttempt, ImportedJob, NewJob
from penstock.lifecycle.checks import MAX_NUMBER
from penstock.lifecycle.outcomes import Ending
from penstock.lifecycle.retry import MAX_ATTEMPTS, RetryPolicy
from penstock.lifecycle.states import State

MOST_METADATA: Final = 16  # entries
LONGEST_NAME: Final = 64  # characters of a tenant or a task group; names of metadata are shorter
LONGEST_VALUE: Final = 65_535  # bytes; values of metadata are shorter
_LEAST_URGENT: Final = 99
_NO_RETRIES: Final = RetryPolicy(lost_counts=True)
_ENDINGS: Final = {
    pb.ATTEMPT_SUCCEEDED: Ending.DONE,
    pb.ATTEMPT_FAILED: Ending.FAILED,
    pb.ATTEMPT_CANCELLED: Ending.CANCELLED,
}


def new_job(sent: pb.EnqueueRequest | pb.ImportJobRequest, tenant: str) -> NewJob:
    """Return the job that was *sent*; raise `InvalidError`, which names the field, unless it could ever run."""
    if sent.priority > _LEAST_URGENT:
        raise invalid(f"priority must be between 0 and {_LEAST_URGENT}")
    limits, kept = read_limits(sent.limits)
    retry, kept_retry = _retry(sent)
    meta = Kept(sent.priority, _metadata(sent.metadata), kept, kept_retry)
    return NewJob(
        TASK,
        text_of(sent.payload.msgpack, "payload"),
        task_group(sent.task_group),
        tenant,
        check_name("id", sent.id) if sent.id else None,
        stored_priority(sent.priority),
        limits,
        due=_moment("start_at_ms", sent.start_at_ms),
        retry=retry,
        meta=meta_of(meta),
    )


def imported_job(sent: pb.ImportJobRequest, tenant: str) -> ImportedJob:
    """Return a job from elsewhere that was *sent*, with the attempts that it made there."""
    if not sent.id:
        raise invalid("job id is required for import")
    job = new_job(sent, tenant)
    attempts = tuple(_attempt(each, f"attempts[{n}]") for n, each in enumerate(sent.attempts))
    state = _state(attempts, job.retry)
    finished = attempts[-1].ended if state is not None else None
    return ImportedJob(job, attempts, state, _moment("enqueue_time_ms", sent.enqueue_time_ms), finished)


def task_group(name: str) -> str:
    """Return the queue of a task group; clients may leave it out."""
    if len(name) > LONGEST_NAME:
        raise invalid(f"task_group too long (must be <= {LONGEST_NAME} chars)")
    return check_name("task_group", name) if name else GROUP


def _retry(sent: pb.EnqueueRequest | pb.ImportJobRequest) -> tuple[RetryPolicy, dict[str, Any] | None]:
    """Return the retry policy of a job, and as it is kept; a worker that is lost uses up an attempt."""
    if not sent.HasField("retry_policy"):
        return _NO_RETRIES, None
    policy, field = sent.retry_policy, "retry_policy"
    first = whole(f"{field}.initial_interval_ms", policy.initial_interval_ms, 0, MOST_MS)
    longest = whole(f"{field}.max_interval_ms", policy.max_interval_ms, 0, MOST_MS)
    factor = finite(f"{field}.backoff_factor", policy.backoff_factor)
    retry = RetryPolicy(
        min(policy.retry_count + 1, MAX_ATTEMPTS),
        delay=first * MILLISECOND,
        cap=longest * MILLISECOND or MAX_NUMBER,  # 0: none was given
        factor=factor or 1.0,  # the same
        jitter=policy.randomize_interval,
        lost_counts=True,
    )
    return retry, {
        "retry_count": policy.retry_count,
        "initial_interval_ms": first,
        "max_interval_ms": longest,
        "randomize_interval": policy.randomize_interval,
        "backoff_factor": factor,
    }


def _metadata(sent: Mapping[str, str]) -> dict[str, str]:
    if len(sent) > MOST_METADATA:
        raise invalid(f"metadata has too many entries (max {MOST_METADATA})")
    for name, value in sent.items():
        if len(name) >= LONGEST_NAME:
            raise invalid(f"metadata key too long (must be < {LONGEST_NAME} chars)")
        if len(value.encode()) >= LONGEST_VALUE:
            raise invalid("metadata value too long (must be < u16::MAX bytes)")
    return dict(sent)


def _attempt(sent: pb.ImportAttempt, field: str) -> ImportedAttempt:
    outcome = _ENDINGS.get(sent.status)
    if outcome is None:
        raise invalid("import attempts must be terminal (not Running)")
    ended = whole(f"{field}.finished_at_ms", sent.finished_at_ms, 0, MOST_MS) * MILLISECOND
    started = whole(f"{field}.started_at_ms", sent.started_at_ms, 0, MOST_MS) * MILLISECOND
    error = None
    if outcome is Ending.FAILED:
        details = text_of(sent.error_data.msgpack, f"{field}.error_data")
        error = {"kind": sent.error_code, "message": failed_with(sent.error_code), "details": details}
    result = text_of(sent.result.msgpack, f"{field}.result") if outcome is Ending.DONE else None
    return ImportedAttempt(outcome, ended, started, result=result, error=error)


def failed_with(code: str) -> str:
    """Say how an attempt failed."""
    return f"failed with code {code!r}"


def _state(attempts: tuple[ImportedAttempt, ...], retry: RetryPolicy) -> State | None:
    """Return how a job with these attempts has ended; None if it has not."""
    match attempts[-1].outcome if attempts else None:
        case Ending.DONE:
            return State.DONE
        case Ending.CANCELLED:
            return State.CANCELLED
        case Ending.FAILED:
            failed = sum(attempt.outcome is Ending.FAILED for attempt in attempts)
            return State.FAILED if failed >= retry.attempts else None
        case _:
            return None


def _moment(field: str, sent: int) -> int | None:
    """Return a moment; None for 0, which means now, or one before the epoch."""
    if sent > MOST_MS:
        raise InvalidError(field, f"{sent} is too far in the future")
    return sent * MILLISECOND if sent > 0 else None
