"""Bring a database's schema up to date: forward only, one transaction, safe from many processes at once."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from penstock.errors import SchemaError
from penstock.store.migrations import tenant_limits
from penstock.store.session import Session

# What follows is a statement for one database and a comment for the other: how a table is stored, or changed.
_POSTGRES_ONLY = "-- on PostgreSQL: "
_SQLITE_ONLY = "-- on SQLite: "
# What a step does, after its statements, that takes more than SQL.
_IN_PYTHON = {"0014_tenants.sql": tenant_limits.move}


@dataclass(frozen=True, slots=True)
class Kind:
    """What differs between databases: how to ask for a table, what gives out numbers, how types are called."""

    has_version: str
    counter: tuple[str, ...]
    translated: Callable[[str], str]
    postgres: bool


@dataclass(frozen=True, slots=True)
class Pending:
    """How far a database is: the version *found*, the last one *known*, the steps *missing*."""

    found: int
    known: int
    missing: tuple[str, ...]

    def check(self, store: str, *, migrate: bool) -> None:
        """Raise unless this penstock can use the *store*, once it did what is missing if it may *migrate*."""
        if self.found > self.known:
            raise SchemaError(
                f"{store} was written by a newer penstock (schema {self.found}, this one knows "
                f"{self.known}); upgrade penstock"
            )
        if self.missing and not migrate:
            raise SchemaError(f"{store} needs `penstock migrate` first (schema {self.found} of {self.known})")


def pending(db: Session, kind: Kind) -> Pending:
    """Tell how far the database is.  Changes nothing."""
    found = _version(db, kind)
    return Pending(found, _number(names()[-1]), tuple(n for n in names() if _number(n) > found))


def apply(db: Session, kind: Kind) -> list[str]:
    """Take every missing step; return their names."""
    db.run("CREATE TABLE IF NOT EXISTS schema_version (version BIGINT NOT NULL)")
    for statement in kind.counter:
        db.run(statement)
    taken = list(pending(db, kind).missing)
    for name in taken:
        for statement in statements(name, kind):
            db.run(statement)
        if name in _IN_PYTHON:
            _IN_PYTHON[name](db)
        db.run("INSERT INTO schema_version (version) VALUES (?)", _number(name))
    return taken


def statements(name: str, kind: Kind) -> list[str]:
    """Return the statements of one step, in the database's words."""
    whole = text(name).replace(_POSTGRES_ONLY if kind.postgres else _SQLITE_ONLY, "")
    lines = [line for line in kind.translated(whole).splitlines() if not line.startswith("--")]
    return [s.strip() for s in "\n".join(lines).split(";") if s.strip()]


def names() -> list[str]:
    """Return the names of all steps, in order."""
    return sorted(f.name for f in files(__package__).iterdir() if f.name.endswith(".sql"))


@dataclass(frozen=True, slots=True)
class Schema:
    """The tables after the last step."""

    columns: dict[str, dict[str, str]]  # the types of each table's columns
    indexes: dict[str, str]  # the step that makes each index; without those that come with their table


def schema() -> Schema:
    """Return the tables after the last step."""
    return _schema(tuple(names()))


@cache
def _schema(steps: tuple[str, ...]) -> Schema:
    # SQLite reads the steps, so that no code here has to understand a renamed table or a dropped index.
    indexes: dict[str, str] = {}
    with closing(sqlite3.connect(":memory:")) as db:
        for step in steps:
            db.executescript(text(step).replace(_SQLITE_ONLY, ""))
            made = db.execute("SELECT name FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL")
            indexes = {name: indexes.get(name, step) for (name,) in made}
        columns: dict[str, dict[str, str]] = {}
        every = """
            SELECT t.name, c.name, lower(c.type) FROM sqlite_master t, pragma_table_info(t.name) c
            WHERE t.type = 'table'
        """
        for table, column, type_ in db.execute(every):
            columns.setdefault(table, {})[column] = type_
    return Schema(columns, indexes)


def text(name: str) -> str:
    """Return a step as it was written."""
    return (files(__package__) / name).read_text()


def _version(db: Session, kind: Kind) -> int:
    if db.one(kind.has_version) is None:
        return 0
    row = db.one("SELECT max(version) FROM schema_version")
    return int(row[0] or 0) if row else 0


def _number(name: str) -> int:
    return int(name.partition("_")[0])
