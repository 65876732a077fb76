"""Tell listeners what was committed, in an order that makes sense.

A transaction takes a number before it commits.  Whoever sees what it wrote has begun, and so takes its number,
after that.  Events are told by these numbers: nobody hears of a job's start before its enqueue, whatever the
threads do in which both were committed.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence

from penstock.job import Event

Listener = Callable[[Event], None]
_log = logging.getLogger("penstock.engine")


class Telling:
    """The listeners of one engine, and what is yet to be told them.

    One thread tells at a time; others leave it what they have and go on.
    """

    def __init__(self) -> None:
        self.listeners: list[Listener] = []
        self._lock = threading.Lock()
        self._last = 0
        self._open: dict[
            int, Sequence[Event] | None
        ] = {}  # by number, the first one first; None: not committed yet
        self._ready: deque[Event] = deque()
        self._busy = False

    def number(self) -> int:
        """Return the number of a transaction that is about to commit."""
        with self._lock:
            self._last += 1
            self._open[self._last] = None
            return self._last

    def told(self, number: int, events: Sequence[Event]) -> None:
        """Tell the events of a transaction once those before it are told; none if it did not commit."""
        with self._lock:
            self._open[number] = events
            while self._open and (known := self._open[first := next(iter(self._open))]) is not None:
                self._ready.extend(known)
                del self._open[first]
            if self._busy or not self._ready:
                return
            self._busy = True
        while (event := self._next()) is not None:
            for listener in list(self.listeners):
                _tell(listener, event)

    def _next(self) -> Event | None:
        with self._lock:
            if self._ready:
                return self._ready.popleft()
            self._busy = False
            return None


def _tell(listener: Listener, event: Event) -> None:
    try:
        listener(event)
    except (Exception, SystemExit):  # noqa: BLE001 - a listener's mistake must not undo what was committed
        _log.exception("a listener failed on %s", event.name)
