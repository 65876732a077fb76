"""Names, moments and tenants as requests write them."""

from datetime import UTC, datetime, timedelta
from typing import Final

from penstock.errors import InvalidError
from penstock.http.errors import ForbiddenError
from penstock.http.routes import Request
from penstock.names import name_problem

PAGE: Final = ("tenant_id", "limit", "offset")
DEFAULT_NAMESPACE: Final = "default"
_EPOCH: Final = datetime.fromtimestamp(0, UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_LAST: Final = 253_402_300_799_999_999  # the last moment that a date of four digits can name


def check_name(name: str, field: str, most: int = 900) -> str:
    """Return *name*: any text without control characters, and not empty."""
    if (problem := name_problem(name, most)) is not None:
        raise InvalidError(field, problem)
    return name


def tenant_in(request: Request, named: str | None) -> str | None:
    """Return the tenant of a request: of its token or its header, else the one that its body or its query names."""
    if named is None:
        return request.tenant
    check_name(named, "tenant_id")
    if request.tenant not in (None, named):
        raise ForbiddenError(f"tenant_id: this request speaks for tenant {request.tenant!r} only")
    return named


def tenant_of(request: Request) -> str | None:
    """Return the tenant of a request whose body names none; None if it may mean any."""
    return tenant_in(request, request.query.get("tenant_id"))


def page_of(request: Request, limit: int = 100) -> tuple[int, int]:
    """Return how many of a list to leave out, and how many to show."""
    return request.number("offset", 0, 0, 1_000_000), request.number("limit", limit, 1, 1_000)


def moment(text: str, field: str) -> int:
    """Return a moment in microseconds since the epoch."""
    try:
        found = datetime.fromisoformat(text.upper())
        if found.tzinfo is None:
            raise InvalidError(field, f"{text[:40]!r} needs a time zone, as in 2026-02-13T12:00:00Z")
        at = (found - _EPOCH) // _MICROSECOND
    except (ValueError, OverflowError):
        raise InvalidError(field, f"{text[:40]!r} must be a moment, such as 2026-02-13T12:00:00Z") from None
    if not 0 <= at <= _LAST:
        raise InvalidError(field, f"{text[:40]!r} is too far away")
    return at


def written(at: int) -> str:
    """Return a moment as RFC 3339."""
    shown = (_EPOCH + timedelta(microseconds=min(max(at, 0), _LAST))).isoformat(timespec="milliseconds")
    return shown.replace("+00:00", "Z").replace(".000Z", "Z")


def maybe_written(at: int | None) -> str | None:
    """Return a moment as RFC 3339, if there is one."""
    return None if at is None else written(at)
