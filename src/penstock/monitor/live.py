"""Tell open pages that the store changed: looked at once a second at most, for all of them together."""

import asyncio
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

from penstock.clock import SECOND, monotonic
from penstock.errors import StoreError

Listener = tuple[str | None, str]  # the tenant and the name of those who look

STREAMS: Final = 100  # of one listener
EVERY: Final = 1.0  # seconds between two looks at the store
_SILENT: Final = 15 * SECOND  # after that a stream says that it is still there
_LASTS: Final = 300 * SECOND  # then the browser connects again, and its session is looked at again
_LONGEST: Final = 15  # digits
_DOWN: Final = "down"  # stands for the state of a store that cannot be read


class Live:
    """Follows the store while a page listens.  Its coroutines belong to one event loop."""

    def __init__(self, look: Callable[[], Awaitable[object]]) -> None:
        self._look = look
        self._seen: object = None
        self._number = 0
        self._mark = secrets.token_hex(4)  # tells its numbers from those of other processes
        self._listeners = Counter[Listener]()
        self._changed = asyncio.Event()
        self._looked = asyncio.Event()  # since the first page listens
        self._following: asyncio.Task[None] | None = None
        self._closed = False

    async def events(self, listener: Listener, goes_on: Callable[[], bool]) -> AsyncIterator[bytes]:
        """Return the events of one stream, while it *goes on*: `change` whenever the store has changed.

        The first comes at once: the store may have changed since the page was made.
        """
        began = told = monotonic()
        self._join(listener)
        try:
            yield b"retry: 2000\n\n"
            await self._looked.wait()
            number = self._number
            yield _change("first")
            while not self._closed and monotonic() < began + _LASTS:
                await self._next(_SILENT)
                if not goes_on():
                    return
                if self._number != number:
                    number, told = self._number, monotonic()
                    yield _change(f"{self._mark}.{number}")
                elif monotonic() >= told + _SILENT:
                    told = monotonic()
                    yield b": still here\n\n"
        finally:
            self._leave(listener)

    @property
    def number(self) -> int:
        """The number of the last change of which pages were told."""
        return self._number

    def has_told(self, heard: str) -> bool:
        """Tell whether a page was told of a change, as it says, and changes are still followed."""
        mark, _, number = heard.partition(".")
        if mark != self._mark or not number.isascii() or not number.isdigit() or not self._listeners:
            return False
        return int(number[:_LONGEST]) <= self._number

    def close(self) -> None:
        """End all streams."""
        self._closed = True
        self._looked.set()
        self._tell()

    def has_room(self, listener: Listener) -> bool:
        """Tell whether a listener may have one more stream."""
        return self._listeners[listener] < STREAMS

    def _leave(self, listener: Listener) -> None:
        self._listeners[listener] -= 1
        if not self._listeners[listener]:
            del self._listeners[listener]

    def _join(self, listener: Listener) -> None:
        self._listeners[listener] += 1
        if self._following is None or self._following.done():
            self._following = asyncio.get_running_loop().create_task(self._follow())

    async def _next(self, span: int) -> None:
        """Wait for a change, or for so long."""
        try:
            await asyncio.wait_for(self._changed.wait(), span / SECOND)
        except TimeoutError:
            return

    async def _follow(self) -> None:
        self._number += 1  # nothing that was made before is as new as the last change
        while self._listeners and not self._closed:
            try:
                seen = await self._look()
            except StoreError:
                seen = _DOWN
            if seen != self._seen:
                first, self._seen = self._seen is None, seen
                if not first:
                    self._tell()
            self._looked.set()
            await asyncio.sleep(EVERY)
        self._seen = None
        self._looked.clear()

    def _tell(self) -> None:
        self._number += 1
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


def _change(told: str) -> bytes:
    return f"event: change\ndata: {told}\n\n".encode()
