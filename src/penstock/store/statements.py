"""The language in which statements are written, once for both databases.

A statement is SQL that SQLite and PostgreSQL share, with these additions:

- `?` is a value.  Values are passed beside the statement, never written into it.
- `each(?)` is a list of values.  It has two forms: `IN (SELECT value FROM each(?))`, and `FROM each(?) e`, which
  gives rows with the one column `e.value`.
- `IN EVERY (SELECT ...)` finds all values of the inner query before it looks up the first of them, whatever the
  planner believes about the sizes of tables.
- `FOR UPDATE`, `FOR UPDATE OF alias`, and either with `SKIP LOCKED`, lock the rows that are found.

`Session.many` and `Session.last` run a statement once for each row, so that it has one of three forms:

- `INSERT INTO table (columns) VALUES (...)`, each a `?` or a literal, and perhaps `ON CONFLICT ...` without `?`
- `UPDATE table SET ... WHERE ...`, each `?` in `column = ?`
- `DELETE FROM table WHERE ...`, each `?` in `column = ?`

Text between quotes is left alone.  Both databases refuse a statement that uses an addition in any other way.
"""

import re
from enum import Enum, auto
from typing import Final, NamedTuple, NoReturn


class Part(Enum):
    """What a statement consists of."""

    TEXT = auto()  # SQL that both databases share
    VALUE = auto()
    AMONG = auto()  # IN (SELECT value FROM each(?))
    ROWS = auto()  # each(?) e
    EVERY = auto()  # IN EVERY (
    END = auto()  # the parenthesis that closes it
    LOCK = auto()  # FOR UPDATE


_ADDITIONS: Final = re.compile(
    r"""
    (?P<TEXT>'(?:[^']|'')*')
    | (?P<AMONG>\bIN\ \(SELECT\ value\ FROM\ each\(\?\)\))
    | (?P<ROWS>(?<=\bFROM\ )each\(\?\)\ e\b)
    | (?P<EVERY>\bIN\ EVERY\ \((?=\s*SELECT\b))
    | (?P<LOCK>\bFOR\ UPDATE(?:\ OF\ [a-z]\w*)?(?:\ SKIP\ LOCKED)?)
    | (?P<VALUE>\?)
    | (?P<OPEN>\()
    | (?P<CLOSE>\))
    """,
    re.VERBOSE,
)
# What is an addition, or would be one for a driver, and was not read as such.
_REFUSED: Final = re.compile(r"'|\$\d|\beach\b|\bEVERY\b|\bFOR\s+(?:UPDATE|SHARE)\b|\bSKIP\s+LOCKED\b|--|/\*")

_INSERT: Final = re.compile(r"\s*(INSERT INTO (\w+) \(([^)]*)\))\s+VALUES \(([^)]*)\)(.*)", re.DOTALL)
_UPDATE: Final = re.compile(r"\s*(UPDATE (\w+) SET .*?)\s+(WHERE .*)", re.DOTALL)
_DELETE: Final = re.compile(r"\s*(DELETE FROM (\w+)) (WHERE .*)", re.DOTALL)
_ASSIGNED: Final = re.compile(r"(\w+) = \?")


class ForRows(NamedTuple):
    """A statement for many rows, with a place between *before* and *after* for the word that names the rows."""

    table: str
    columns: tuple[str, ...]  # which each `?` is compared with or assigned to
    before: str
    word: str
    after: str


def parts(sql: str) -> list[tuple[Part, str]]:
    """Take a statement apart; refuse what is not in the language."""
    found, opened, end = [], list[Part](), 0
    for match in _ADDITIONS.finditer(sql):
        found.append((Part.TEXT, _shared(sql, sql[end : match.start()])))
        end, kind = match.end(), match.lastgroup
        if kind == "CLOSE":
            part = opened.pop() if opened else refuse(sql, "a parenthesis that nothing opens")
        else:
            part = Part.TEXT if kind == "OPEN" else Part[str(kind)]
        if kind in {"OPEN", "EVERY"}:
            opened.append(Part.END if kind == "EVERY" else Part.TEXT)
        found.append((part, match[0]))
    if opened:
        refuse(sql, "a parenthesis that nothing closes")
    return [*found, (Part.TEXT, _shared(sql, sql[end:]))]


def for_rows(sql: str) -> ForRows:
    """Take a statement apart that is run once for each row; refuse one that cannot be."""
    if match := _INSERT.fullmatch(sql):
        before, table, names, values, after = match.groups()
        columns, given = ([item.strip() for item in text.split(",")] for text in (names, values))
        if (
            len(columns) != len(given)
            or "?" in after
            or any("?" in value and value != "?" for value in given)
        ):
            refuse(sql, "values that are not one for each column")
        taken = [column for column, value in zip(columns, given, strict=True) if value == "?"]
        found = ForRows(table, tuple(taken), f"{before} SELECT {values}", "FROM", after)
    elif match := _UPDATE.fullmatch(sql):
        before, table, after = match.groups()
        found = ForRows(table, tuple(_ASSIGNED.findall(sql)), before, "FROM", after)
    elif match := _DELETE.fullmatch(sql):
        before, table, after = match.groups()
        found = ForRows(table, tuple(_ASSIGNED.findall(sql)), before, "USING", after)
    else:
        refuse(sql, "not a form for many rows")
    additions = [part for part, _ in [*parts(found.before), *parts(found.after)] if part is not Part.TEXT]
    if additions != [Part.VALUE] * len(found.columns):
        refuse(sql, "not a form for many rows")
    return found


def chosen(**wanted: object) -> tuple[str, list[object]]:
    """Return a WHERE for the columns that are given a value, if any is, and the values."""
    given = {column: value for column, value in wanted.items() if value is not None}
    which = " AND ".join(f"{column} = ?" for column in given)
    return f"WHERE {which}" if which else "", list(given.values())


def literally(text: str) -> str:
    """Return *text* as a part of a pattern, with ESCAPE '!'."""
    return text.replace("!", "!!").replace("%", "!%").replace("_", "!_")


def refuse(sql: str, problem: str) -> NoReturn:
    """Raise an error about a statement of penstock's own."""
    raise AssertionError(f"outside the language of statements ({problem}): {' '.join(sql.split())}")


def _shared(sql: str, text: str) -> str:
    if match := _REFUSED.search(text):
        refuse(sql, f"{match[0]!r} is in no place for it")
    return text
