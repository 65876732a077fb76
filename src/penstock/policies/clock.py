"""The clock of policies: `clock.now()`, in microseconds.

It only moves forward, also while the machine sleeps, since leases of shared slots end meanwhile.  Tests put another
clock in its place.
"""

from collections.abc import Callable

from penstock.clock import since_boot
from penstock.limits.durations import Duration, parse_duration
from penstock.policies.errors import InvalidPolicyError

now: Callable[[], int] = since_boot


def span(value: Duration, field: str, *, zero: bool = False) -> int:
    """Return *value* in microseconds, or raise an error that names *field*."""
    return parse_duration(value, field, zero=zero, error=InvalidPolicyError)


def optional_span(value: Duration | None, field: str) -> int | None:
    """Return *value* in microseconds if there is one."""
    return None if value is None else span(value, field)
