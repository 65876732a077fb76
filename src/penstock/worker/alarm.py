"""Leases and timeouts that end, by the machine's own clock alone: neither a slow store nor a blocked loop delays it."""

from collections.abc import Callable, Collection
from typing import Final

from penstock.background.periodic import PeriodicThread
from penstock.clock import SECOND, since_boot
from penstock.worker.attempt import Attempt, AttemptTimeout

# How much of a lease passes between two looks.
LOOKS: Final = 15


class Alarm:
    """Gives up leases that could not be renewed in time, and ends handlers in threads that take too long."""

    def __init__(self, running: Collection[Attempt], lease: int, lose: Callable[[Attempt], None]) -> None:
        self._running = running
        self._lose = lose
        self._tick = lease // LOOKS
        self._deadlines: dict[Attempt, int] = {}
        self._next = 0
        self.thread = PeriodicThread("alarm", self._look)

    def set(self, attempt: Attempt, timeout: int) -> None:
        """Strike the calling thread, which is about to run *attempt*, when *timeout* has passed."""
        deadline = since_boot() + timeout
        self._deadlines[attempt] = deadline
        if deadline < self._next:
            self.thread.wake()

    def clear(self, attempt: Attempt) -> None:
        """Forget what was `set`."""
        self._deadlines.pop(attempt, None)

    def _look(self) -> float:
        now = since_boot()
        # Written first: a deadline set during the look and missed by it rings the bell.
        self._next = now + self._tick
        for attempt, deadline in list(self._deadlines.items()):
            if deadline <= now:
                self.clear(attempt)
                attempt.strike(AttemptTimeout)
            else:
                self._next = min(self._next, deadline)
        for attempt in list(self._running):
            # Early by one look, so that the lease is given up before another worker can have it.
            if now >= attempt.lease_end - self._tick and not attempt.lost and not attempt.ended:
                self._lose(attempt)
        return max(0, self._next - since_boot()) / SECOND
