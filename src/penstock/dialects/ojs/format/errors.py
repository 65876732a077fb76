"""The spec's error envelope."""

from typing import Any, Final

from penstock.clock import SECOND
from penstock.dialects.ojs.format.retry import RetryPolicyError
from penstock.errors import (
    ConflictError,
    DuplicateJobError,
    InvalidError,
    NotFoundError,
    PenstockError,
    QueueFullError,
    StoreError,
    TenantLimitError,
    WrongStateError,
)
from penstock.http.errors import BadBodyError, RefusedError
from penstock.http.routes import Reply

_DOCS: Final = "https://openjobspec.org/docs/errors#"
_HINTS: Final = {
    "invalid_payload": "Send a JSON object with Content-Type application/openjobspec+json.",
    "invalid_request": "Correct the field that is named in details.field and send the request again.",
    "validation_error": "Correct the field that is named in details.field and send the request again.",
    "not_found": "Check the path, the id or the name; /docs lists the paths.",
    "duplicate": "A job like this exists; details.existing_job_id names it.",
    "conflict": "Look at the job's state; what was asked for is not possible in it.",
    "QUEUE_FULL": "Send the job again after the time that Retry-After says.",
    "TENANT_LIMIT_EXCEEDED": "Wait until some of the tenant's jobs have ended; details say which limit it is.",
    "unavailable": "The store cannot be reached; try again soon.",
    "host_not_allowed": "Ask for localhost, or start the server with --allow-host or with a token.",
    "origin_not_allowed": "Ask from a program, or type the address; a page of another site is never answered.",
    "unauthorized": "Send a token: Authorization: Bearer <token>.",
    "forbidden": "This token does not allow it; use one with the role that the message names.",
    "method_not_allowed": "The Allow header names the methods of this path.",
    "payload_too_large": "Send fewer jobs at a time, or smaller arguments.",
    "unsupported_media_type": "Send JSON: application/openjobspec+json or application/json.",
    "internal_error": "This is a defect of the server; its log tells more under the request's id.",
}
_LIMITS: Final = {"waiting": "max_queue_depth", "scheduled": "max_scheduled", "rate": "max_enqueue_rate"}
_WORDS: Final = {"gate": "rate limit key", "schedule": "cron job", "webhook": "subscription"}


def envelope(
    status: int,
    code: str,
    message: str,
    request_id: str,
    details: dict[str, Any] | None = None,
    headers: dict[str, str] | None = None,
    kind: str | None = None,
    hint: str = "",
) -> Reply:
    """Return an error the way the spec writes it."""
    error: dict[str, Any] = {
        "code": code,
        "type": kind or code,
        "message": message,
        "retryable": status >= 500 or status == 429,  # noqa: PLR2004 - the server's own, or too much just now
        "hint": hint or _HINTS.get(code, "See the documentation."),
        "docs_url": f"{_DOCS}{code.lower()}",
        "request_id": request_id,
    }
    if details:
        error["details"] = details
    return Reply({"error": error}, status, headers or {})


def answer(error: PenstockError, request_id: str) -> Reply:  # noqa: PLR0911 - a table, really
    """Return what went wrong, as the spec writes it."""
    text = str(error)
    match error:
        case RefusedError(status=status, reason=code, headers=headers):
            return envelope(status, code, text, request_id, headers=headers)
        case RetryPolicyError(field=field):
            details = {"field": field}
            return envelope(422, "invalid_request", text, request_id, details, kind="validation_error")
        case BadBodyError():
            return envelope(400, "invalid_payload", text, request_id)
        case InvalidError(field=field):
            return envelope(
                400, "invalid_request", text, request_id, {"field": field}, kind="validation_error"
            )
        case NotFoundError(kind=kind, name=name):
            text = f"no {_WORDS.get(kind, kind)} {name!r}"
            hint = "Check the id; jobs that ended are forgotten after a while." if kind == "job" else ""
            return envelope(404, "not_found", text, request_id, hint=hint)
        case DuplicateJobError(existing=existing):
            return envelope(409, "duplicate", text, request_id, {"existing_job_id": existing})
        case QueueFullError(queue=queue, depth=depth, bound=bound):
            headers = {"Retry-After": "1", "X-OJS-Queue-Depth": str(depth), "X-OJS-Queue-Bound": str(bound)}
            full: dict[str, Any] = {"queue": queue, "depth": depth, "max_depth": bound}
            return envelope(429, "QUEUE_FULL", text, request_id, full, headers)
        case WrongStateError(state=state):
            return envelope(409, "conflict", text, request_id, {"state": state})
        case TenantLimitError(tenant=tenant, limit=limit, current=current, maximum=maximum):
            used = {"tenant_id": tenant, "limit": _LIMITS[limit], "current": current, "maximum": maximum}
            headers = {"Retry-After": str(max(1, -(-(error.retry_after or 0) // SECOND)))}
            return envelope(429, "TENANT_LIMIT_EXCEEDED", text, request_id, used, headers)
        case ConflictError():
            return envelope(409, "conflict", text, request_id)
        case StoreError():
            return envelope(503, "unavailable", text, request_id, headers={"Retry-After": "1"})
        case _:
            return envelope(500, "internal_error", text, request_id)
