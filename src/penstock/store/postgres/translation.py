"""Statements in PostgreSQL's words.

Lists travel as array literals, which are far cheaper to write than one value at a time: `each(?)`
becomes an `unnest`, and a statement for many rows becomes one statement over `unnest` of its columns.
"""

from collections.abc import Iterable, Sequence
from functools import cache
from itertools import count

from penstock.store import migrations
from penstock.store.statements import Part, for_rows, parts


@cache
def single(sql: str, lists: tuple[str, ...]) -> str:
    """Return a statement in PostgreSQL's words; *lists* are the types of its lists, in order."""
    number, types, said = count(1), iter(lists), []
    for part, text in parts(sql):
        match part:
            case Part.VALUE:
                said.append(f"${next(number)}")
            case Part.AMONG:
                # An index is then walked in its own order, so that rows are locked in one order everywhere.
                said.append(f"= ANY(${next(number)}::{next(types)}[])")
            case Part.ROWS:
                said.append(f"unnest(${next(number)}::{next(types)}[]) AS e(value)")
            case Part.EVERY:
                said.append("= ANY(ARRAY(")
            case Part.END:
                said.append("))")
            case Part.TEXT | Part.LOCK:
                said.append(text)
    return "".join(said)


def same(columns: Sequence[Sequence[object]]) -> tuple[bool, ...]:
    """Tell which columns have one value in all rows, as most have; but not the first, which counts the rows."""
    return (False, *(column.count(column[0]) == len(column) for column in columns[1:]))


@cache
def several(sql: str, constant: tuple[bool, ...]) -> tuple[str, tuple[str, ...]]:
    """Return a statement that does to all rows what *sql* does to one, and the types of its columns.

    A column that is *constant* is passed once.
    """
    table, columns, before, word, after = for_rows(sql)
    types = tuple(type_of_column(table, column) for column in columns)
    values = iter([f"${n}::{types[n - 1]}" if once else f"given.c{n}" for n, once in enumerate(constant, 1)])
    arrays = [n for n, once in enumerate(constant, 1) if not once]
    unnested = ", ".join(f"${n}::{types[n - 1]}[]" for n in arrays)
    rows = f"unnest({unnested}) AS given({', '.join(f'c{n}' for n in arrays)})"
    halves = (
        "".join([next(values) if part is Part.VALUE else text for part, text in parts(half)])
        for half in (before, after)
    )
    return f" {word} {rows} ".join(halves), types


def array(values: Iterable[object], type_: str) -> str:
    """Return *values* as an array literal."""
    if type_ == "bigint":
        return "{" + ",".join(["NULL" if v is None else str(v) for v in values]) + "}"
    if type_ == "bytea":
        return "{" + ",".join([f'"\\\\x{v.hex()}"' for v in values if isinstance(v, bytes)]) + "}"
    return "{" + ",".join([_quoted(v) for v in values]) + "}"


def type_of(values: Sequence[object]) -> str:
    """Return the type of a list's values."""
    return "text" if values and isinstance(values[0], str) else "bigint"


@cache
def type_of_column(table: str, column: str) -> str:
    """Return the type of a column."""
    return migrations.schema().columns[table][column]


def _quoted(value: object) -> str:
    if value is None:
        return "NULL"
    text = str(value)
    if '"' in text or "\\" in text:
        text = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'
