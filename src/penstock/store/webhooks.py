"""Statements about webhooks."""

from typing import Final, NamedTuple

from penstock.store.session import Session


class WebhookRow(NamedTuple):
    """A webhook as it is stored; events, queues and tasks are JSON lists."""

    id: str
    tenant: str
    url: str
    events: str
    queues: str
    tasks: str
    active: int
    secret: str
    previous: str
    previous_until: int
    meta: str
    created: int
    changed: int


_COLUMNS: Final = ", ".join(WebhookRow._fields)


def all_of(db: Session, tenant: str | None) -> list[WebhookRow]:
    """Return the webhooks of one tenant, or of all, the oldest first."""
    if tenant is None:
        rows = db.all(f"SELECT {_COLUMNS} FROM webhook ORDER BY id")
    else:
        rows = db.all(f"SELECT {_COLUMNS} FROM webhook WHERE tenant = ? ORDER BY id", tenant)
    return [WebhookRow(*row) for row in rows]


def of(db: Session, id_: str) -> WebhookRow | None:
    """Return one webhook."""
    row = db.one(f"SELECT {_COLUMNS} FROM webhook WHERE id = ?", id_)
    return None if row is None else WebhookRow(*row)


def locked(db: Session, id_: str) -> WebhookRow | None:
    """Return one webhook, and lock it."""
    row = db.one(f"SELECT {_COLUMNS} FROM webhook WHERE id = ? FOR UPDATE", id_)
    return None if row is None else WebhookRow(*row)


def count(db: Session) -> int:
    """Return how many webhooks there are."""
    row = db.one("SELECT count(*) FROM webhook")
    return int(row[0]) if row else 0


def put(db: Session, row: WebhookRow) -> None:
    """Add a webhook, or replace it."""
    db.run(
        f"""
        INSERT INTO webhook ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
        ON CONFLICT (id) DO UPDATE SET url = excluded.url, events = excluded.events, queues = excluded.queues,
            tasks = excluded.tasks, active = excluded.active, secret = excluded.secret, previous = excluded.previous,
            previous_until = excluded.previous_until, meta = excluded.meta, changed = excluded.changed
        """,
        *row,
    )


def delete(db: Session, id_: str) -> int:
    """Delete a webhook; return how many there were."""
    return db.run("DELETE FROM webhook WHERE id = ?", id_)
