"""Answers that are made once for all who may see the same, after each change of the store.

Invariant: what decides what an answer shows is in its key.  What differs between those who see the same, who they are
and the word of their session, is put in when it is sent (`front`).
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, replace
from typing import Final

from penstock.monitor.answers import Answer

MOST: Final = 64  # answers that are kept
MOST_BYTES: Final = 8 * 1024 * 1024  # of them together


@dataclass(slots=True)
class _Made:
    """An answer that is made, or being made, since the change of a number."""

    number: int
    answer: asyncio.Future[Answer]

    @property
    def size(self) -> int:
        """How many bytes it takes, once it is there."""
        there = self.answer.done() and not self.answer.cancelled() and self.answer.exception() is None
        return len(self.answer.result().body) if there else 0


class Shared:
    """Keeps the answers made since the last change.  Its coroutines belong to one event loop."""

    def __init__(self) -> None:
        self._kept = OrderedDict[Hashable, _Made]()

    async def answer(self, key: Hashable, number: int, make: Callable[[], Awaitable[Answer]]) -> Answer:
        """Return what was made, or is being made, under *key* since the change *number*; *make* it if nothing was."""
        self._forget(number)
        made = self._kept.get(key)
        if made is None:
            made = self._kept[key] = _Made(number, asyncio.ensure_future(make()))
            made.answer.add_done_callback(lambda _: self._settle(key, made))
        self._kept.move_to_end(key)
        # One who hangs up does not end it for the others.
        found = await asyncio.shield(made.answer)
        return replace(found, headers=dict(found.headers), cookies=list(found.cookies))

    def clear(self) -> None:
        """Keep nothing: something was changed here."""
        self._kept.clear()

    def _forget(self, number: int) -> None:
        """Leave what was made before the change *number*."""
        for key in [key for key, made in self._kept.items() if made.number != number]:
            del self._kept[key]

    def _settle(self, key: Hashable, made: _Made) -> None:
        """Leave an answer that failed, and those used longest ago where there are too many."""
        failed = made.answer.cancelled() or made.answer.exception() is not None
        if failed and self._kept.get(key) is made:
            del self._kept[key]
        while self._kept and (
            len(self._kept) > MOST or sum(each.size for each in self._kept.values()) > MOST_BYTES
        ):
            self._kept.popitem(last=False)
