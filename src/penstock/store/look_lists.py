"""Statements for people who look at queues, workers, schedules, workflows and floating limits.  Reads only.

Each reads a bounded number of rows.
"""

from typing import Final

from penstock.job import Schedule, WorkflowView
from penstock.store import floating as floating_rows
from penstock.store import instances as instance_rows
from penstock.store import schedules as schedule_rows
from penstock.store import workflows as workflow_rows
from penstock.store.floating import FloatingRow
from penstock.store.instances import ShownInstance
from penstock.store.lanes import IS_RESCHEDULED
from penstock.store.session import Session

_QUEUED: Final = {  # tenant, queue, state and number of so many jobs of each table
    "ready": """
        SELECT '' AS tenant, t.queue, 'waiting' AS state, count(*) AS jobs
        FROM (SELECT queue FROM ready LIMIT ?) AS t GROUP BY t.queue
    """,
    "lane_job": f"""
        SELECT n.tenant, n.queue, CASE WHEN {IS_RESCHEDULED} THEN 'scheduled' ELSE 'waiting' END AS state, t.jobs
        FROM (SELECT lane, count(*) AS jobs FROM (SELECT lane FROM lane_job LIMIT ?) AS l GROUP BY lane) AS t
        JOIN lane n ON n.id = t.lane
    """,
    **{
        table: f"""
            SELECT j.tenant, j.queue, '{state}' AS state, 1 AS jobs FROM (SELECT seq FROM {table} LIMIT ?) AS t
            JOIN job j ON j.seq = t.seq
        """
        for table, state in (
            ("door", "waiting"), ("successor", "waiting"), ("scheduled", "scheduled"), ("running", "running"),
        )
    },
}  # fmt: skip


def queues(db: Session, counted: int) -> list[tuple[str, str, str, int, bool]]:
    """Return (tenant, queue, state, jobs, more) of the first so many jobs of each table."""
    found = []
    for sql in _QUEUED.values():
        rows = db.all(
            f"""
            SELECT tenant, queue, state, CAST(sum(jobs) AS BIGINT) FROM ({sql}) AS parts
            GROUP BY tenant, queue, state
            """,
            counted,
        )
        more = sum(jobs for *_, jobs in rows) >= counted
        found += [(tenant, queue, state, jobs, more) for tenant, queue, state, jobs in rows if queue]
    return found


def pauses(db: Session, most: int) -> list[tuple[str, str, int]]:
    """Return (tenant, queue, since) of the queues that are paused."""
    return db.all("SELECT tenant, queue, at FROM queue_pause ORDER BY queue, tenant LIMIT ?", most)


def ruled_queues(db: Session, most: int) -> list[tuple[int, str, str]]:
    """Return (gate, tenant, queue) of the queues that have numbers."""
    return db.all(
        """
        SELECT id, tenant, name FROM gate WHERE kind = 'queue' AND rules IS NOT NULL
        ORDER BY name, tenant LIMIT ?
        """,
        most,
    )


def workers(
    db: Session, tenant: str | None, looked_at: int, most: int
) -> list[tuple[str, int, int, int, str, str]]:
    """Return (worker, jobs, oldest start, earliest end of a lease, a task, a queue) of those whose jobs run."""
    return db.all(
        """
        SELECT r.worker, count(*), min(r.started), min(r.lease), min(r.task), min(r.queue)
        FROM (SELECT * FROM running LIMIT ?) AS r JOIN job j ON j.seq = r.seq
        WHERE j.queue <> '' AND (j.tenant = ? OR ? = 0) GROUP BY r.worker ORDER BY r.worker LIMIT ?
        """,
        looked_at,
        tenant or "",
        int(tenant is not None),
        most,
    )


def worker_names(db: Session, tenant: str | None, most: int) -> list[str]:
    """Return the names of workers that tell of themselves."""
    rows = db.all(
        "SELECT name FROM worker WHERE tenant = ? OR ? = 0 LIMIT ?",
        tenant or "",
        int(tenant is not None),
        most,
    )
    return [name for (name,) in rows]


def schedules_counted(db: Session, tenant: str | None, counted: int) -> int:
    """Return how many schedules there are, counted up to a number."""
    row = db.one(
        "SELECT count(*) FROM (SELECT 1 FROM schedule WHERE tenant = ? OR ? = 0 LIMIT ?) AS counted",
        tenant or "",
        int(tenant is not None),
        counted,
    )
    return int(row[0]) if row else 0


def runs_counted(db: Session, tenant: str | None, looked_at: int, counted: int) -> int:
    """Return how many of the newest workflows and instances have not ended, counted up to a number."""
    mine = (tenant or "", int(tenant is not None))
    row = db.one(
        """
        SELECT count(*) FROM (
            SELECT 1 FROM (SELECT * FROM workflow ORDER BY number DESC LIMIT ?) AS w
            WHERE w.finished IS NULL AND (w.tenant = ? OR ? = 0)
            UNION ALL
            SELECT 1 FROM (SELECT seq FROM instance ORDER BY seq DESC LIMIT ?) AS i JOIN job j ON j.seq = i.seq
            LEFT JOIN done d ON d.seq = i.seq WHERE d.seq IS NULL AND (j.tenant = ? OR ? = 0)
            LIMIT ?
        ) AS counted
        """,
        looked_at,
        *mine,
        looked_at,
        *mine,
        counted,
    )
    return int(row[0]) if row else 0


def schedules(db: Session, tenant: str | None, place: tuple[str, str], most: int) -> list[Schedule]:
    """Return schedules that come after a (tenant, name)."""
    rows = db.all(
        f"""
        SELECT {schedule_rows.COLUMNS} FROM schedule WHERE (tenant, name) > (?, ?) AND (tenant = ? OR ? = 0)
        ORDER BY tenant, name LIMIT ?
        """,
        *place,
        tenant or "",
        int(tenant is not None),
        most,
    )
    return [schedule_rows.schedule_of(row) for row in rows]


def workflows(
    db: Session, tenant: str | None, before: int, looked_at: int, most: int
) -> list[tuple[int, WorkflowView]]:
    """Return workflows before a number, with theirs, newest first."""
    rows = db.all(
        f"""
        SELECT {workflow_rows.SHOWN} FROM (
            SELECT * FROM workflow WHERE number < ? ORDER BY number DESC LIMIT ?
        ) AS workflow WHERE tenant = ? OR ? = 0 ORDER BY number DESC LIMIT ?
        """,
        before,
        looked_at,
        tenant or "",
        int(tenant is not None),
        most,
    )
    return [(row[0], workflow_rows.shown(row)) for row in rows]


def instances(db: Session, tenant: str | None, before: int, looked_at: int, most: int) -> list[ShownInstance]:
    """Return instances before a number, newest first."""
    rows = db.all(
        f"""
        {instance_rows.SHOWN} WHERE i.seq IN (
            SELECT c.seq FROM (SELECT seq FROM instance WHERE seq < ? ORDER BY seq DESC LIMIT ?) AS c
            JOIN job o ON o.seq = c.seq WHERE o.tenant = ? OR ? = 0 ORDER BY c.seq DESC LIMIT ?
        ) ORDER BY i.seq DESC
        """,
        before,
        looked_at,
        tenant or "",
        int(tenant is not None),
        most,
    )
    return [ShownInstance(*row) for row in rows]


def floating(
    db: Session, tenant: str | None, place: tuple[str, str], looked_at: int, most: int
) -> list[tuple[FloatingRow, str, str]]:
    """Return (floating limit, tenant, key) of those that come after a (tenant, key)."""
    rows = db.all(
        f"""
        SELECT g.tenant, g.name, {floating_rows.COLUMNS} FROM (SELECT * FROM floating LIMIT ?) AS f
        JOIN gate g ON g.id = f.gate WHERE (g.tenant, g.name) > (?, ?) AND (g.tenant = ? OR ? = 0)
        ORDER BY g.tenant, g.name LIMIT ?
        """,
        looked_at,
        *place,
        tenant or "",
        int(tenant is not None),
        most,
    )
    return [(FloatingRow(*row), owner, key) for owner, key, *row in rows]


def decided(db: Session, tenant: str | None, most: int) -> list[int]:
    """Return the gates of keys for which something was decided."""
    rows = db.all(
        """
        SELECT id FROM gate WHERE kind = 'key' AND rules IS NOT NULL AND (tenant = ? OR ? = 0)
        ORDER BY name, tenant LIMIT ?
        """,
        tenant or "",
        int(tenant is not None),
        most,
    )
    return [id_ for (id_,) in rows]
