"""Routecraft's codes for the errors of policies: an error that leaves a policy of a route has one as its `rc`."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar, Final

from penstock.errors import PenstockError
from penstock.policies import AttemptTimeout, BulkheadFull, CircuitOpen, InvalidPolicyError, RateExceeded

_CODES: Final[dict[type[PenstockError], str]] = {
    InvalidPolicyError: "RC5003",
    AttemptTimeout: "RC5011",
    RateExceeded: "RC5013",
    CircuitOpen: "RC5025",
    BulkheadFull: "RC5026",
}


class InvalidRouteError(InvalidPolicyError):
    """A route that can never run as written."""

    rc: ClassVar[str] = "RC5003"


@contextmanager
def coded() -> Iterator[None]:
    """Give errors of policies that leave this block their codes."""
    try:
        yield
    except tuple(_CODES) as error:
        if not hasattr(error, "rc"):
            code = next(code for kind, code in _CODES.items() if isinstance(error, kind))
            error.rc = code  # type: ignore[attr-defined]
        raise
