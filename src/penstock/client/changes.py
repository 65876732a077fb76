"""Let threads wait for changes at the server: one thread asks it, however many wait, and only while they do.

The server answers when something has changed.  The revision is the client's own number, so that it costs nothing to
look at it.
"""

import threading
from collections.abc import Callable
from typing import Final

from penstock.clock import MILLISECOND, SECOND, monotonic
from penstock.errors import PenstockError

# How long one question waits at the server.
LONGEST: Final = 20.0
# How often to ask at most while threads look at the revision and none waits.
GLANCE: Final = 0.25
RECOVERY: Final = 0.5
# How often to tell of changes at most: in a busy store nearly every one concerns other processes.
PACE: Final = 10 * MILLISECOND

Ask = Callable[[int | None, float], int]


class Changes:
    """What `Engine.revision` and `Engine.wait` are about, for one topic; *ask* waits at the server."""

    def __init__(self, ask: Ask, name: str) -> None:
        self._ask = ask
        self._name = name
        self._changed = threading.Condition()
        self._revision = 0
        self._seen: int | None = None
        self._looked = False
        self._waiting = 0
        self._well = True
        self._told = 0
        self._following = False
        self._closed = False

    def revision(self) -> int:
        """Return a number that changes after something did."""
        self._begin()
        with self._changed:
            self._looked = True
            self._changed.notify_all()
            return self._revision

    def wait(self, revision: int, timeout: float) -> int:
        """Wait until something changed after *revision*, or for *timeout* seconds; return the new revision."""
        self._begin()
        with self._changed:
            self._waiting += 1
            self._changed.notify_all()
            try:
                self._changed.wait_for(lambda: self._revision != revision or self._closed, timeout)
            finally:
                self._waiting -= 1
            return self._revision

    def close(self) -> None:
        """Let no thread wait any longer."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _begin(self) -> None:
        if self._following:
            return
        # Asked for before a revision is given out, so that whatever comes after that is a change.
        seen = self._ask(None, 0.0)
        with self._changed:
            following, self._following = self._following, True
            if not following:
                self._seen = seen
                threading.Thread(target=self._follow, name=f"penstock-{self._name}", daemon=True).start()

    def _follow(self) -> None:
        while self._wanted():
            try:
                seen = self._ask(self._seen, LONGEST)
            except PenstockError:
                self._unwell()
            else:
                self._take(seen)

    def _wanted(self) -> bool:
        """Wait until a thread waits or looks; False once this is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._looked or self._closed)
            self._changed.wait_for(lambda: self._waiting or self._closed, GLANCE)
            rest = self._told + PACE - monotonic()
            if rest > 0:
                self._changed.wait_for(lambda: self._closed, rest / SECOND)
            self._looked = False
            return not self._closed

    def _take(self, seen: int) -> None:
        with self._changed:
            self._well = True
            if seen != self._seen:
                self._seen = seen
                self._tell()

    def _unwell(self) -> None:
        with self._changed:
            if self._well:
                # Every thread that waits looks for itself, and hears what is wrong.
                self._well = False
                self._tell()
            self._changed.wait_for(lambda: self._closed, RECOVERY)

    def _tell(self) -> None:
        self._revision += 1
        self._told = monotonic()
        self._changed.notify_all()
