"""What the server refuses by itself, and which status each error has."""

from typing import Final

from penstock.errors import (
    ConflictError,
    InvalidError,
    NotFoundError,
    PenstockError,
    QueueFullError,
    StoreError,
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


class TenantLimitError(ConflictError):
    """A tenant has as much as it may have."""

    code = "tenant_limit"

    def __init__(self, tenant: str, limit: str, current: int, maximum: int, retry_after: int = 1) -> None:
        super().__init__(f"tenant {tenant!r} has used up {limit}: it has {current} and may have {maximum}")
        self.tenant = tenant
        self.limit = limit
        self.current = current
        self.maximum = maximum
        self.retry_after = retry_after


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
