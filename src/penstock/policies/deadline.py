"""Deadlines: until when the answer of a call is of use."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from penstock.limits.durations import Duration
from penstock.policies import clock

NEVER: Final = 2**63 - 1

ambient: Final[ContextVar[int]] = ContextVar("penstock_deadline", default=NEVER)
# Set by a timeout around a plain function, whose thread cannot be cancelled while it waits.
cut_off: Final[ContextVar[int]] = ContextVar("penstock_cut_off", default=NEVER)


class Caller:
    """The caller of a plain function that runs in another thread; *gone* once its time was over."""

    gone = False


caller: Final[ContextVar[Caller | None]] = ContextVar("penstock_caller", default=None)


@contextmanager
def deadline_scope(within: Duration) -> Iterator[None]:
    """Tell every limit asked in this block that the answer is of use only *within* that time from now."""
    token = ambient.set(min(ambient.get(), clock.now() + clock.span(within, "within", zero=True)))
    try:
        yield
    finally:
        ambient.reset(token)


def current() -> int:
    """Return the deadline of the running call, in microseconds."""
    return ambient.get()
