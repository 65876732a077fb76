"""Have a second exchange under way while the pump waits for its own, where one does not hold up the other.

An exchange takes the worker's time and the server's, one after the other; two at once use both.

Invariants: it begins an exchange only while the pump has opened the way, and what it took it settles itself, also after
the way was shut.  It is *busy* from before it takes attempts until they are settled.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from penstock.background.periodic import PeriodicThread
from penstock.worker.crew import Crew
from penstock.worker.exchanges import Exchanges


class SecondPump:
    """Settles and claims what the pump left in the *crew*, if that *may* be; calls *changed* after each exchange."""

    def __init__(
        self,
        exchanges: Exchanges,
        crew: Crew,
        queues: Sequence[str],
        may: Callable[[], bool],
        changed: Callable[[], None],
    ) -> None:
        self.busy = False
        self._exchanges = exchanges
        self._crew = crew
        self._queues = queues
        self._may = may
        self._changed = changed
        self._share = 0  # how many attempts to take at most; 0 while the way is shut
        self._lock = threading.Lock()
        self.thread = PeriodicThread("second pump", self._round)

    @contextmanager
    def beside(self, share: int) -> Iterator[None]:
        """Let exchanges of up to *share* attempts begin while the caller makes its own; none if it is 0."""
        with self._lock:
            self._share = share
        self.ring()
        try:
            yield
        finally:
            with self._lock:
                self._share = 0

    def ring(self) -> None:
        """Look again whether enough attempts have ended; costs nothing while the way is shut."""
        if self._share and self._is_enough():
            self.thread.wake()

    def _is_enough(self) -> bool:
        # Few are better settled by the pump, with those that end meanwhile.
        return self._crew.left >= max(self._share // 2, 1)

    def _round(self) -> float | None:
        if share := self._entered():
            self._exchanges.take_ended(share)
        elif not self.busy:
            return None
        try:
            self._exchange(claim=share > 0)
        finally:
            # First of all, so that a pump that finds this no longer busy looks once more.
            self._changed()
            self.busy = bool(self._exchanges.pending.waiting)
            self._changed()
        return 0

    def _entered(self) -> int:
        """Return how many attempts to take and settle now; 0 if the way is shut."""
        with self._lock:
            if not self._share or not self._is_enough() or not self._may():
                return 0
            self.busy = True
            return self._share

    def _exchange(self, *, claim: bool) -> None:
        pending = self._exchanges.pending
        if not pending.waiting:
            return
        places = self._crew.reserve(len(pending.waiting) if claim else 0)
        if places.count:
            self._exchanges.run(self._queues, places, ahead=False)
        else:
            pending.settle()
