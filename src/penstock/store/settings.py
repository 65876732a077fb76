"""Statements about what operators decided."""

from collections.abc import Sequence

from penstock.store.session import Session
from penstock.store.statements import literally


def under(db: Session, prefix: str) -> dict[str, str]:
    """Return the settings whose names begin with *prefix*."""
    named = f"{literally(prefix)}%"
    return dict(db.all("SELECT name, value FROM setting WHERE name LIKE ? ESCAPE '!' ORDER BY name", named))


def put(db: Session, name: str, value: str, now: int) -> None:
    """Keep a setting."""
    db.run(
        """
        INSERT INTO setting (name, value, at) VALUES (?, ?, ?)
        ON CONFLICT (name) DO UPDATE SET value = excluded.value, at = excluded.at
        """,
        name,
        value,
        now,
    )


def delete(db: Session, name: str) -> None:
    """Forget a setting."""
    db.run("DELETE FROM setting WHERE name = ?", name)


def of(db: Session, names: Sequence[str]) -> dict[str, str]:
    """Return those of these settings that exist."""
    return dict(
        db.all("SELECT name, value FROM setting WHERE name IN (SELECT value FROM each(?))", list(names))
    )


def delete_all(db: Session, names: Sequence[str]) -> None:
    """Forget settings."""
    db.many("DELETE FROM setting WHERE name = ?", [(name,) for name in names])
