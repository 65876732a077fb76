"""Errors: a sentence that begins with the field, and what programs need beside it."""

from typing import Final

from msgspec import Struct

from penstock.errors import (
    ConflictError,
    InvalidError,
    NotFoundError,
    PenstockError,
    QueueFullError,
    StoreError,
    TenantLimitError,
    WrongStateError,
)
from penstock.http.errors import RefusedError, status_of
from penstock.http.routes import Reply

_BAD: Final = 400
_CODES: Final = {
    InvalidError: "invalid_argument",
    NotFoundError: "not_found",
    WrongStateError: "wrong_state",
    QueueFullError: "too_many",
    TenantLimitError: "too_many",
    ConflictError: "conflict",
    StoreError: "unavailable",
}


class ErrorShape(Struct, omit_defaults=True):
    """What went wrong; *field* is the one to correct."""

    error: str
    code: str
    request_id: str
    field: str | None = None


class TooLargeError(RefusedError):
    """A part of a request that is larger than is taken."""

    def __init__(self, field: str, size: int, most: int) -> None:
        super().__init__(
            413, "payload_too_large", f"{field}: has {size:,} bytes as JSON; at most {most:,} are allowed"
        )
        self.field = field


def answer(error: PenstockError, request_id: str) -> Reply:
    """Return what went wrong."""
    status, code, headers = status_of(error), _code(error), dict[str, str]()
    field = getattr(error, "field", None)
    if isinstance(error, RefusedError):
        headers = error.headers
    elif isinstance(error, WrongStateError):
        status = _BAD
    elif isinstance(error, QueueFullError | TenantLimitError | StoreError):
        headers = {"Retry-After": "1"}
    shape = ErrorShape(str(error), code, request_id, field if isinstance(field, str) else None)
    return Reply(shape, status, headers)


def _code(error: PenstockError) -> str:
    if isinstance(error, RefusedError):
        return error.reason
    return next((code for kind, code in _CODES.items() if isinstance(error, kind)), "internal_error")
