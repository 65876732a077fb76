"""Statements about schedules, and about the jobs they enqueued."""

from typing import Final

from penstock.store.session import Row, Session, Topic

COLUMNS: Final = """
    tenant, name, expression, timezone, overlap, enabled, job, ttl, meta, created, next_at, last_at, last_job, fired
"""
# One whose job is unknown was pruned.
_LIVE: Final = """
    EXISTS (SELECT 1 FROM job j WHERE j.seq = schedule_job.seq)
    AND NOT EXISTS (SELECT 1 FROM done d WHERE d.seq = schedule_job.seq)
"""
_FORGOTTEN: Final = 100  # ended jobs looked at when a schedule fires


def of(db: Session, tenant: str, name: str) -> Row | None:
    """Return one schedule, in the order of COLUMNS."""
    return db.one(f"SELECT {COLUMNS} FROM schedule WHERE tenant = ? AND name = ?", tenant, name)


def held(db: Session, tenant: str, name: str) -> Row | None:
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


def move_on(db: Session, tenant: str, name: str, next_at: int | None) -> None:
    """Have a schedule fire next at that moment."""
    db.run("UPDATE schedule SET next_at = ? WHERE tenant = ? AND name = ?", next_at, tenant, name)


def fired(db: Session, tenant: str, name: str, at: int, job: str) -> None:
    """Remember that a schedule enqueued a job."""
    db.run(
        """
        UPDATE schedule SET last_at = ?, last_job = ?, fired = fired + 1 WHERE tenant = ? AND name = ?
        """,
        at,
        job,
        tenant,
        name,
    )
    db.run(
        """
        INSERT INTO schedule_job (tenant, name, seq) SELECT ?, ?, seq FROM job WHERE id = ?
        ON CONFLICT DO NOTHING
        """,
        tenant,
        name,
        job,
    )


def forget_ended(db: Session, tenant: str, name: str) -> None:
    """Forget which jobs of a schedule have ended, a bounded number of them."""
    db.run(
        f"""
        DELETE FROM schedule_job WHERE tenant = ? AND name = ? AND seq IN (
            SELECT seq FROM schedule_job WHERE tenant = ? AND name = ? ORDER BY seq LIMIT ?
        ) AND NOT ({_LIVE})
        """,
        tenant,
        name,
        tenant,
        name,
        _FORGOTTEN,
    )


def live(db: Session, tenant: str, name: str) -> list[int]:
    """Return the jobs of a schedule that have not ended."""
    rows = db.all(
        f"SELECT seq FROM schedule_job WHERE tenant = ? AND name = ? AND {_LIVE} ORDER BY seq", tenant, name
    )
    return [seq for (seq,) in rows]


def delete(db: Session, tenant: str, name: str) -> bool:
    """Delete a schedule; tell whether there was one."""
    gone = db.run("DELETE FROM schedule WHERE tenant = ? AND name = ?", tenant, name)
    db.run("DELETE FROM schedule_job WHERE tenant = ? AND name = ?", tenant, name)
    return gone > 0


def _of_tenant(tenant: str | None) -> tuple[str, list[object]]:
    return ("", []) if tenant is None else ("WHERE tenant = ?", [tenant])
