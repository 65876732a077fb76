"""Callers that come at the same time share one statement and one flush to disk.

Whoever finds nobody at work goes ahead, with everything that waits by then; the others wait for that.
There is no thread of its own: an idle caller goes straight through.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from penstock.store.session import Row

MOST: Final = 10_000  # rows in one statement, but for those of a single caller


class _Piece:
    """What one caller brought."""

    __slots__ = ("error", "finished", "rows")

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = rows
        self.finished = False
        self.error: BaseException | None = None


class Gathering:
    """Has *add* do the work of all who wait, all of it or nothing."""

    def __init__(self, add: Callable[[Sequence[Row]], None]) -> None:
        self._add = add
        self._lock = threading.Lock()
        self._waiting: deque[_Piece] = deque()

    def add(self, rows: Sequence[Row]) -> None:
        """Return once *rows* were added, together with others' perhaps."""
        piece = _Piece(rows)
        self._waiting.append(piece)
        with self._lock:
            while not piece.finished:
                self._add_waiting()
        if piece.error is not None:
            raise piece.error

    def _add_waiting(self) -> None:
        pieces = [self._waiting.popleft()]
        size = len(pieces[0].rows)
        while self._waiting and size < MOST:
            pieces.append(self._waiting.popleft())
            size += len(pieces[-1].rows)
        try:
            self._add([row for piece in pieces for row in piece.rows])
        except BaseException as error:
            for piece in pieces:
                piece.error = error
            if not isinstance(error, Exception):
                raise
        finally:
            for piece in pieces:
                piece.finished = True
