"""What SQLite calls the things that statements and migrations name."""

import re
from functools import cache
from typing import Final

from penstock.store import migrations

_EACH: Final = re.compile(r"each\(\?\)")
_LOCK: Final = re.compile(r"FOR UPDATE( OF \w+)?( SKIP LOCKED)?")


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
def translate(sql: str) -> str:
    """Turn a statement into SQLite's words; one writer holds the whole file, so rows need no locks."""
    return _LOCK.sub("", _EACH.sub("json_each(?)", sql)).replace("IN EVERY (", "IN (")
