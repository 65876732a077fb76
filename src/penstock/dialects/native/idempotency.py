"""Answers of the last minute: a request that is sent again, because its answer was lost, does nothing twice.

Invariant: jobs that were claimed for an answer are given back once no request waits for it any more.  A request that
asks for it after that is not told of them.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final

from penstock.clock import SECOND, monotonic
from penstock.errors import StoreBusyError
from penstock.http.engine_service import Claims
from penstock.job import Claimed

LONGEST: Final = 60 * SECOND
MOST: Final = 10_000
MOST_BYTES: Final = 64 * 1024 * 1024

Place = tuple[str, ...]


class KeptAnswer(Claims):
    """An answer.  If no request hears it, the *jobs* claimed for it are given back, and *without* is left of it."""

    __slots__ = ("at", "body", "takers", "without")

    def __init__(self, body: bytes, jobs: list[Claimed] | None = None, without: bytes = b"") -> None:
        super().__init__(jobs)
        self.body = body
        self.without = without
        self.takers = 1
        self.at = monotonic()

    def unheard(self) -> list[Claimed]:
        """Note that one request for this answer has gone; return the jobs to give back if it was the last."""
        self.takers -= 1
        if self.takers > 0 or not self.jobs:
            return []
        self.body = self.without
        return super().unheard()


class AnswerMemory:
    """The answers of the last minute, by what was asked."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Place, asyncio.Future[KeptAnswer]] = OrderedDict()
        self._bytes = 0

    async def once(self, place: Place, make: Callable[[], Awaitable[KeptAnswer]]) -> KeptAnswer:
        """Return the answer that belongs to *place*; it is made if there is none yet, and kept unless that fails."""
        found = self._kept.get(place)
        if found is not None:
            made = await asyncio.shield(found)
            made.takers += 1
            return made
        future: asyncio.Future[KeptAnswer] = asyncio.get_running_loop().create_future()
        self._kept[place] = future
        try:
            made = await make()
        except BaseException as error:
            self._kept.pop(place, None)
            # Another request for the same answer was not cancelled, and is sent again.
            given_up = StoreBusyError("the request was given up before it was answered")
            future.set_exception(error if isinstance(error, Exception) else given_up)
            future.exception()  # else asyncio complains where no other request waits for it
            raise
        future.set_result(made)
        self._bytes += len(made.body)
        self._forget()
        return made

    def _forget(self) -> None:
        """Forget what is old or too much."""
        before = monotonic() - LONGEST
        while self._kept:
            place, future = next(iter(self._kept.items()))
            if not future.done():
                return
            made = future.result()
            if made.at > before and len(self._kept) <= MOST and self._bytes <= MOST_BYTES:
                return
            self._bytes -= len(made.body)
            del self._kept[place]
