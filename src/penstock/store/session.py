"""One transaction, as the statements of this package see it."""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

Row = tuple[Any, ...]
Work = Any


class Session(Protocol):
    """Runs statements inside one transaction.

    Statements are written once, in the common subset of SQLite and PostgreSQL: `?` for a parameter,
    `each(?)` for a list of values, which arrives as rows of one column named `value`.
    """

    def all(self, sql: str, *values: object) -> list[Row]:
        """Run a statement and return its rows."""
        ...

    def one(self, sql: str, *values: object) -> Row | None:
        """Run a statement and return its first row."""
        ...

    def run(self, sql: str, *values: object) -> int:
        """Run a statement and return how many rows it touched."""
        ...

    def many(self, sql: str, rows: Iterable[Sequence[object]]) -> None:
        """Run a statement once for each of *rows*."""
        ...

    def keep(self) -> None:
        """Have this transaction on disk before its caller hears of it, even if the machine loses its power."""
        ...

    def numbers(self, count: int) -> int:
        """Reserve *count* consecutive numbers for ids, places and fences; return the first."""
        ...
