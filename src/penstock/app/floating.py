"""Functions of users that compute floating limits, and what they are told."""

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from penstock.app.codec import decode
from penstock.errors import InvalidLimitError
from penstock.job import Refresh
from penstock.worker.floating import Refresher

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class FloatingLimit:
    """What is known of a floating limit when its value is computed.

    *value* is the present one, *refreshed* when it was computed (None: not yet), *failures* how many computations
    failed since, *metadata* what the limit was declared with.  The new value is kept within *least* and *most*.
    """

    key: str
    tenant: str
    value: int
    metadata: dict[str, Any]
    refreshed: datetime | None
    failures: int
    least: int
    most: int | None


Compute = Callable[[FloatingLimit], int | Awaitable[int]]


def refresher(name: str, compute: Compute, timeout: int) -> Refresher:
    """Return what a worker needs to have *compute* compute floating limits."""
    _check(name, compute)

    def refresh(asked: Refresh) -> object:
        return compute(_told(asked))

    async def refresh_async(asked: Refresh) -> object:
        return await compute(_told(asked))  # type: ignore[misc]

    return Refresher(refresh_async if inspect.iscoroutinefunction(compute) else refresh, timeout)


def _check(name: object, compute: object) -> None:
    if not isinstance(name, str) or not name:
        raise InvalidLimitError("handler", f"{name!r} must be the name of a handler")
    if not callable(compute):
        raise InvalidLimitError("handler", f"{compute!r} must be a function")
    try:
        inspect.signature(compute).bind(None)
    except TypeError:
        raise InvalidLimitError("handler", f"{name} must take one argument, the FloatingLimit") from None
    except ValueError:
        pass  # one written in C does not tell


def _told(asked: Refresh) -> FloatingLimit:
    refreshed = None if asked.refreshed is None else _EPOCH + timedelta(microseconds=asked.refreshed)
    return FloatingLimit(
        asked.key, asked.tenant, asked.current, decode(asked.metadata), refreshed, asked.failures, asked.least,
        asked.most,
    )  # fmt: skip
