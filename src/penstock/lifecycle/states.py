"""What may happen to a job next?

The state table is data; everything that moves a job asks `may`.
"""

from enum import StrEnum
from typing import Final


class State(StrEnum):
    """Where a job stands."""

    SCHEDULED = "scheduled"
    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    DISCARDED = "discarded"
    CANCELLED = "cancelled"
    EXPIRED = "expired"


S = State
TRANSITIONS: Final[dict[State, frozenset[State]]] = {
    S.SCHEDULED: frozenset({S.WAITING, S.CANCELLED, S.EXPIRED, S.DISCARDED}),
    S.WAITING: frozenset({S.RUNNING, S.CANCELLED, S.EXPIRED, S.DISCARDED}),
    S.RUNNING: frozenset({S.DONE, S.FAILED, S.DISCARDED, S.CANCELLED, S.SCHEDULED, S.WAITING}),
    S.DONE: frozenset(),
    # Retrying or re-queueing by hand goes through the gates like any start.
    S.FAILED: frozenset({S.WAITING}),
    S.DISCARDED: frozenset({S.WAITING}),
    S.CANCELLED: frozenset({S.WAITING}),
    S.EXPIRED: frozenset({S.WAITING}),
}

LIVE: Final = frozenset({S.SCHEDULED, S.WAITING, S.RUNNING})
ENDED: Final = frozenset(State) - LIVE


def may(before: State, after: State) -> bool:
    """Tell whether a job may go from *before* to *after*."""
    return after in TRANSITIONS[before]
