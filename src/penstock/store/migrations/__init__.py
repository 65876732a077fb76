"""Bring a database's schema up to date: forward only, one transaction, safe from many processes at once."""

from dataclasses import dataclass
from importlib.resources import files

from penstock.store.session import Session


@dataclass(frozen=True, slots=True)
class Pending:
    """How far a database is: the version *found*, the last one *known*, the steps *missing*."""

    found: int
    known: int
    missing: tuple[str, ...]

    @property
    def newer(self) -> bool:
        return self.found > self.known


def pending(db: Session) -> Pending:
    """Tell how far the database is.  Changes nothing."""
    found = _version(db)
    names = _names()
    return Pending(found, _number(names[-1]), tuple(n for n in names if _number(n) > found))


def apply(db: Session) -> list[str]:
    """Take every missing step; return their names."""
    db.run("CREATE TABLE IF NOT EXISTS schema_version (version BIGINT NOT NULL)")
    db.run("CREATE TABLE IF NOT EXISTS counter (value BIGINT NOT NULL)")
    if db.one("SELECT value FROM counter") is None:
        db.run("INSERT INTO counter (value) VALUES (0)")
    taken = list(pending(db).missing)
    for name in taken:
        for statement in statements(name):
            db.run(statement)
        db.run("INSERT INTO schema_version (version) VALUES (?)", _number(name))
    return taken


def statements(name: str) -> list[str]:
    """Return the statements of one step, in SQLite's words."""
    text = (files(__package__) / name).read_text()
    # Only an INTEGER primary key is the row's own number in SQLite; any other costs a second tree.
    text = text.replace("BIGINT PRIMARY KEY", "INTEGER PRIMARY KEY").replace("BYTEA", "BLOB")
    lines = [line for line in text.splitlines() if not line.startswith("--")]
    return [s.strip() for s in "\n".join(lines).split(";") if s.strip()]


def _version(db: Session) -> int:
    if db.one("SELECT 1 FROM sqlite_master WHERE name = 'schema_version'") is None:
        return 0
    row = db.one("SELECT max(version) FROM schema_version")
    return int(row[0] or 0) if row else 0


def _names() -> list[str]:
    return sorted(f.name for f in files(__package__).iterdir() if f.name.endswith(".sql"))


def _number(name: str) -> int:
    return int(name.partition("_")[0])
