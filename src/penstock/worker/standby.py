"""Attempts that stand by: claimed before a hand is free for them, so that none is idle while the worker exchanges.

A hand takes the next when its handler has returned.  What has stood by for too long is handed back unbegun.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from penstock.clock import MILLISECOND, since_boot
from penstock.worker.attempt import Attempt

# So long after their claim was answered attempts may stand by.  Then they are handed back.
WITHIN: Final = 80 * MILLISECOND


class Standby:
    """The attempts of a worker that stand by, those that were claimed first coming first.

    Hands and the pump take from it; each attempt is taken once.
    """

    def __init__(self) -> None:
        self._waiting: deque[Attempt] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, attempts: Sequence[Attempt]) -> None:
        """Have *attempts* stand by."""
        begin_by = since_boot() + WITHIN
        for attempt in attempts:
            attempt.stood_by_until = begin_by
        self._waiting += attempts

    def next(self) -> Attempt | None:
        """Take the attempt to begin now that a hand is free; None if none stands by."""
        try:
            attempt = self._waiting.popleft()
        except IndexError:
            return None
        attempt.sent = since_boot()
        return attempt

    def hand_on(self, ended: Attempt) -> Attempt | None:
        """Take the attempt that gets the hand of one that has *ended*."""
        following = self.next()
        ended.handed_on = following is not None
        return following

    def cut(self, *, all_: bool) -> list[Attempt]:
        """Take out what has stood by for too long, or all: it is handed back."""
        now, cut = since_boot(), list[Attempt]()
        try:
            while self._waiting and (all_ or self._waiting[0].stood_by_until < now):
                attempt = self._waiting.popleft()
                attempt.sent = now
                attempt.end(attempt.refusal())
                cut.append(attempt)
        except IndexError:
            pass  # a hand took the last one meanwhile
        return cut

    def until_late(self) -> int | None:
        """Return how long it takes until one has stood by for too long."""
        try:
            return max(0, self._waiting[0].stood_by_until - since_boot())
        except IndexError:
            return None


Following = Callable[[Attempt], Attempt | None]
