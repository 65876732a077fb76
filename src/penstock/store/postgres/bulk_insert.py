"""Add jobs without limits in one statement, with no transaction to begin and no second round trip.

A column that has the same value in all rows, as most have, is passed once.

Threads that insert at the same time share one statement and one flush to disk.  The first thread inserts at once.
Threads that come meanwhile wait; when it is done, the next one inserts the rows of all that wait by then.  There is no
writer thread, so a lone caller is not delayed.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import cache
from typing import Final

from psycopg import sql as quoting

from penstock.errors import StoreError
from penstock.store.jobs import JOB_COLUMNS
from penstock.store.postgres import translation
from penstock.store.session import JobRow

_COLUMNS: Final = [name.strip() for name in JOB_COLUMNS.split(",")]
_VARYING: Final = frozenset({"id"})  # never the same twice
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
    """Inserts the rows of all threads that wait at once: all of them or none."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._busy = False
        self._waiting: deque[_Piece] = deque()

    def add(self, rows: Sequence[JobRow], insert: Callable[[Sequence[JobRow]], None]) -> None:
        """Return once *rows* were inserted, perhaps together with those of other threads by the *insert* of one."""
        piece = _Piece(rows)
        with self._lock:
            first, self._busy = not self._busy, True
            if not first:
                self._waiting.append(piece)
        if not first:
            self._await_signal(piece)
        if not piece.finished:
            self._go_ahead(piece, insert)
        if piece.error is not None:
            raise piece.error

    def _go_ahead(self, own: _Piece, insert: Callable[[Sequence[JobRow]], None]) -> None:
        pieces = [own, *self._others(len(own.rows))]
        try:
            insert([row for piece in pieces for row in piece.rows] if len(pieces) > 1 else own.rows)
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


def statement(
    schema: str, rows: Sequence[JobRow], notice: tuple[str, str] | None = None
) -> tuple[bytes, list[object]]:
    """Return the statement that adds *rows*, in the order of JOB_COLUMNS but without a number, and its values.

    If one of the queues has a bound, it adds nothing and answers so: a bound takes more than one statement.
    A *notice*, as (channel, payload), is sent along.
    """
    columns = dict(zip(_COLUMNS, zip(*rows, strict=True), strict=True))
    del columns["seq"]
    same = frozenset(
        name
        for name, values in columns.items()
        if name not in _VARYING and values.count(values[0]) == len(values)
    )
    values: list[object] = [columns[name][0] for name in columns if name in same]
    for name, column in columns.items():
        if name not in same:
            values.append(translation.array(column, translation.type_of_column("job", name)))
    return _text(schema, same, notifying=notice is not None), [*values, *(notice or ())]


@cache
def _text(schema: str, same: frozenset[str], *, notifying: bool) -> bytes:
    names = [name for name in _COLUMNS if name != "seq"]
    ordered = [name for name in names if name in same] + [name for name in names if name not in same]
    number = {name: place for place, name in enumerate(ordered, 1)}
    type_of = {name: translation.type_of_column("job", name) for name in names}
    arrays = [name for name in names if name not in same]
    given = ", ".join(f"${number[name]}::{type_of[name]}[]" for name in arrays)
    taken = ", ".join(f"${number[n]}::{type_of[n]}" if n in same else f"given.{n}" for n in names)
    home = quoting.Identifier(schema).as_string()
    queues = f"${number['queue']}::text" if "queue" in same else f"ANY(${number['queue']}::text[])"
    sequence = quoting.Literal(f"{home}.number").as_string()
    end = len(ordered)
    return f"""
        WITH bounded AS (
            SELECT 1 FROM {home}.queue_bound WHERE queue = {queues} AND tenant = '' LIMIT 1
        ), added AS (
            INSERT INTO {home}.job (seq, {", ".join(names)})
            SELECT nextval({sequence}), {taken} FROM unnest({given}) AS given({", ".join(arrays)})
            WHERE NOT EXISTS (SELECT 1 FROM bounded)
            RETURNING seq, queue, priority, cost
        ), placed AS (
            INSERT INTO {home}.ready (seq, queue, priority, ord, cost, attempt, lost)
            SELECT seq, queue, priority, seq, cost, 0, 0 FROM added
        )
        SELECT EXISTS (SELECT 1 FROM bounded){f", pg_notify(${end + 1}, ${end + 2})" if notifying else ""}
    """.encode()
