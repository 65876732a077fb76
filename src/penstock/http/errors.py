"""What the server refuses by itself, and which status each error has."""

from typing import Final

from penstock.errors import (
    ConflictError,
    InvalidError,
    NotFoundError,
    PenstockError,
    QueueFullError,
    StoreError,
    TenantLimitError,
)


class GoneError(Exception):
    """The client has hung up."""


class RefusedError(PenstockError):
    """A request that no handler looks at; dialects write its status and its *reason*, a code such as `unauthorized`."""

    def __init__(self, status: int, reason: str, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.headers = headers or {}


class ForbiddenError(RefusedError):
    """The token does not allow it."""

    def __init__(self, message: str) -> None:
        super().__init__(403, "forbidden", message)


class BadBodyError(InvalidError):
    """The body is no JSON at all."""

    code = "invalid_payload"


_STATUS: Final = {
    InvalidError: 400,
    NotFoundError: 404,
    QueueFullError: 429,
    TenantLimitError: 429,
    ConflictError: 409,
    StoreError: 503,
}


def status_of(error: PenstockError) -> int:
    """Return the status of the answer that tells of *error*."""
    if isinstance(error, RefusedError):
        return error.status
    return next((status for kind, status in _STATUS.items() if isinstance(error, kind)), 500)
