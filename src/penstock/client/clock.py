"""The server's time, as the client knows it: never earlier than it is there.

Every answer carries the server's time at which the request arrived.  The client takes that for the time at which it
sent the request, and so reckons the server's time too late, by the time the request was under way, and never too
early.  A handler that must begin by a moment of the server's begins in time.
"""

import threading

from penstock.clock import STEADY, since_boot


class RemoteClock:
    """The server's time, by the last question that was answered."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sent = 0
        self._ahead = 0

    def learn(self, sent: int, arrived: int) -> None:
        """Take into account that what was *sent* then, in this machine's time, *arrived* then in the server's."""
        with self._lock:
            # An answer that was long under way, as that to a wait, knows less than a younger one.
            if sent >= self._sent:
                self._sent, self._ahead = sent, arrived - sent

    def now(self) -> int:
        """Return the server's time, or a little more."""
        now = since_boot()
        with self._lock:
            return now + self._ahead + max(0, now - self._sent) // STEADY
