"""Statements about schedules."""

from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec import structs

from penstock.job import NewJob, Schedule, Topic
from penstock.lifecycle.overlap import Overlap
from penstock.store.session import Row, Session
from penstock.store.statements import chosen

COLUMNS: Final = ", ".join(Schedule.__struct_fields__)  # one for each field


def of(db: Session, tenant: str, name: str) -> Schedule | None:
    """Return one schedule."""
    row = db.one(f"SELECT {COLUMNS} FROM schedule WHERE tenant = ? AND name = ?", tenant, name)
    return None if row is None else schedule_of(row)


def locked(db: Session, tenant: str, name: str) -> Schedule | None:
    """Return one schedule, and lock it."""
    row = db.one(f"SELECT {COLUMNS} FROM schedule WHERE tenant = ? AND name = ? FOR UPDATE", tenant, name)
    return None if row is None else schedule_of(row)


def page(
    db: Session, tenant: str | None, offset: int, limit: int, *, of_sequences: bool = False
) -> list[Schedule]:
    """Return schedules by name, of one tenant or of all."""
    which, values = _chosen(tenant, of_sequences)
    rows = db.all(
        f"SELECT {COLUMNS} FROM schedule {which} ORDER BY tenant, name LIMIT ? OFFSET ?",
        *values,
        limit,
        offset,
    )
    return [schedule_of(row) for row in rows]


def total(db: Session, tenant: str | None, *, of_sequences: bool = False) -> int:
    """Return how many schedules there are, of one tenant or of all."""
    which, values = _chosen(tenant, of_sequences)
    row = db.one(f"SELECT count(*) FROM schedule {which}", *values)
    return int(row[0]) if row else 0


def _chosen(tenant: str | None, of_sequences: bool) -> tuple[str, list[object]]:  # noqa: FBT001 - of this module
    which, values = chosen(tenant=tenant)
    if of_sequences:
        which = f"{which} AND sequence IS NOT NULL" if which else "WHERE sequence IS NOT NULL"
    return which, values


def due(db: Session, now: int, most: int) -> list[Schedule]:
    """Return schedules that are due, and lock them; those that other transactions have locked are left out."""
    rows = db.all(
        f"""
        SELECT {COLUMNS} FROM schedule WHERE next_at <= ? ORDER BY next_at, tenant, name LIMIT ?
        FOR UPDATE SKIP LOCKED
        """,
        now,
        most,
    )
    return [schedule_of(row) for row in rows]


def put(db: Session, schedule: Schedule) -> None:
    """Add a schedule, or replace all of one but when it was made and what it did."""
    db.tell(Topic.WORK)
    job = msgspec.json.encode(schedule.job).decode()
    stored = {"job": job, "overlap": schedule.overlap.value, "enabled": int(schedule.enabled)}
    db.run(
        f"""
        INSERT INTO schedule ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
        ON CONFLICT (tenant, name) DO UPDATE SET expression = excluded.expression, timezone = excluded.timezone,
            overlap = excluded.overlap, enabled = excluded.enabled, job = excluded.job, ttl = excluded.ttl,
            meta = excluded.meta, next_at = excluded.next_at, sequence = excluded.sequence
        """,
        *(structs.asdict(schedule) | stored).values(),
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


def move_on(db: Session, moved: Iterable[tuple[int | None, str, str]]) -> None:
    """Have schedules fire next at other moments, given (next_at, tenant, name)."""
    db.many("UPDATE schedule SET next_at = ? WHERE tenant = ? AND name = ?", moved)


def fired(db: Session, jobs: Iterable[tuple[int, str, str, str]]) -> None:
    """Remember what schedules enqueued, given (last_at, last_job, tenant, name)."""
    db.many(
        """
        UPDATE schedule SET last_at = ?, last_job = ?, fired = fired + 1 WHERE tenant = ? AND name = ?
        """,
        jobs,
    )


def live(db: Session, ids: list[str]) -> dict[tuple[str, str], int]:
    """Return the numbers of those jobs that have not ended, by (tenant, id)."""
    rows = db.all(
        """
        SELECT j.tenant, j.id, j.seq FROM job j WHERE j.id IN (SELECT value FROM each(?))
        AND NOT EXISTS (SELECT 1 FROM done d WHERE d.seq = j.seq)
        """,
        ids,
    )
    return {(tenant, id_): seq for tenant, id_, seq in rows}


def delete(db: Session, tenant: str, name: str) -> bool:
    """Delete a schedule; tell whether there was one."""
    return db.run("DELETE FROM schedule WHERE tenant = ? AND name = ?", tenant, name) > 0


def schedule_of(row: Row) -> Schedule:
    found = dict(zip(Schedule.__struct_fields__, row, strict=True))
    job = msgspec.json.decode(found["job"], type=NewJob)
    return Schedule(
        **found | {"job": job, "overlap": Overlap(found["overlap"]), "enabled": bool(found["enabled"])}
    )
