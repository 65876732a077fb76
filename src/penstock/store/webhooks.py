"""Statements about webhooks."""

from typing import Final

from penstock.store.session import Row, Session

COLUMNS: Final = """
    id, tenant, url, events, queues, tasks, active, secret, previous, previous_until, meta, created, changed
"""


def all_of(db: Session, tenant: str | None) -> list[Row]:
    """Return the webhooks of one tenant, or of all, in the order of COLUMNS, the oldest first."""
    if tenant is None:
        return db.all(f"SELECT {COLUMNS} FROM webhook ORDER BY id")
    return db.all(f"SELECT {COLUMNS} FROM webhook WHERE tenant = ? ORDER BY id", tenant)


def of(db: Session, id_: str) -> Row | None:
    """Return one webhook, in the order of COLUMNS."""
    return db.one(f"SELECT {COLUMNS} FROM webhook WHERE id = ?", id_)


def locked(db: Session, id_: str) -> Row | None:
    """Return one webhook, and keep others from changing it."""
    return db.one(f"SELECT {COLUMNS} FROM webhook WHERE id = ? FOR UPDATE", id_)


def count(db: Session) -> int:
    """Return how many webhooks there are."""
    row = db.one("SELECT count(*) FROM webhook")
    return int(row[0]) if row else 0


def put(db: Session, row: Row) -> None:
    """Add a webhook, in the order of COLUMNS, or replace it."""
    db.run(
        f"""
        INSERT INTO webhook ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
        ON CONFLICT (id) DO UPDATE SET url = excluded.url, events = excluded.events, queues = excluded.queues,
            tasks = excluded.tasks, active = excluded.active, secret = excluded.secret, previous = excluded.previous,
            previous_until = excluded.previous_until, meta = excluded.meta, changed = excluded.changed
        """,
        *row,
    )


def delete(db: Session, id_: str) -> int:
    """Delete a webhook; return how many there were."""
    return db.run("DELETE FROM webhook WHERE id = ?", id_)
