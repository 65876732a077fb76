"""Run plain functions in threads, one attempt per thread at a time."""

import os
import threading
from collections.abc import Callable
from queue import SimpleQueue

from penstock.worker.alarm import Alarm
from penstock.worker.attempt import Attempt
from penstock.worker.perform import perform
from penstock.worker.standby import Following


class Threads:
    """*count* threads; *report* takes each attempt that ended, *ring* says so."""

    def __init__(
        self,
        count: int,
        alarm: Alarm,
        report: Callable[[Attempt], None],
        ring: Callable[[], None],
        following: Following,
    ) -> None:
        self._process = os.getpid()
        self._alarm = alarm
        self._report = report
        self._ring = ring
        self._following = following
        self._waiting: SimpleQueue[Attempt | None] = SimpleQueue()
        # Daemons, so that a handler that never ends cannot keep the process from ending.
        self._threads = [
            threading.Thread(target=self._serve, name=f"penstock-thread-{number}", daemon=True)
            for number in range(1, count + 1)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def begin(self, attempt: Attempt) -> None:
        """Begin *attempt*, for which there must be a free thread."""
        self._waiting.put(attempt)

    def stop(self, timeout: float) -> None:
        """End the threads, waiting no longer than *timeout* seconds for those whose handler still runs."""
        for _ in self._threads:
            self._waiting.put(None)
        for thread in self._threads:
            if thread.is_alive():
                thread.join(timeout)
            if thread.is_alive():
                timeout = 0

    def _serve(self) -> None:
        while (first := self._waiting.get()) is not None:
            attempt: Attempt | None = first
            while attempt is not None:
                perform(attempt, self._alarm)
                if os.getpid() != self._process:
                    os._exit(0)  # a handler forked, and this is the child: it has no worker to report to
                attempt = self._end(attempt)

    def _end(self, attempt: Attempt) -> Attempt | None:
        """Report an attempt that ended, unless its relay goes on; return the one that has its place now."""
        relay = attempt.relay
        following = self._following(attempt) if relay is None else relay.next(attempt)
        if relay is None:
            self._report(attempt)
        elif following is None:
            for each in relay.cut():
                self._report(each)
        if relay is None or following is None:
            self._ring()
        return following
