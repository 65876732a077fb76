"""Statements about what operators decided."""

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
