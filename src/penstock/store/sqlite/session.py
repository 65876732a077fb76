"""A transaction on SQLite, as statements see it."""

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from penstock.job import Topic
from penstock.store.session import Moment, Row, Session
from penstock.store.sqlite import translation

_encode: Final = msgspec.json.Encoder().encode


class SqliteSession:
    """A transaction on one connection."""

    __slots__ = ("_connection", "flush")

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.flush = False

    def keep(self) -> None:
        self.flush = True

    def all(self, sql: str, *values: object) -> list[Row]:
        return self._execute(sql, values).fetchall()

    def one(self, sql: str, *values: object) -> Row | None:
        row: Row | None = self._execute(sql, values).fetchone()
        return row

    def run(self, sql: str, *values: object) -> int:
        return self._execute(sql, values).rowcount

    def many(self, sql: str, rows: Iterable[Sequence[object]]) -> None:
        self._connection.executemany(translation.several(sql), rows)

    def last(self, sql: str, rows: Iterable[Sequence[object]]) -> None:
        self.many(sql, rows)

    def send_last(self) -> None: ...

    def along(self, ask: Callable[[Session], object]) -> bool:  # noqa: ARG002 - there is no way to save
        return False

    def numbers(self, count: int) -> range:
        row = self._connection.execute(
            "UPDATE counter SET value = value + ? RETURNING value", (count,)
        ).fetchone()
        return range(int(row[0]) - count + 1, int(row[0]) + 1)

    def fence(self) -> int:
        return self.numbers(1)[0]

    # One writer at a time holds the whole file, and every process sees each commit.

    @property
    def gated(self) -> bool:
        return True

    @property
    def shares_gates(self) -> bool:
        return False

    def need_gates(self) -> None: ...

    def lock(self, names: Sequence[str]) -> None: ...

    def tell(self, topic: Topic) -> None: ...

    def tell_if_undone(self, topic: Topic) -> None: ...

    def moment(self) -> Moment | None:
        return None

    def _execute(self, sql: str, values: tuple[object, ...]) -> sqlite3.Cursor:
        for value in values:
            if type(value) is list:
                values = tuple(_encode(v).decode() if type(v) is list else v for v in values)
                break
        return self._connection.execute(translation.single(sql), values)
