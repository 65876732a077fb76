"""A job as the engine knows it, and as the spec shows it."""

from collections.abc import Sequence
from typing import Any

from penstock.clock import MILLISECOND
from penstock.dialects.ojs.format.limits import policy
from penstock.dialects.ojs.format.names import VERSION, written
from penstock.dialects.ojs.format.new_job import KEPT
from penstock.dialects.ojs.format.retry import DEFAULT_ATTEMPTS
from penstock.dialects.ojs.format.states import SPEC_STATE
from penstock.http.codec import decode
from penstock.job import Claimed, Enqueued, Failure, JobView, NewJob
from penstock.lifecycle.states import State
from penstock.limits.costs import with_costs
from penstock.limits.rules import Limit
from penstock.limits.spec import limits_from_json


def state_of(view: JobView) -> str:
    """Return what the spec calls the state of a job."""
    if view.state is State.RUNNING and view.cancel_at:
        # Its slots stay taken until its worker lets go of it or is lost: they are in use.
        return "cancelled"
    if view.state is State.SCHEDULED and view.used and not view.rescheduled:
        return "retryable"
    return SPEC_STATE[view.state]


def of_view(view: JobView, failures: Sequence[Failure] = ()) -> dict[str, Any]:
    """Return the envelope of a job."""
    state = state_of(view)
    shown = _base(view.id, view.task, view.queue, view.args, view.meta, state, view.enqueued)
    # The spec counts an attempt that was lost with its worker; the engine grants it again, so the maximum grows.
    shown |= {
        "priority": view.priority,
        "attempt": view.attempt,
        "max_attempts": view.max_attempts + view.lost,
    }
    _bound(shown, view.limits, view.expires, view.timeout)
    if view.workflow is not None:
        shown["workflow_id"] = view.workflow
    if view.due is not None and state in ("scheduled", "retryable"):
        shown["next_attempt_at" if state == "retryable" else "scheduled_at"] = written(view.due)
    _ended(shown, view, state)
    if view.progress is not None:
        shown["progress"] = decode(view.progress)
    if failures:
        _failed(shown, view, failures)
    return shown


def _ended(shown: dict[str, Any], view: JobView, state: str) -> None:
    if view.started is not None:
        shown["started_at"] = written(view.started)
    if state == "cancelled":
        shown["cancelled_at"] = written(view.cancel_at or view.finished or 0)
    elif view.finished is not None:
        if view.state is not State.EXPIRED:
            shown["completed_at"] = written(view.finished)
        if state == "discarded":
            shown["discarded_at"] = written(view.finished)
    if view.state is State.DONE and view.result is not None:
        shown["result"] = decode(view.result)
    if view.reason and state != "completed":
        shown["reason"] = view.reason


def _failed(shown: dict[str, Any], view: JobView, failures: Sequence[Failure]) -> None:
    errors = [shown_failure(failure) for failure in failures]
    shown["errors"] = errors
    if view.state not in (State.DONE, State.RUNNING):
        shown["error"] = errors[-1]
    delay = failures[-1].delay
    if delay is not None:
        shown["retry_delay_ms"] = delay // MILLISECOND


def shown_failure(failure: Failure) -> dict[str, Any]:
    """Return a failed attempt the way the spec shows it."""
    sent = decode(failure.details) if failure.details else {}
    return {
        **sent,
        "code": sent.get("code", failure.kind),
        "type": sent.get("type") or failure.kind,
        "message": failure.message,
        "attempt": failure.attempt,
        "occurred_at": written(failure.at),
    }


def of_claimed(job: Claimed) -> dict[str, Any]:
    """Return the envelope of a job that is being handed out for the first time."""
    shown = _base(job.id, job.task, job.queue, job.args, job.meta, "active", job.enqueued)
    shown |= {"attempt": job.attempt, "started_at": written(job.begin_from or job.started)}
    limits = with_costs(limits_from_json(job.limits), job.costs) if job.limits else ()
    _bound(shown, limits, job.expires, job.timeout)
    if job.workflow is not None:
        shown["workflow_id"] = job.workflow
    return shown


def of_done(job: Claimed, result: str, at: int) -> dict[str, Any]:
    """Return the envelope of a job that was done *at* this moment, at its first attempt."""
    ended = {"state": "completed", "completed_at": written(at), "result": decode(result)}
    return of_claimed(job) | ended


def of_new(job: NewJob, added: Enqueued) -> dict[str, Any]:
    """Return the envelope of a job that was just enqueued."""
    later = job.due is not None and job.due > added.at
    state = "scheduled" if later else "available"
    shown = _base(added.id, job.task, job.queue, job.args, job.meta, state, added.at)
    shown["attempt"] = 0
    if job.due is not None and later:
        shown["scheduled_at"] = written(job.due)
    _bound(shown, job.limits, job.expires, job.timeout)
    return shown


def _bound(shown: dict[str, Any], limits: Sequence[Limit], expires: int | None, timeout: int | None) -> None:
    """Add what bounds a job: its limits, the time until which it may start, and how long it may take."""
    if limits:
        shown["rate_limit"] = policy(limits)
    if expires is not None and "expires_at" not in shown:
        shown["expires_at"] = written(expires)
    if timeout is not None:
        shown["timeout_ms"] = timeout // MILLISECOND


def _base(id_: str, task: str, queue: str, args: str, meta: str, state: str, enqueued: int) -> dict[str, Any]:
    call = decode(args)
    described: dict[str, Any] = decode(meta)
    kept = described.pop(KEPT, {})
    parents = described.pop("parent_results", None)
    at = written(enqueued)
    shown: dict[str, Any] = {
        **kept.get("extra", {}),
        "specversion": VERSION,
        "id": id_,
        "type": task,
        "queue": queue,
        "state": state,
        "args": call.get("args", []),
        "meta": described,
        "priority": kept.get("priority", 0),
        "max_attempts": kept.get("attempts", DEFAULT_ATTEMPTS),
        "created_at": at,
        "enqueued_at": at,
    }
    if call.get("kwargs"):
        shown["kwargs"] = call["kwargs"]
    if parents is not None:
        shown["parent_results"] = parents
    for name in ("tags", "scheduled_at", "expires_at"):
        if name in kept:
            shown[name] = kept[name]
    return shown
