"""Statements about webhooks."""

from typing import Final

import msgspec
from msgspec import structs

from penstock.job import Webhook
from penstock.store.session import Row, Session
from penstock.store.statements import chosen

_COLUMNS: Final = ", ".join(Webhook.__struct_fields__)  # one for each field
_LISTS: Final = ("events", "queues", "tasks")  # stored as JSON
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(tuple[str, ...]).decode


def all_of(db: Session, tenant: str | None) -> list[Webhook]:
    """Return the webhooks of one tenant, or of all, the oldest first."""
    which, values = chosen(tenant=tenant)
    rows = db.all(f"SELECT {_COLUMNS} FROM webhook {which} ORDER BY id", *values)
    return [_webhook(row) for row in rows]


def of(db: Session, id_: str) -> Webhook | None:
    """Return one webhook."""
    row = db.one(f"SELECT {_COLUMNS} FROM webhook WHERE id = ?", id_)
    return None if row is None else _webhook(row)


def locked(db: Session, id_: str) -> Webhook | None:
    """Return one webhook, and lock it."""
    row = db.one(f"SELECT {_COLUMNS} FROM webhook WHERE id = ? FOR UPDATE", id_)
    return None if row is None else _webhook(row)


def count(db: Session) -> int:
    """Return how many webhooks there are."""
    row = db.one("SELECT count(*) FROM webhook")
    return int(row[0]) if row else 0


def put(db: Session, webhook: Webhook) -> None:
    """Add a webhook, or replace it."""
    lists = {name: _encode(getattr(webhook, name)).decode() for name in _LISTS}
    stored = structs.asdict(webhook) | lists | {"active": int(webhook.active)}
    db.run(
        f"""
        INSERT INTO webhook ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
        ON CONFLICT (id) DO UPDATE SET url = excluded.url, events = excluded.events, queues = excluded.queues,
            tasks = excluded.tasks, active = excluded.active, secret = excluded.secret, previous = excluded.previous,
            previous_until = excluded.previous_until, meta = excluded.meta, changed = excluded.changed
        """,
        *stored.values(),
    )


def delete(db: Session, id_: str) -> int:
    """Delete a webhook; return how many there were."""
    return db.run("DELETE FROM webhook WHERE id = ?", id_)


def _webhook(row: Row) -> Webhook:
    found = dict(zip(Webhook.__struct_fields__, row, strict=True))
    lists = {name: _decode(found[name]) for name in _LISTS}
    return Webhook(**found | lists | {"active": bool(found["active"])})
