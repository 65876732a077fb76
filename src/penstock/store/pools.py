"""Statements about pools: sets of queues that share a number of slots."""

from collections.abc import Iterable

from penstock.job import Topic
from penstock.store.session import Session


def all_of(db: Session, tenant: str | None) -> list[tuple[str, str, str, int | None]]:
    """Return (tenant, name, ordering, slots) of every pool, of one tenant or of all."""
    where, values = ("", []) if tenant is None else ("WHERE tenant = ?", [tenant])
    return db.all(f"SELECT tenant, name, ordering, slots FROM pool {where} ORDER BY tenant, name", *values)


def queues(db: Session) -> list[tuple[str, str, str, int]]:
    """Return (tenant, pool, queue, weight) of every pool's queues, in order."""
    return db.all("SELECT tenant, pool, queue, weight FROM pool_queue ORDER BY tenant, pool, place")


def put(
    db: Session,
    tenant: str,
    name: str,
    ordering: str,
    slots: int | None,
    rows: Iterable[tuple[str, int, int, int | None]],
) -> None:
    """Add a pool or replace it, with its (queue, place, weight, gate)."""
    db.tell(Topic.WORK)
    db.run(
        """
        INSERT INTO pool (tenant, name, ordering, slots) VALUES (?, ?, ?, ?)
        ON CONFLICT (tenant, name) DO UPDATE SET ordering = excluded.ordering, slots = excluded.slots
        """,
        tenant,
        name,
        ordering,
        slots,
    )
    db.run("DELETE FROM pool_queue WHERE tenant = ? AND pool = ?", tenant, name)
    db.many(
        "INSERT INTO pool_queue (queue, tenant, pool, place, weight, gate) VALUES (?, ?, ?, ?, ?, ?)",
        [(queue, tenant, name, place, weight, gate) for queue, place, weight, gate in rows],
    )


def delete(db: Session, tenant: str, name: str) -> bool:
    """Delete a pool; tell whether there was one."""
    db.tell(Topic.WORK)
    db.run("DELETE FROM pool_queue WHERE tenant = ? AND pool = ?", tenant, name)
    return db.run("DELETE FROM pool WHERE tenant = ? AND name = ?", tenant, name) > 0
