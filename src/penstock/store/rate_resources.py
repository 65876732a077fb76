"""Statements about keys whose rate was set from outside."""

from typing import NamedTuple

from penstock.store.session import Session
from penstock.store.statements import chosen


class RateResourceRow(NamedTuple):
    """A key whose rate was set."""

    tenant: str
    key: str
    id: str
    created: int
    updated: int


_SHOWN = ", ".join(RateResourceRow._fields)


def put(db: Session, row: RateResourceRow) -> None:
    """Add a resource, or note that one was changed."""
    db.run(
        """
        INSERT INTO rate_resource (tenant, key, id, created, updated) VALUES (?, ?, ?, ?, ?)
        ON CONFLICT (tenant, key) DO UPDATE SET updated = excluded.updated
        """,
        *row,
    )


def of(db: Session, tenant: str, key: str) -> RateResourceRow | None:
    """Return one resource."""
    row = db.one(f"SELECT {_SHOWN} FROM rate_resource WHERE tenant = ? AND key = ?", tenant, key)
    return None if row is None else RateResourceRow(*row)


def page(db: Session, tenant: str | None, offset: int, most: int) -> list[RateResourceRow]:
    """Return resources by key, of one tenant or of all."""
    which, values = chosen(tenant=tenant)
    rows = db.all(
        f"SELECT {_SHOWN} FROM rate_resource {which} ORDER BY tenant, key LIMIT ? OFFSET ?",
        *values,
        most,
        offset,
    )
    return [RateResourceRow(*row) for row in rows]


def delete(db: Session, tenant: str, key: str) -> bool:
    """Delete a resource; tell whether there was one."""
    return db.run("DELETE FROM rate_resource WHERE tenant = ? AND key = ?", tenant, key) > 0
