"""Tell coroutines that jobs have ended, with one thread however many of them wait."""

import asyncio
import threading
from contextlib import suppress
from typing import Final

from penstock.app.backend import AnyEngine
from penstock.job import Topic

_SLICE: Final = 0.5

_Waiter = tuple[asyncio.AbstractEventLoop, "asyncio.Future[None]"]


class Watcher:
    """Watches the store from a thread that lives only while somebody wants to know."""

    def __init__(self, engine: AnyEngine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._waiting: list[_Waiter] = []
        self._token: int | None = None

    async def changed(self, token: int) -> None:
        """Return once the store is no longer as it was at *token*, or a little earlier."""
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        with self._lock:
            # The thread has moved on since the caller looked, and would not tell of that change again.
            if self._token not in {None, token}:
                return
            self._waiting.append((loop, future))
            if self._token is None:
                self._token = token
                threading.Thread(target=self._watch, name="penstock-watcher", daemon=True).start()
        await future

    def _watch(self) -> None:
        token = self._token
        while token is not None:
            try:
                after = self._engine.wait(token, _SLICE, Topic.ENDS)
            except Exception:  # noqa: BLE001 - also that the engine was closed
                # Whoever waits looks again and hears from the engine itself what is wrong.
                after = None
            token = self._tell(token, after)

    def _tell(self, before: int, after: int | None) -> int | None:
        with self._lock:
            waiting = [waiter for waiter in self._waiting if not waiter[1].cancelled()]
            self._token = after if waiting or before != after else None
            self._waiting = waiting if before == after else []
        if before != after:
            for waiter in waiting:
                _wake(*waiter)
        return self._token


def _wake(loop: asyncio.AbstractEventLoop, future: "asyncio.Future[None]") -> None:
    # A loop that was closed meanwhile has nobody left to tell.
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(_finish, future)


def _finish(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
