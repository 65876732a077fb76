"""Statements about workers, as they told of themselves last."""

from collections.abc import Iterable

from penstock.store.session import Session
from penstock.store.statements import chosen


def hear(db: Session, rows: Iterable[tuple[str, str, int, str]]) -> None:
    """Keep (name, tenant, when it was heard, what it told) of workers."""
    db.many(
        """
        INSERT INTO worker (name, tenant, heard, facts) VALUES (?, ?, ?, ?)
        ON CONFLICT (name, tenant) DO UPDATE SET heard = excluded.heard, facts = excluded.facts
        """,
        rows,
    )


def forget(db: Session, rows: Iterable[tuple[str, str]]) -> None:
    """Forget workers, given (name, tenant)."""
    db.many("DELETE FROM worker WHERE name = ? AND tenant = ?", rows)


def is_known(db: Session, name: str, tenant: str) -> bool:
    """Tell whether a worker was heard from lately."""
    return db.one("SELECT 1 FROM worker WHERE name = ? AND tenant = ?", name, tenant) is not None


def all_of(db: Session, tenant: str | None) -> list[tuple[int, str]]:
    """Return (when it was heard, what it told) of the workers of one tenant, or of all, by name."""
    which, values = chosen(tenant=tenant)
    return db.all(f"SELECT heard, facts FROM worker {which} ORDER BY name, tenant", *values)


def forget_silent(db: Session, before: int) -> None:
    """Forget workers that were not heard from since."""
    db.run("DELETE FROM worker WHERE heard < ?", before)
