"""A job as the spec's clients send it, and as the engine takes it."""

from typing import Any, Final

import msgspec

from penstock.clock import MILLISECOND
from penstock.dialects.ojs.format import unique
from penstock.dialects.ojs.format.limits import limits_of
from penstock.dialects.ojs.format.names import check_id, check_queue, check_type, moment, written
from penstock.dialects.ojs.format.requests import JobBody, OptionsBody, RateLimitBody
from penstock.dialects.ojs.format.retry import policy_of
from penstock.errors import InvalidError
from penstock.http.codec import encode
from penstock.http.routes import converted
from penstock.job import NewJob
from penstock.limits.rules import Limit

# Under this name a job's meta keeps what only this dialect knows of it.
KEPT: Final = "@ojs"
_NO_OPTIONS: Final = OptionsBody()
_KNOWN: Final = frozenset(JobBody.__struct_fields__)
# Fields that the server sets; a client that sends a whole envelope back changes nothing by them.
_SYSTEM: Final = frozenset({
    "specversion", "queue", "state", "attempt", "max_attempts", "priority", "created_at", "enqueued_at",
    "started_at", "completed_at", "cancelled_at", "discarded_at", "scheduled_at", "expires_at", "result",
    "error", "errors", "retry_delay_ms", "parent_results", "tags", "progress", "timeout_ms",
    "next_attempt_at", "workflow_id",
})  # fmt: skip
_MOST_TAGS: Final = 100


def new_job(plain: object, tenant: str | None, now: int, at: str = "") -> NewJob:
    """Return the job that a client sent; *at* is its place in the body, for errors."""
    if not isinstance(plain, dict):
        raise InvalidError(at or "body", "must be a JSON object")
    try:
        return _new_job(plain, converted(plain, JobBody), tenant, now)
    except InvalidError as error:
        if not at:
            raise
        raise type(error)(f"{at}.{error.field}", error.problem) from None


def _new_job(plain: dict[str, Any], body: JobBody, tenant: str | None, now: int) -> NewJob:
    options = body.options or _NO_OPTIONS
    check_type(body.type)
    check_queue(options.queue, "options.queue")
    if body.id is not msgspec.UNSET:
        check_id(body.id)
    if options.pending:
        raise InvalidError("options.pending", "jobs that wait for a go-ahead from outside are not offered")
    meta = {**(body.meta or {}), **(options.metadata or {})}
    if KEPT in meta:
        raise InvalidError(f"meta.{KEPT}", "is a name that the server keeps for itself")
    if tenant:
        if meta.get("tenant_id", tenant) != tenant:
            raise InvalidError(
                "meta.tenant_id", f"is another tenant than {tenant!r}, for whom the request speaks"
            )
        meta["tenant_id"] = tenant
    due, expires = _times(options, now)
    kept = _kept(plain, options, due)
    return NewJob(
        body.type,
        encode({"args": body.args}).decode(),
        options.queue,
        tenant or "",
        None if body.id is msgspec.UNSET else str(body.id),
        options.priority,
        _limits(body, options),
        due=due if due is not None and due > now else None,
        expires=expires,
        timeout=None if options.timeout_ms is None else options.timeout_ms * MILLISECOND,
        retry=policy_of(options.retry),
        unique=unique.unique_of(options.unique, body, meta, options.queue),
        meta=encode({**meta, KEPT: kept} if kept else meta).decode(),
        lease=None if options.visibility_timeout_ms is None else options.visibility_timeout_ms * MILLISECOND,
    )


def _times(options: OptionsBody, now: int) -> tuple[int | None, int | None]:
    if options.delay_until is not None and options.scheduled_at is not None:
        raise InvalidError("options.delay_until", "is another name of scheduled_at; give one of them")
    due = expires = None
    if options.delay_until is not None:
        due = moment(options.delay_until, "options.delay_until", now)
    elif options.scheduled_at is not None:
        due = moment(options.scheduled_at, "options.scheduled_at", now)
    if options.expires_at is not None:
        expires = moment(options.expires_at, "options.expires_at", now)
    return due, expires


def _limits(body: JobBody, options: OptionsBody) -> tuple[Limit, ...]:
    if body.rate_limit is not None and options.rate_limit is not None:
        raise InvalidError("rate_limit", "stands in options as well; give it once")
    field, policy = (
        ("rate_limit", body.rate_limit) if body.rate_limit else ("options.rate_limit", options.rate_limit)
    )
    match policy:
        case None:
            return ()
        case RateLimitBody():
            named = [(field, policy)]
        case _:
            named = [(f"{field}[{n}]", each) for n, each in enumerate(policy)]
    return limits_of(named, options.queue)


def _kept(plain: dict[str, Any], options: OptionsBody, due: int | None) -> dict[str, Any]:
    """Return what the engine does not keep and every envelope of the job shows."""
    kept: dict[str, Any] = {}
    extra = {name: value for name, value in plain.items() if name not in _KNOWN and name not in _SYSTEM}
    if extra:
        kept["extra"] = extra
    if options.tags:
        if len(options.tags) > _MOST_TAGS:
            raise InvalidError("options.tags", f"at most {_MOST_TAGS} are allowed")
        kept["tags"] = options.tags
    if options.priority:
        kept["priority"] = options.priority
    if due is not None:
        kept["scheduled_at"] = written(due)
    if options.expires_at is not None and not options.expires_at.startswith("+"):
        kept["expires_at"] = options.expires_at
    if options.retry is not None:
        kept["attempts"] = options.retry.max_attempts
        if options.retry.non_retryable_errors:
            kept["final"] = options.retry.non_retryable_errors
    return kept
