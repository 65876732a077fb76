"""Several statements in one message to the server, under the names by which it keeps their plans.

A message is one text.  The server runs its statements one after the other, each on a view of its own, and stops at the
first that fails.  It has all of them before it takes a lock.  In a pipeline it would wait for the rest, and it does not
watch how long: a process that is stopped while it sends would keep its locks.
"""

from collections.abc import Iterable
from typing import Final

import psycopg
from psycopg import sql as quoting

MOST: Final = 400  # statements that a connection keeps


class PreparedNames:
    """The names under which one connection has prepared statements.

    They begin with the *connection*'s own: behind a pooler that is not known as one, the server of another connection
    then has no statement of that name, instead of another statement.
    """

    def __init__(self, connection: str) -> None:
        self._connection = connection
        self._names: dict[str, str] = {}
        self._given = 0
        self._new: list[str] = []

    def call(self, statement: str, values: str) -> str:
        """Return the text that runs a statement with these *values*, and prepares it if it is new here."""
        name = self._names.get(statement)
        if name is not None:
            return f"EXECUTE {name}{values}"
        self._given += 1
        name = f"penstock_{self._connection}_{self._given}"
        steps = [f"PREPARE {name} AS {statement}", f"EXECUTE {name}{values}"]
        if len(self._names) >= MOST:
            oldest = next(iter(self._names))
            steps.insert(0, f"DEALLOCATE {self._names.pop(oldest)}")
        self._names[statement] = name
        self._new.append(statement)
        return "; ".join(steps)

    def sent(self) -> None:
        """Note that the server has run the message, so that it knows the new names."""
        self._new.clear()

    def failed(self) -> None:
        """Note that it has not: the new names may be taken or not, and are not used again."""
        for statement in self._new:
            self._names.pop(statement, None)
        self._new.clear()


def literals(values: Iterable[object]) -> str:
    """Return values as they stand behind the name of a statement."""
    said = ", ".join([_literal(value) for value in values])
    return f" ({said})" if said else ""


def _literal(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, bytes):
        return f"E'\\\\x{value.hex()}'"
    text = str(value)
    if "\0" in text:
        raise psycopg.DataError("PostgreSQL text fields cannot contain NUL (0x00) bytes")
    if "'" in text or "\\" in text:
        return quoting.Literal(text).as_string()
    return f"'{text}'"
