"""Statements about what operators changed."""

from typing import Final

from penstock.job import AuditEntry, AuditFilter
from penstock.store.session import Session

_COLUMNS: Final = ", ".join(AuditEntry.__struct_fields__)


def add(db: Session, entry: AuditEntry) -> None:
    """Write down a change."""
    db.last(
        f"INSERT INTO audit ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [tuple(getattr(entry, name) for name in entry.__struct_fields__)],
    )


def count(db: Session, number: int, more: int) -> None:
    """Count what a bulk operation has touched."""
    db.run("UPDATE audit SET touched = touched + ? WHERE number = ?", more, number)


def end(db: Session, number: int, after: str | None) -> None:
    """Write down how a bulk operation ended."""
    db.run("UPDATE audit SET after = ? WHERE number = ?", after, number)


def page(db: Session, wanted: AuditFilter, before: int | None, limit: int) -> list[AuditEntry]:
    """Return changes that fit, newest first, *before* a number."""
    given = {
        "kind = ?": wanted.kind,
        "subject = ?": wanted.subject,
        "verb = ?": wanted.verb,
        "who = ?": wanted.who,
        "through = ?": wanted.through,
        "tenant = ?": wanted.tenant,
        "at >= ?": wanted.since,
        "at < ?": wanted.until,
        "number < ?": before,
    }
    chosen = {condition: value for condition, value in given.items() if value is not None}
    which = f"WHERE {' AND '.join(chosen)}" if chosen else ""
    rows = db.all(
        f"SELECT {_COLUMNS} FROM audit {which} ORDER BY number DESC LIMIT ?", *chosen.values(), limit
    )
    return [AuditEntry(*row) for row in rows]


def prune(db: Session, before: int, most: int) -> int:
    """Delete up to *most* rows that are older; return how many."""
    return db.run(
        "DELETE FROM audit WHERE number IN (SELECT number FROM audit WHERE at < ? ORDER BY at LIMIT ?)",
        before,
        most,
    )
