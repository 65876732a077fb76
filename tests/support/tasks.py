"""Short ways to run calls beside each other, and to see how many are inside at once."""

import asyncio
import threading
from collections.abc import Awaitable
from typing import Any


async def together(*calls: Awaitable[Any], **options: Any) -> list[Any]:
    """Await all *calls* beside each other; for what needs a coroutine, as `asyncio.run` does."""
    return await asyncio.gather(*calls, **options)


class Inside:
    """Is entered by calls in tasks and threads; knows the most that were inside at once."""

    def __init__(self) -> None:
        self.now = self.most = 0
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self.now -= 1
