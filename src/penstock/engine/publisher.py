"""Tell listeners what was committed, in an order that makes sense.

A transaction takes a number before it commits.  A transaction that sees its writes takes a later number.  Events
are published by these numbers, so a job's start never comes before its enqueue, whichever threads committed them.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from penstock.job import Event, Listener

T = TypeVar("T")
Batch = Sequence[Event]
_log = logging.getLogger("penstock.engine")


class Publisher:
    """The listeners of one engine, and the events that they have not been told yet.

    One thread publishes at a time; other threads leave their events to it and go on.
    """

    def __init__(self) -> None:
        self.listeners: list[Callable[[Batch], None]] = []
        self._lock = threading.Lock()
        self._last = 0
        self._open: dict[int, Batch | None] = {}  # by number, the first one first; None: not committed yet
        self._ready: list[Event] = []
        self._busy = False

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Have *listener* called with each event; call the answer to stop."""

        def each(events: Batch) -> None:
            for event in events:
                if each in self.listeners:  # it may have stopped meanwhile
                    _tell(listener, event, event.name)

        return self.listen_to_batches(each)

    def listen_to_batches(self, listener: Callable[[Batch], None]) -> Callable[[], None]:
        """Have *listener* called with batches of events; call the answer to stop."""
        self.listeners.append(listener)
        return lambda: self.listeners.remove(listener)

    def number(self) -> int:
        """Return the number of a transaction that is about to commit."""
        with self._lock:
            self._last += 1
            self._open[self._last] = None
            return self._last

    def told(self, number: int, events: Batch) -> None:
        """Tell the events of a transaction once those before it are told; none if it did not commit."""
        with self._lock:
            self._open[number] = events
            while self._open and (known := self._open[first := next(iter(self._open))]) is not None:
                self._ready.extend(known)
                del self._open[first]
            if self._busy or not self._ready:
                return
            self._busy = True
        while batch := self._next():
            for listener in list(self.listeners):
                _tell(listener, batch, "events")

    def _next(self) -> Batch:
        with self._lock:
            batch, self._ready = self._ready, []
            self._busy = bool(batch)
            return batch


def _tell(listener: Callable[[T], None], what: T, name: str) -> None:
    try:
        listener(what)
    except (Exception, SystemExit):  # noqa: BLE001 - a listener's mistake must not undo what was committed
        _log.exception("a listener failed on %s", name)
