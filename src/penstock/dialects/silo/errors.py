"""How a refusal is written: a code of gRPC, and words that Silo's clients know."""

from typing import Final

import grpc

from penstock.errors import (
    ConflictError,
    DuplicateJobError,
    InvalidError,
    NotFoundError,
    PenstockError,
    QueueFullError,
    StoreError,
    TenantLimitError,
)
from penstock.http.errors import RefusedError

_CODES: Final = {
    InvalidError: grpc.StatusCode.INVALID_ARGUMENT,
    NotFoundError: grpc.StatusCode.NOT_FOUND,
    DuplicateJobError: grpc.StatusCode.ALREADY_EXISTS,
    QueueFullError: grpc.StatusCode.RESOURCE_EXHAUSTED,
    TenantLimitError: grpc.StatusCode.RESOURCE_EXHAUSTED,
    ConflictError: grpc.StatusCode.FAILED_PRECONDITION,
    StoreError: grpc.StatusCode.UNAVAILABLE,
}
_LONGEST: Final = 500  # characters, which must fit into a header
_REFUSED: Final = {401: grpc.StatusCode.UNAUTHENTICATED, 403: grpc.StatusCode.PERMISSION_DENIED}


class CallError(PenstockError):
    """A call that is refused with this *status* of gRPC."""

    def __init__(self, status: grpc.StatusCode, message: str, trailer: tuple[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.trailer = trailer


class LeaseGoneError(CallError):
    """The attempt has ended, or another worker has the refresh."""

    def __init__(self) -> None:
        super().__init__(grpc.StatusCode.NOT_FOUND, "lease not found")


def refused(message: str) -> CallError:
    """Return the refusal of a good call at a bad moment."""
    return CallError(grpc.StatusCode.FAILED_PRECONDITION, message)


def invalid(message: str) -> CallError:
    """Return the refusal of a call that can never succeed, in Silo's own words."""
    return CallError(grpc.StatusCode.INVALID_ARGUMENT, message)


def status_of(error: PenstockError) -> grpc.StatusCode:
    """Return the status of a call that ends with *error*."""
    if isinstance(error, CallError):
        return error.status
    if isinstance(error, RefusedError):
        return _REFUSED.get(error.status, grpc.StatusCode.FAILED_PRECONDITION)
    return next(
        (code for kind, code in _CODES.items() if isinstance(error, kind)),
        grpc.StatusCode.FAILED_PRECONDITION,
    )


def message_of(error: PenstockError) -> str:
    """Return what a client is told of *error*."""
    if isinstance(error, NotFoundError) and error.kind == "job":
        return "job not found"
    text = str(error)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
