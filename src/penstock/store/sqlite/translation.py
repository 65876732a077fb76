"""Statements and migrations in SQLite's words."""

from functools import cache
from typing import Final

from penstock.store import migrations
from penstock.store.statements import Part, for_rows, parts

# One writer holds the whole file, so that rows need no locks.
_WORDS: Final = {
    Part.AMONG: "IN (SELECT value FROM json_each(?))",
    Part.ROWS: "json_each(?) e",
    Part.EVERY: "IN (",
    Part.LOCK: "",
}


def _typed(text: str) -> str:
    # Only an INTEGER primary key is the row's own number in SQLite; any other costs a second tree.
    return text.replace("BIGINT PRIMARY KEY", "INTEGER PRIMARY KEY").replace("BYTEA", "BLOB")


KIND: Final = migrations.Kind(
    has_version="SELECT 1 FROM sqlite_master WHERE name = 'schema_version'",
    counter=(
        "CREATE TABLE IF NOT EXISTS counter (value BIGINT NOT NULL)",
        "INSERT INTO counter (value) SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM counter)",
    ),
    translated=_typed,
    postgres=False,
)


@cache
def single(sql: str) -> str:
    """Return a statement in SQLite's words."""
    return "".join([_WORDS.get(part, text) for part, text in parts(sql)])


@cache
def several(sql: str) -> str:
    """Return a statement to be run once for each row."""
    for_rows(sql)
    return sql
