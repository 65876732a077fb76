"""Group commit: the writers of one process share transactions.

The caller that holds the lock runs everything that waits for it in one transaction and one flush to disk.
Each piece of work is behind a savepoint of its own, so one that fails takes no other with it.  There is no
writer thread: an idle caller goes straight through.

Invariant: `write` returns only after its work is committed to files that other processes can open, and is on disk
if it asked for that.
"""

import sqlite3
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Generic, TypeVar

from penstock.errors import StoreBrokenError
from penstock.store.session import Session
from penstock.store.sqlite.errors import patiently
from penstock.store.sqlite.files import Files
from penstock.store.sqlite.session import SqliteSession

T = TypeVar("T")

GATHER: Final = 64  # pieces of work in one transaction, so that no caller waits long


class PendingWrite(Generic[T]):
    """One caller's work, waiting for a transaction."""

    __slots__ = ("answer", "answered", "error", "finished", "keep", "work")

    def __init__(self, work: Callable[[Session], T], keep: bool) -> None:  # noqa: FBT001 - only `write` makes one
        self.work = work
        self.keep = keep
        self.finished = False
        self.answered = False
        self.answer: T
        self.error: BaseException | None = None


class Writer:
    """Runs the transactions of one process on its *connection*; calls *changed* after each that changed something."""

    def __init__(self, connection: sqlite3.Connection, files: Files, changed: Callable[[], None]) -> None:
        self.lock = threading.Lock()
        self._connection = connection
        self._files = files
        self._changed = changed
        self._waiting: deque[PendingWrite[object]] = deque()
        self._flushing = True

    def write(self, work: Callable[[Session], T], *, keep: bool) -> T:
        """Run *work* in a transaction; return its answer once that is committed."""
        piece = PendingWrite(work, keep)
        self._waiting.append(piece)  # type: ignore[arg-type]
        with self.lock:
            while not piece.finished:
                self._run_gathered(piece)
        if piece.error is not None:
            raise piece.error
        return piece.answer

    def _run_gathered(self, own: PendingWrite[T]) -> None:
        """Run what waits in one transaction, for the caller of *own*."""
        pieces: list[PendingWrite[object]] = []
        before = self._connection.total_changes
        try:
            while self._waiting and len(pieces) < GATHER:
                pieces.append(self._waiting.popleft())
            self._flush_at_commit(wanted=any(piece.keep for piece in pieces))
            self._begin()
            for piece in pieces:
                self._run_piece(piece)
            self._connection.execute("COMMIT")
            if any(piece.keep for piece in pieces) and not self._flushing:
                self._flush()
            self._files.check()
        except Exception as error:  # noqa: BLE001 - told to every caller
            self._undo(pieces, error)
        except BaseException:
            self._leave_to_others(pieces, own)
            raise
        else:
            for piece in pieces:
                piece.finished = True
        if self._connection.total_changes != before:
            self._changed()

    def _undo(self, pieces: list[PendingWrite[object]], error: Exception) -> None:
        """Roll back, and give every caller the error."""
        first = next((piece.error for piece in pieces if piece.error is not None), None)
        told = first if first is not None and "savepoint" in str(error) else self._told(error)
        if self._connection.in_transaction:
            with suppress(sqlite3.Error):  # a damaged file may refuse that too
                self._connection.execute("ROLLBACK")
        for piece in pieces:
            piece.error = piece.error or told
            piece.finished = True

    def _leave_to_others(self, pieces: list[PendingWrite[object]], own: PendingWrite[T]) -> None:
        """Put the work of other callers back: an interrupt of this thread must not fail it."""
        undone = self._connection.in_transaction or not all(piece.answered or piece.error for piece in pieces)
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")
        for piece in reversed(pieces):
            if undone and piece is not own:
                piece.answered, piece.error = False, None
                self._waiting.appendleft(piece)
            else:
                piece.finished = True

    def _run_piece(self, piece: PendingWrite[object]) -> None:
        self._connection.execute("SAVEPOINT piece")
        session = SqliteSession(self._connection)
        try:
            piece.answer = piece.work(session)
            piece.answered = True
            piece.keep = piece.keep or session.flush
        except Exception as error:  # handed to the caller that brought the work
            piece.error = self._told(error)
            if isinstance(piece.error, StoreBrokenError):
                raise piece.error from error  # nothing more is written to a damaged file
            # If a full disk has rolled everything back already, this fails and every caller gets the error.
            self._connection.execute("ROLLBACK TO piece")
        self._connection.execute("RELEASE piece")

    def _flush_at_commit(self, *, wanted: bool) -> None:
        if wanted != self._flushing:
            self._connection.execute(f"PRAGMA synchronous = {'FULL' if wanted else 'NORMAL'}")
            self._flushing = wanted

    def _flush(self) -> None:
        """Put all that was committed on disk: a commit that flushes takes the log before it along."""
        self._flush_at_commit(wanted=True)
        self._begin()
        self._connection.execute("UPDATE counter SET value = value")
        self._connection.execute("COMMIT")

    def _begin(self) -> None:
        patiently(lambda: self._connection.execute("BEGIN IMMEDIATE"), self._files.path)

    def _told(self, error: Exception) -> Exception:
        """Return the error that a caller gets for *error*."""
        return self._files.told(error) if isinstance(error, sqlite3.Error) else error
