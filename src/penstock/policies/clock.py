"""Time in policies: `clock.now()`, in microseconds, and until when the answer of a call is of use.

The clock only moves forward, also while the machine sleeps, since leases of shared slots end meanwhile.  Tests put
another clock in its place.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from penstock.clock import since_boot
from penstock.limits.durations import Duration, parse_duration
from penstock.policies.errors import InvalidPolicyError

NEVER: Final = 2**63 - 1

now: Callable[[], int] = since_boot

deadline: Final[ContextVar[int]] = ContextVar("penstock_deadline", default=NEVER)
# Set by a timeout around a plain function, whose thread cannot be cancelled while it waits.
cut_off: Final[ContextVar[int]] = ContextVar("penstock_cut_off", default=NEVER)


class Caller:
    """The caller of a plain function that runs in another thread; *gone* once its time was over."""

    gone = False


caller: Final[ContextVar[Caller | None]] = ContextVar("penstock_caller", default=None)


@contextmanager
def deadline_scope(within: Duration) -> Iterator[None]:
    """Tell every limit asked in this block that the answer is of use only *within* that time from now."""
    token = deadline.set(min(deadline.get(), now() + span(within, "within", zero=True)))
    try:
        yield
    finally:
        deadline.reset(token)


def latest(until: int, *, in_thread: bool) -> int:
    """Return how long the running call may wait that wishes to wait *until* then."""
    until = min(until, deadline.get())
    return min(until, cut_off.get()) if in_thread else until


def span(value: Duration, field: str, *, zero: bool = False) -> int:
    """Return *value* in microseconds, or raise an error that names *field*."""
    return parse_duration(value, field, zero=zero, error=InvalidPolicyError)


def optional_span(value: Duration | None, field: str) -> int | None:
    """Return *value* in microseconds if there is one."""
    return None if value is None else span(value, field)
