"""Wait for something to happen in the store: one thread, however many coroutines wait."""

import asyncio
import logging
import secrets
import threading
from contextlib import suppress

from penstock.engine import Engine
from penstock.errors import PenstockError
from penstock.job import Topic

log = logging.getLogger("penstock.server")


class Watch:
    """Wakes coroutines when any process did something about *topic*: one thread, however many wait."""

    def __init__(self, engine: Engine, topic: Topic) -> None:
        self._engine = engine
        self._topic = topic
        # Another server, or this one before it was started again, has other numbers.
        self._token = secrets.randbits(48)
        self.draining = False
        self._seen = 0
        self._closed = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._changed = asyncio.Event()

    def look(self) -> int:
        """Return a number that changes whenever something happens."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            self._seen = self._engine.token(self._topic)
            threading.Thread(target=self._follow, name="penstock-watch", daemon=True).start()
        return self._token

    async def changed(self, token: int, seconds: float) -> None:
        """Return once something happened after *token*, or after so many *seconds*."""
        if token == self._token and not self.draining:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), seconds)

    def drain(self) -> None:
        """Let everybody look again now, and nobody wait from now on."""
        self.draining = True
        self._ring()

    def close(self) -> None:
        """End the thread, soon."""
        self._closed.set()

    def _follow(self) -> None:
        loop = self._loop
        while loop is not None and not self._closed.is_set():
            try:
                now = self._engine.wait(self._seen, 0.5, self._topic)
                if now != self._seen:
                    self._seen = now
                    loop.call_soon_threadsafe(self._ring)
            except Exception as error:
                if loop.is_closed():
                    return
                if not isinstance(error, PenstockError):
                    log.exception("cannot tell whether something has changed")
                self._closed.wait(0.5)

    def _ring(self) -> None:
        self._token += 1
        self._changed.set()
        self._changed = asyncio.Event()
