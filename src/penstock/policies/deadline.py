"""Until when is an answer of use?"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from penstock.limits.durations import Duration
from penstock.policies import moment

NEVER: Final = 2**63 - 1

ambient: Final[ContextVar[int]] = ContextVar("penstock_deadline", default=NEVER)
# Set by a timeout around a plain function, whose thread cannot be cancelled while it stands in line.
cut_off: Final[ContextVar[int]] = ContextVar("penstock_cut_off", default=NEVER)


class Caller:
    """One who waits for a plain function in another thread, until it has waited long enough."""

    gone = False


caller: Final[ContextVar[Caller | None]] = ContextVar("penstock_caller", default=None)


@contextmanager
def deadline_scope(within: Duration) -> Iterator[None]:
    """Let every limit asked in this block know that the answer is of no use *within* that time from now."""
    token = ambient.set(min(ambient.get(), moment.now() + moment.span(within, "within", zero=True)))
    try:
        yield
    finally:
        ambient.reset(token)


def current() -> int:
    """Return the moment in microseconds after which nobody waits for an answer."""
    return ambient.get()
