"""Relays: attempts of one key that begin one after the other, each when the handler of the one before has ended.

The slot of the key is handed on within the worker, without a transaction between.  What has ended is settled when all
of a relay is over, or when the relay is cut.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final

from penstock.clock import MILLISECOND, since_boot
from penstock.lifecycle.outcomes import Again, Cancelled, Done, Failed, Outcome
from penstock.worker.attempt import Attempt

# So long after their claim was answered the attempts of a relay may begin.  Then the rest is handed back.
WITHIN: Final = 50 * MILLISECOND


class Relay:
    """Attempts that follow one another; the first is sent to its handler as any other.

    One thread at a time, that of the handlers, goes on from one to the next.  The pump may `cut` the relay meanwhile.
    Each attempt is taken out of one of the two lists once, so that one of both threads has it.
    """

    __slots__ = ("_ended", "_left", "_waiting", "begin_by", "is_async")

    def __init__(self, attempts: Sequence[Attempt]) -> None:
        self.is_async = attempts[0].handler.is_async
        self.begin_by = since_boot() + WITHIN
        self._waiting = deque(attempts[1:])
        self._ended: deque[Attempt] = deque()
        self._left = len(attempts)
        for attempt in attempts:
            attempt.relay = self

    def next(self, ended: Attempt) -> Attempt | None:
        """Return the attempt to begin now that the one before has *ended*; None if the relay is over, or must end."""
        self._ended.append(ended)
        if not _goes_on(ended.outcome):
            return None
        try:
            following = self._waiting.popleft()
        except IndexError:
            return None
        following.sent = ended.finished
        return following

    def cut(self) -> list[Attempt]:
        """Take out all that have ended, and all that have not begun: those end here."""
        unbegun = _taken(self._waiting)
        for attempt in unbegun:
            attempt.end(attempt.refusal())
        return [*_taken(self._ended), *unbegun]

    def following(self) -> list[Attempt]:
        """Return the attempts that have not begun."""
        return list(self._waiting)

    @property
    def is_over(self) -> bool:
        """Whether all its attempts are out of its worker's hands."""
        return not self._left

    def give_back(self, count: int = 1) -> bool:
        """Note that so many more attempts are out of its worker's hands; tell whether all are.

        Only for one thread at a time.
        """
        self._left -= count
        return not self._left


def in_relays(attempts: Sequence[Attempt]) -> list[Attempt]:
    """Make relays of attempts that follow others; return those that begin at once."""
    lines: dict[int, list[Attempt]] = {}  # by the seq of the last
    for attempt in attempts:
        line = lines.pop(attempt.claimed.after, [])
        line.append(attempt)
        lines[attempt.claimed.seq] = line
    for line in lines.values():
        if len(line) > 1:
            Relay(line)
    return [line[0] for line in lines.values()]


def _goes_on(outcome: Outcome | None) -> bool:
    """Tell whether the slot is handed on: not if the job keeps its place in line, or shuts the gates of its key."""
    if isinstance(outcome, Failed):
        return outcome.shut_until is None
    return isinstance(outcome, Done | Again | Cancelled)


def _taken(attempts: deque[Attempt]) -> list[Attempt]:
    """Take all attempts out of a list from which another thread may take some too."""
    taken = []
    try:
        while True:
            taken.append(attempts.popleft())
    except IndexError:
        return taken
