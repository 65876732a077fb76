"""Begin attempts at the moments for which they were granted, and no earlier.

The starter has its own thread.  The thread that claims a start for now sends it to its handler itself.
"""

import threading
from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import Final, Generic, Protocol, TypeVar

from penstock.background.periodic import PeriodicThread
from penstock.clock import MILLISECOND, SECOND, STEADY, Clock, SteadyClock, since_boot
from penstock.limits.pacing import Pacing

# How long before its moment an attempt is sent: so long it may take to reach its handler, which waits for the rest.
EARLY: Final = 300
# How long to wait before the next look whether a handler has begun.
AGAIN: Final = MILLISECOND // 10
LAST: Final = 64  # answers


class Startable(Protocol):
    """What was granted for a moment, `begin_from`, and begins before `begin_by` or not at all.

    Times are microseconds since the machine was started.
    """

    begin_from: int
    begin_by: int
    ended: bool

    @property
    def gates(self) -> Collection[str]:
        """Where its start is remembered."""
        ...

    @property
    def spaced(self) -> Collection[str]:
        """The gates at which it keeps its distance to the starts before it."""
        ...

    def begun(self) -> int:
        """Return when it had begun for certain; 0 if that is not known yet."""
        ...


class Stoppable(Protocol):
    """*stopping* once nothing more may begin."""

    stopping: bool


S = TypeVar("S", bound=Startable)


class UpperOffset:
    """What to add to the engine's time to get this machine's: never less than is true, and not much more.

    An answer is heard after the moment at which the engine gave it, so each is a bound; so is what the engine's own
    *clock* is sure of.  The least of the last ones counts, the older the less.  That clock is never behind the
    engine's, so if it refutes a bound the engine's clock was set back.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heard: deque[tuple[int, int]] = deque(maxlen=LAST)

    def hear(self, given: int) -> int:
        """Return the offset, now that an answer was heard which the engine gave at that moment of its own."""
        if isinstance(self._clock, SteadyClock):
            given = max(given, self._clock.surely())
        now = since_boot()
        bound = now - given
        if self._heard and self._value(now) < now - self._clock.now():
            self._heard.clear()
        self._heard.append((now, bound))
        return self._value(now)

    def _value(self, now: int) -> int:
        return min(bound + (now - heard) // STEADY for heard, bound in self._heard)


class Starter(Generic[S]):
    """Holds attempts until their moment, then has *send* begin them; keeps the distances between them."""

    def __init__(self, shift: Stoppable, send: Callable[[Sequence[S]], None]) -> None:
        self._shift = shift
        self._send = send
        self._lock = threading.Lock()
        self._pacing: Pacing[S] = Pacing()
        self.thread = PeriodicThread("starter", self._round)

    @property
    def holds_any(self) -> bool:
        """Whether some have not begun."""
        return len(self._pacing) > 0

    def ask(self) -> dict[S, int]:
        """Return when each attempt that has not begun is planned, for a claim that is asked now."""
        with self._lock:
            self._heed_begun()
            return self._pacing.ask()

    def plan(self, attempts: Sequence[S]) -> None:
        """Take attempts that the claim which was asked last has granted: all, or none if this raises.

        Or one that was under way beside it and asked when none was planned: it took the others to begin as late as they
        may.
        """
        with self._lock:
            self._heed_begun()
            self._pacing.add(
                (each, each.begin_from, each.begin_by, each.gates, each.spaced) for each in attempts
            )
        self.thread.wake()

    def _round(self) -> float | None:
        self.send_due()
        with self._lock:
            next_at, begins = self._pacing.next_at(), bool(self._pacing.sent())
        if next_at is None:
            return None
        return (AGAIN if begins else max(AGAIN, next_at - EARLY - since_boot())) / SECOND

    def send_due(self) -> None:
        """Send the attempts whose moment has come."""
        with self._lock:
            now = since_boot()  # first, so that none begins between and is taken for too late
            self._heed_begun()
            stopping = self._shift.stopping  # then they are handed back
            due = self._pacing.all_unsent() if stopping else self._pacing.due(now, EARLY)
            for start in due:
                start.what.begin_from = start.at
        if due:
            self._send([start.what for start in due])

    def _heed_begun(self) -> None:
        for attempt in self._pacing.sent():
            ended = attempt.ended  # before the look at its begin
            if at := attempt.begun():
                self._pacing.began(attempt, at)
            elif ended:
                self._pacing.gone(attempt)
