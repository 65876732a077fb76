"""Attempts whose start a gate remembers, until the store was told when they began.

More than one thread may claim such attempts; the pump alone tells of them.
"""

import threading
from collections.abc import Collection, Sequence
from typing import Final

from penstock.clock import MILLISECOND, since_boot
from penstock.worker.attempt import Attempt

# How long handlers have to begin, and those that have to end, before the pump tells of their begin alone: the
# settlement of one that has ended tells of it too.
BEGINNING: Final = 4 * MILLISECOND


class Beginnings:
    """Is true while there is an attempt to tell of."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._attempts: list[Attempt] = []

    def __len__(self) -> int:
        return len(self._attempts)

    def add(self, attempts: Sequence[Attempt]) -> None:
        """Watch for the begin of *attempts*, which were claimed."""
        with self._lock:
            self._attempts += attempts

    def begun(self) -> list[Attempt]:
        """Return the attempts that have begun and were not told of; settlements tell of those that have ended."""
        now = since_boot()
        with self._lock:
            self._attempts = [a for a in self._attempts if not a.ended and (a.began or now < a.begin_by)]
            return [attempt for attempt in self._attempts if attempt.begun()]

    @property
    def are_due(self) -> bool:
        """Whether to tell of some that have begun, because their settlements will not soon."""
        latest = since_boot() - BEGINNING
        return any(a.began <= latest and a.begun() and not a.ended for a in list(self._attempts))

    def told(self, begun: Collection[Attempt]) -> None:
        """Forget attempts of which the store was told."""
        if begun:
            with self._lock:
                self._attempts = [attempt for attempt in self._attempts if attempt not in begun]

    def until(self, longest: int) -> int:
        """Return how long to wait until some should have begun, *longest* if there are none."""
        now = since_boot()
        planned = [max(0, attempt.begin_from - now) for attempt in list(self._attempts)]
        return min(planned, default=longest) + BEGINNING


def report(attempt: Attempt) -> tuple[int, int, int]:
    """Return what to tell the store of an attempt that has begun."""
    return attempt.claimed.seq, attempt.claimed.fence, attempt.began_after()
