"""Let coroutines wait for changes in the store: one thread, however many of them wait, on whatever event loops.

Threads need nothing of this kind: they block in `wait` of the engine.
"""

import asyncio
import logging
import secrets
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from penstock.clock import SECOND, monotonic
from penstock.errors import PenstockError

# How long one wait in the store lasts, and so how long the thread may outlive its use.
SLICE: Final = 0.5
RECOVERY: Final = 0.5
# How long the thread goes on following the store when no coroutine waits.
LINGER: Final = 2 * SECOND

log = logging.getLogger("penstock.engine")


class Watcher:
    """Follows the store while it is of use: *read* returns its revision, *wait* blocks until that is another one.

    Gives out numbers of its own, which cost nothing to look at.  They begin anywhere, so that a number which another
    process gave out, or this one before it was started again, is taken for an old one.
    """

    def __init__(self, read: Callable[[], int], wait: Callable[[int, float], int]) -> None:
        self._read = read
        self._wait = wait
        self._lock = threading.Lock()
        self._revision = secrets.randbits(48)
        self._seen = 0
        self._following = False
        self._looked = 0
        self._waiting = 0
        self._changed: dict[asyncio.AbstractEventLoop, asyncio.Event] = {}
        self._over = threading.Event()

    @property
    def closed(self) -> bool:
        """Whether no coroutine may wait any longer."""
        return self._over.is_set()

    def look(self) -> int:
        """Return a number that changes whenever something happens.  May read from the store if no coroutine waits."""
        with self._lock:
            self._looked = monotonic()
            if not self._following and not self.closed:
                # Read before the number is given out, so that whatever happens after that is a change.
                self._seen = self._read()
                threading.Thread(target=self._follow, name="penstock-watcher", daemon=True).start()
                self._following = True  # the thread looks at it under the lock
            return self._revision

    async def changed(self, revision: int, seconds: float) -> None:
        """Return once something happened after `look` returned *revision*, or earlier, or after so many *seconds*."""
        with self._lock:
            if revision != self._revision or self.closed:
                return
            event = self._changed.setdefault(asyncio.get_running_loop(), asyncio.Event())
            self._waiting += 1
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(event.wait(), seconds)
        finally:
            with self._lock:
                self._waiting -= 1

    def close(self) -> None:
        """Let every coroutine look again, and none wait from now on.  The thread ends soon."""
        self._over.set()
        self._tell()

    def _follow(self) -> None:
        well = True
        while not self._is_useless():
            try:
                now = self._wait(self._seen, SLICE)
            except Exception as error:
                if well:
                    # Every coroutine looks for itself, and hears from the engine what is wrong.
                    self._tell()
                    if not isinstance(error, PenstockError):
                        log.exception("cannot tell whether something has changed")
                well = False
                self._over.wait(RECOVERY)
            else:
                well = True
                if now != self._seen:
                    self._seen = now
                    self._tell()

    def _is_useless(self) -> bool:
        """Tell whether the thread has to end; then the numbers that were given out are old."""
        with self._lock:
            if self.closed or (not self._waiting and monotonic() - self._looked > LINGER):
                self._following = False
                self._revision += 1
            return not self._following

    def _tell(self) -> None:
        with self._lock:
            self._revision += 1
            changed, self._changed = self._changed, {}
        for loop, event in changed.items():
            # In a loop that was closed meanwhile no coroutine waits.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(event.set)
