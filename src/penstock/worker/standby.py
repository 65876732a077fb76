"""Attempts that stand by: claimed before a hand is free for them, so that few hands need few exchanges.

A hand takes the next when its handler has returned.  While enough stand by, what has ended gathers, and is settled
with the claim of the next.  What has stood by for too long is handed back unbegun.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from penstock.clock import MILLISECOND, since_boot
from penstock.worker.attempt import Attempt
from penstock.worker.expected import Expected

# So long after their claim was answered attempts may stand by.
WITHIN: Final = 80 * MILLISECOND
# Exchanges of so many attempts are worth what each costs by itself.
ENOUGH: Final = 100
# A worker asks for so many at first, and then for twice as many as it got.  So a claim locks few that it does not take.
FIRST: Final = 8
# So long it asks for none after it got none.
NONE_FOR: Final = 100 * MILLISECOND

Following = Callable[[Attempt], Attempt | None]


class Standby:
    """The attempts of a worker with so many *hands* that stand by, in the order of their claims.

    Hands and the pump take from it; each attempt is taken once.
    """

    def __init__(self, hands: int) -> None:
        self._hands = hands
        self._waiting: deque[Attempt] = deque()
        self._most = 0  # how many are to stand by
        self._got = FIRST // 2
        self._none_until = 0

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def is_ample(self) -> bool:
        """Whether so many stand by that the next claim can wait."""
        return len(self._waiting) > self._most // 2

    def room(self, expected: Expected) -> int:
        """Return how many more to claim, by what is *expected* of them."""
        if self._hands >= ENOUGH or since_boot() < self._none_until:
            return 0
        self._most = min(ENOUGH - self._hands, self._hands * expected.for_each_hand())
        return max(0, min(self._most - len(self._waiting), 2 * self._got))

    def got(self, count: int) -> None:
        """Learn from a claim how many there are that may stand by."""
        self._got = max(count, FIRST // 2)
        if count <= 0:
            self._none_until = since_boot() + NONE_FOR

    def add(self, attempts: Sequence[Attempt]) -> None:
        """Have *attempts* stand by."""
        begin_by = since_boot() + WITHIN
        for attempt in attempts:
            attempt.stands_until = begin_by
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
        """Take the attempt that gets the place of one that has *ended*, before that one is reported."""
        following = self.next()
        ended.handed_on = following is not None
        return following

    def cut(self, *, all_: bool) -> list[Attempt]:
        """Take out those that have stood by for too long, or all: they end unbegun."""
        cut = list[Attempt]()
        while (left := self.until_late()) is not None and (all_ or not left):
            attempt = self.next()
            if attempt is not None:  # else a hand took the last one
                attempt.end(attempt.refusal())
                cut.append(attempt)
        return cut

    def until_late(self) -> int | None:
        """Return how long it takes until one has stood by for too long."""
        try:
            return max(0, self._waiting[0].stands_until - since_boot())
        except IndexError:
            return None
