"""Something that a process does again and again in a thread of its own."""

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from penstock.errors import StoreBrokenError, StoreError

LEAST_PAUSE: Final = 0.1
MOST_PAUSE: Final = 5.0

log = logging.getLogger("penstock.worker")


class PeriodicThread:
    """Calls *work*, which answers how many seconds to wait before the next call (None: until woken).

    An error is logged and *work* is called again after a pause, which grows while errors go on.  If the store
    is broken no further call would help: that call is the last, and `broken` is called.
    """

    def __init__(self, name: str, work: Callable[[], float | None], logger: logging.Logger = log) -> None:
        self.name = name
        self.broken: Callable[[StoreBrokenError], None] = lambda _: None
        self._work = work
        self._log = logger
        self._bell = threading.Event()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"penstock-{name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Let the next call come at once; costs little if it comes soon anyway."""
        if not self._bell.is_set():
            self._bell.set()

    def stop(self) -> None:
        """Let there be no further call, without waiting for the present one."""
        self._stopped.set()
        self._bell.set()

    @property
    def alive(self) -> bool:
        """Whether there may be a further call."""
        return self._thread.is_alive() and not self._stopped.is_set()

    def join(self, timeout: float) -> bool:
        """Wait for the present call to end; tell whether it did."""
        if self._thread.is_alive():
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        pause = LEAST_PAUSE
        while not self._stopped.is_set():
            # Cleared before the work, so that a bell rung during it is heard after it.
            self._bell.clear()
            try:
                wait = self._work()
            except StoreBrokenError as error:
                self.broken(error)
                return
            except BaseException as error:  # noqa: BLE001 - a thread that ended would take the process along
                self._report(error)
                # Deaf to the bell, so that a failing store is left in peace.
                self._stopped.wait(pause)
                pause = min(2 * pause, MOST_PAUSE)
                continue
            pause = LEAST_PAUSE
            self._bell.wait(wait)

    def _report(self, error: BaseException) -> None:
        if self._stopped.is_set():
            return
        # A filter of the user's may raise; the thread goes on all the same.
        with suppress(Exception):
            if isinstance(error, StoreError):
                self._log.warning("%s: the store failed, trying again: %s", self.name, error)
            else:
                self._log.error("%s: unexpected error, trying again", self.name, exc_info=error)
