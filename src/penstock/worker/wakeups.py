"""Wake the pump when the store has changed, without asking while the pump does not wait for that."""

from collections.abc import Callable
from typing import Final

from penstock.background.periodic import PeriodicThread
from penstock.clock import MILLISECOND, SECOND, monotonic, pause
from penstock.worker.backend import Backend

# How long one wait in the store lasts, and so how long stopping may take.
SLICE: Final = 0.1
# One of several idle workers is enough for one job.  Workers that were woken in vain within MEMORY let the one that
# found something go first by HEAD_START; a process that is slow because it has much to do gives its lead away.
HEAD_START: Final = 3 * MILLISECOND
MEMORY: Final = SECOND


class Wakeups:
    """Calls *changed* once when the store is no longer as it was at the revision given to `watch`."""

    def __init__(self, engine: Backend, changed: Callable[[], None]) -> None:
        self._engine = engine
        self._changed = changed
        self._revision: int | None = None
        self._woke = False
        self._late_until = 0
        self.thread = PeriodicThread("wakeups", self._look)

    def watch(self, revision: int, *, found: bool) -> None:
        """Wait for a change after *revision* from now on, given whether there was anything to do after the last one."""
        if self._woke:
            self._woke = False
            self._late_until = 0 if found else monotonic() + MEMORY
        self._revision = revision
        self.thread.wake()

    def _look(self) -> float | None:
        revision = self._revision
        if revision is None:
            return None
        if self._engine.wait(revision, SLICE) != revision and self._revision == revision:
            if monotonic() < self._late_until:
                pause(HEAD_START / SECOND)
            self._revision = None
            self._woke = True
            self._changed()
        return 0
