"""Statements in PostgreSQL's words: the same text as for SQLite, with other ways to pass values.

Lists travel as array literals, which are far cheaper to write than one value at a time: `each(?)`
becomes an `unnest`, and a statement for many rows becomes one statement over `unnest` of its columns.
"""

import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Final

from penstock.store import migrations

_EITHER: Final = re.compile(r"(?P<among>IN \(SELECT value FROM each\(\?\)\))|each\(\?\) e\b")
_INSERT: Final = re.compile(r"\s*INSERT INTO (\w+) \(([^)]*)\)\s*VALUES \(([^)]*)\)(.*)", re.DOTALL)
_UPDATE: Final = re.compile(r"\s*UPDATE (\w+) SET (.*?) WHERE (.*)", re.DOTALL)
_DELETE: Final = re.compile(r"\s*DELETE FROM (\w+) WHERE (.*)", re.DOTALL)
_EQUAL: Final = re.compile(r"(\w+) = (?:\w+ \+ )?\?")


@cache
def single(sql: str, lists: tuple[str, ...]) -> str:
    """Return *sql* with numbered parameters; *lists* are the types of the lists among them, in order."""
    types = iter(lists)

    def each(match: re.Match[str]) -> str:
        if match["among"]:
            return f"= ANY(?::{next(types)}[])"
        return f"unnest(?::{next(types)}[]) AS e(value)"

    # An index is then walked in its own order, so that rows are locked in one order everywhere.
    return _numbered(_every(_EITHER.sub(each, sql)))


def same(columns: Sequence[Sequence[object]]) -> tuple[bool, ...]:
    """Tell which columns have one value in all rows, as most have; but not the first, which counts the rows."""
    return (False, *(column.count(column[0]) == len(column) for column in columns[1:]))


@cache
def several(sql: str, constant: tuple[bool, ...]) -> tuple[str, tuple[str, ...]]:
    """Return a statement that does to all rows what *sql* does to one, and the types of its columns.

    A column that is *constant* is passed once.
    """
    if match := _INSERT.fullmatch(sql):
        table, names, values, rest = match.groups()
        columns = [name.strip() for name in names.split(",")]
        given = [c for c, value in zip(columns, values.split(","), strict=True) if value.strip() == "?"]
        changed = f"INSERT INTO {table} ({names}) SELECT {_taken(values)} FROM {{rows}} {rest}"
    elif match := _UPDATE.fullmatch(sql):
        table, changes, which = match.groups()
        given = _EQUAL.findall(sql)
        both = _taken(f"{changes}\0{which}").split("\0")
        changed = f"UPDATE {table} SET {both[0]} FROM {{rows}} WHERE {both[1]}"
    elif match := _DELETE.fullmatch(sql):
        table, which = match.groups()
        given = _EQUAL.findall(sql)
        changed = f"DELETE FROM {table} USING {{rows}} WHERE {_taken(which)}"
    else:
        raise AssertionError(f"not a statement for many rows: {sql}")
    types = tuple(type_of_column(table, column) for column in given)
    arrays = [n for n, once in enumerate(constant) if not once]
    unnested = ", ".join(f"${n + 1}::{types[n]}[]" for n in arrays)
    changed = changed.format(rows=f"unnest({unnested}) AS given({', '.join(f'c{n}' for n in arrays)})")
    for n, once in enumerate(constant):
        if once:
            changed = changed.replace(f"given.c{n}#", f"${n + 1}::{types[n]}")
    return changed.replace("#", ""), types


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
    """Return the type of a column of ours."""
    return migrations.schema().columns[table][column]


def _quoted(value: object) -> str:
    if value is None:
        return "NULL"
    text = str(value)
    if '"' in text or "\\" in text:
        text = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


def _taken(text: str) -> str:
    """Return *text* with its parameters taken from the columns of a row."""
    number = -1

    def column(_: re.Match[str]) -> str:
        nonlocal number
        number += 1
        return f"given.c{number}#"

    return re.sub(r"\?", column, text)


def _every(sql: str) -> str:
    """Return *sql* with `IN EVERY (...)` as a list that is made once, whatever the planner thinks of the tables."""
    before, found, rest = sql.partition("IN EVERY (")
    if not found:
        return sql
    depth, end = 1, 0
    while depth:
        depth += {"(": 1, ")": -1}.get(rest[end], 0)
        end += 1
    return f"{before}= ANY(ARRAY({rest[:end]}){rest[end:]}"


def _numbered(sql: str) -> str:
    parts = sql.split("?")
    return "".join(f"{part}${n}" for n, part in enumerate(parts[:-1], 1)) + parts[-1]
