"""Warn of handlers that keep others waiting: they block the event loop, or go on long after their timeout.

A thread of its own looks while handlers run, and warns once of each.
"""

import sys
import traceback
from collections.abc import Collection
from typing import Final

from penstock.background.periodic import PeriodicThread
from penstock.clock import SECOND, monotonic, since_boot
from penstock.worker import perform
from penstock.worker.attempt import Attempt
from penstock.worker.job_log import span, warn
from penstock.worker.loop import Loop

EVERY: Final = SECOND // 4
# How long the loop may be silent, and a handler go on after its timeout, before that is told.
PATIENCE: Final = SECOND
_PERFORM: Final = perform.__file__


class Watchdog:
    """Looks at the *running* attempts and at the event *loop*, if there is one."""

    def __init__(self, running: Collection[Attempt], loop: Loop | None) -> None:
        self._running = running
        self._loop = loop
        self._asked = 0  # since when the loop has not answered
        self._blocking: Attempt | None = None
        self._told = False
        self._resting = True
        self.thread = PeriodicThread("watch", self._look)

    def begin(self) -> None:
        """Look from now on, for something runs; costs nothing if it looks already."""
        if self._resting:
            self.thread.wake()

    def _look(self) -> float | None:
        if self._loop is not None:
            self._look_at_loop(self._loop)
        for attempt in list(self._running):
            # While the loop is blocked, what stands still there is not to blame.
            if not (self._told and attempt.handler.is_async):
                self._look_at(attempt)
        # Written first: a handler that begins after the look at what runs finds it resting, and wakes it.
        self._resting = True
        self._resting = not self._running and not self._asked
        return None if self._resting else EVERY / SECOND

    def _look_at(self, attempt: Attempt) -> None:
        if attempt.timeout is None or not attempt.began or attempt.ended or attempt.overran:
            return
        if since_boot() > attempt.began + attempt.timeout + PATIENCE:
            attempt.overran = True
            text = "still runs, though its timeout of %s is over"
            warn(attempt, text, span(attempt.timeout), stack=_stack(attempt.thread))

    def _look_at_loop(self, loop: Loop) -> None:
        if self._asked and loop.answered:
            self._tell_end(loop.answered - self._asked)
            self._asked = 0
        if self._asked:
            self._tell_block(loop)
        elif self._running:
            # Set first: the answer may come before the call returns.
            self._asked = monotonic()
            loop.ask()

    def _tell_block(self, loop: Loop) -> None:
        silent = monotonic() - self._asked
        if silent < PATIENCE or self._told:
            return
        self._told = True
        self._blocking = loop.current()
        text = "blocks the event loop: nothing else has run there for %s"
        warn(self._blocking, text, span(silent), stack=_stack(loop.thread))

    def _tell_end(self, lasted: int) -> None:
        if lasted < PATIENCE:
            return
        warn(self._blocking, "blocked the event loop for %s; it runs again", span(lasted))
        self._told = False
        self._blocking = None


def _stack(thread: int) -> str | None:
    """Return where *thread* is, from the handler on."""
    frame = sys._current_frames().get(thread)  # noqa: SLF001 - there is no other way to see another thread
    if frame is None:
        return None
    frames = []
    for each, line in traceback.walk_stack(frame):
        # What called the handler tells nothing about it.
        if each.f_code.co_filename == _PERFORM:
            break
        frames.append((each, line))
    told = traceback.StackSummary.extract(reversed(frames)).format()
    return "Stack (most recent call last):\n" + "".join(told).rstrip()
