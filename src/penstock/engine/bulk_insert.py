"""Threads that insert at the same time share one statement and one flush to disk.

The first thread inserts at once.  Threads that come meanwhile wait; when it is done, the next one inserts the rows
of all that wait by then.  There is no writer thread, so a lone caller is not delayed.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from penstock.errors import StoreError
from penstock.store.session import JobRow

_INTERRUPTED: Final = (
    "the thread that enqueued for several was interrupted: this may or may not have been written"
)
MOST: Final = 10_000  # rows in one statement, but for those of a single caller


class _Piece:
    """The rows of one thread.  Its *signal* is released when they were inserted, or when the thread must insert."""

    __slots__ = ("error", "finished", "rows", "signal")

    def __init__(self, rows: Sequence[JobRow]) -> None:
        self.rows = rows
        self.finished = False
        self.error: BaseException | None = None
        self.signal = threading.Lock()
        self.signal.acquire()


class BulkInsert:
    """Inserts the rows of all threads that wait with one *add*: all of them or none."""

    def __init__(self, add: Callable[[Sequence[JobRow]], None]) -> None:
        self._add = add
        self._lock = threading.Lock()
        self._busy = False
        self._waiting: deque[_Piece] = deque()

    def add(self, rows: Sequence[JobRow]) -> None:
        """Return once *rows* were inserted, perhaps together with those of other threads."""
        piece = _Piece(rows)
        with self._lock:
            first, self._busy = not self._busy, True
            if not first:
                self._waiting.append(piece)
        if not first:
            self._await_signal(piece)
        if not piece.finished:
            self._go_ahead(piece)
        if piece.error is not None:
            raise piece.error

    def _go_ahead(self, own: _Piece) -> None:
        pieces = [own, *self._others(len(own.rows))]
        try:
            self._add([row for piece in pieces for row in piece.rows] if len(pieces) > 1 else own.rows)
        except BaseException as error:  # noqa: BLE001 - told to every caller
            # An interrupt of this thread is not an error of the others.
            told = error if isinstance(error, Exception) else StoreError(_INTERRUPTED)
            own.error = error
            for piece in pieces[1:]:
                piece.error = told
        self._hand_on()
        for piece in pieces[1:]:
            piece.finished = True
            piece.signal.release()

    def _await_signal(self, piece: _Piece) -> None:
        try:
            piece.signal.acquire()
        except BaseException:
            with self._lock:
                waiting = piece in self._waiting
                if waiting:
                    self._waiting.remove(piece)
            if not waiting:
                # Another thread has taken its rows along already, or it was told to go ahead.
                piece.signal.acquire()
                if not piece.finished:
                    self._hand_on()
            raise

    def _others(self, size: int) -> list[_Piece]:
        """Return what else waits, as much as fits into one statement."""
        found = []
        with self._lock:
            while self._waiting and size < MOST:
                found.append(self._waiting.popleft())
                size += len(found[-1].rows)
        return found

    def _hand_on(self) -> None:
        """Let the next thread go ahead, if there is one."""
        with self._lock:
            following = self._waiting.popleft() if self._waiting else None
            self._busy = following is not None
        if following is not None:
            following.signal.release()
