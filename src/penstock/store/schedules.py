"""Statements about schedules."""

from collections.abc import Iterable
from typing import Final

from penstock.job import Topic
from penstock.store.session import Row, Session

COLUMNS: Final = """
    tenant, name, expression, timezone, overlap, enabled, job, ttl, meta, created, next_at, last_at, last_job, fired
"""


def of(db: Session, tenant: str, name: str) -> Row | None:
    """Return one schedule, in the order of COLUMNS."""
    return db.one(f"SELECT {COLUMNS} FROM schedule WHERE tenant = ? AND name = ?", tenant, name)


def locked(db: Session, tenant: str, name: str) -> Row | None:
    """Return one schedule, and keep others from changing it."""
    return db.one(f"SELECT {COLUMNS} FROM schedule WHERE tenant = ? AND name = ? FOR UPDATE", tenant, name)


def page(db: Session, tenant: str | None, offset: int, limit: int) -> list[Row]:
    """Return schedules by name, of one tenant or of all."""
    which, values = _of_tenant(tenant)
    return db.all(
        f"SELECT {COLUMNS} FROM schedule {which} ORDER BY tenant, name LIMIT ? OFFSET ?",
        *values,
        limit,
        offset,
    )


def total(db: Session, tenant: str | None) -> int:
    """Return how many schedules there are, of one tenant or of all."""
    which, values = _of_tenant(tenant)
    row = db.one(f"SELECT count(*) FROM schedule {which}", *values)
    return int(row[0]) if row else 0


def due(db: Session, now: int, most: int) -> list[Row]:
    """Return those whose moment has come and that nobody else is firing, in the order of COLUMNS."""
    return db.all(
        f"""
        SELECT {COLUMNS} FROM schedule WHERE next_at <= ? ORDER BY next_at, tenant, name LIMIT ?
        FOR UPDATE SKIP LOCKED
        """,
        now,
        most,
    )


def put(db: Session, row: Row) -> None:
    """Add a schedule, in the order of COLUMNS, or replace all of one but when it was made and what it did."""
    db.tell(Topic.WORK)
    db.run(
        f"""
        INSERT INTO schedule ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
        ON CONFLICT (tenant, name) DO UPDATE SET expression = excluded.expression, timezone = excluded.timezone,
            overlap = excluded.overlap, enabled = excluded.enabled, job = excluded.job, ttl = excluded.ttl,
            meta = excluded.meta, next_at = excluded.next_at
        """,
        *row,
    )


def enable(db: Session, tenant: str, name: str, next_at: int | None) -> None:
    """Let a schedule fire from then on, or not at all."""
    db.tell(Topic.WORK)
    db.run(
        "UPDATE schedule SET enabled = ?, next_at = ? WHERE tenant = ? AND name = ?",
        int(next_at is not None),
        next_at,
        tenant,
        name,
    )


def move_on(db: Session, moved: Iterable[Row]) -> None:
    """Have schedules fire next at other moments, given (next_at, tenant, name)."""
    db.many("UPDATE schedule SET next_at = ? WHERE tenant = ? AND name = ?", moved)


def fired(db: Session, jobs: Iterable[Row]) -> None:
    """Remember what schedules enqueued, given (last_at, last_job, tenant, name)."""
    db.many(
        """
        UPDATE schedule SET last_at = ?, last_job = ?, fired = fired + 1 WHERE tenant = ? AND name = ?
        """,
        jobs,
    )


def live(db: Session, ids: list[str]) -> dict[str, int]:
    """Return the numbers of those jobs that have not ended, by their ids."""
    rows = db.all(
        """
        SELECT j.id, j.seq FROM job j WHERE j.id IN (SELECT value FROM each(?))
        AND NOT EXISTS (SELECT 1 FROM done d WHERE d.seq = j.seq)
        """,
        ids,
    )
    return dict(rows)


def delete(db: Session, tenant: str, name: str) -> bool:
    """Delete a schedule; tell whether there was one."""
    return db.run("DELETE FROM schedule WHERE tenant = ? AND name = ?", tenant, name) > 0


def _of_tenant(tenant: str | None) -> tuple[str, list[object]]:
    return ("", []) if tenant is None else ("WHERE tenant = ?", [tenant])
