"""Statements about queues, and whose turn it is among the tenants of one."""

from collections.abc import Iterable, Sequence

from penstock.job import Topic
from penstock.store.session import Queue, Session


def is_paused(db: Session, queue: Queue) -> bool:
    """Tell whether nothing may start from a queue of a tenant, or of all."""
    return db.one("SELECT 1 FROM queue_pause WHERE tenant IN (?, '') AND queue = ?", *queue) is not None


def pause(db: Session, queue: Queue, now: int) -> None:
    """Let nothing start from a queue of a tenant, or of all."""
    db.run(
        "INSERT INTO queue_pause (tenant, queue, at) VALUES (?, ?, ?) ON CONFLICT (queue, tenant) DO NOTHING",
        *queue,
        now,
    )


def resume(db: Session, queue: Queue) -> None:
    """Let jobs start from a queue of a tenant again, or of all."""
    db.tell(Topic.WORK)
    db.run("DELETE FROM queue_pause WHERE ? IN (tenant, '') AND queue = ?", *queue)


def counts(db: Session) -> list[tuple[str, str, int, int, int]]:
    """Return (tenant, queue, waiting, running, paused) of every queue that has any of them."""
    return db.all(
        """
        SELECT tenant, queue, CAST(sum(waiting) AS BIGINT), CAST(sum(running) AS BIGINT), max(CASE WHEN paused = 1
            OR EXISTS (SELECT 1 FROM queue_pause p WHERE p.queue = parts.queue AND p.tenant = '') THEN 1 ELSE 0 END)
        FROM (
            SELECT '' AS tenant, queue, count(*) AS waiting, 0 AS running, 0 AS paused FROM ready GROUP BY queue
            UNION ALL SELECT l.tenant, l.queue, count(*), 0, 0 FROM lane_job j JOIN lane l ON l.id = j.lane
                GROUP BY l.tenant, l.queue
            UNION ALL SELECT j.tenant, j.queue, count(*), 0, 0 FROM (
                SELECT seq FROM door UNION ALL SELECT seq FROM successor
            ) AS d JOIN job j ON j.seq = d.seq GROUP BY j.tenant, j.queue
            UNION ALL SELECT j.tenant, j.queue, 0, count(*), 0 FROM running r JOIN job j ON j.seq = r.seq
                GROUP BY j.tenant, j.queue
            UNION ALL SELECT tenant, queue, 0, 0, 1 FROM queue_pause
            UNION ALL SELECT tenant, name, 0, 0, 0 FROM gate WHERE kind = 'queue' AND rules IS NOT NULL
        ) AS parts GROUP BY tenant, queue ORDER BY queue, tenant
        """
    )


def running(db: Session, names: Sequence[str], tenant: str | None) -> dict[str, int]:
    """Return how many jobs of each of these queues run, of a tenant or of all."""
    asked = (
        "SELECT r.queue, count(*) FROM running r JOIN job j ON j.seq = r.seq WHERE {which} GROUP BY r.queue"
    )
    among = "r.queue IN (SELECT value FROM each(?))"
    if tenant is None:
        return dict(db.all(asked.format(which=among), names))
    return dict(db.all(asked.format(which=f"{among} AND j.tenant = ?"), names, tenant))


def serve(db: Session, rows: Iterable[tuple[str, str, int]]) -> None:
    """Remember which tenants were served last, given (queue, tenant, number), when the transaction ends."""
    db.last(
        """
        INSERT INTO served (queue, tenant, number) VALUES (?, ?, ?)
        ON CONFLICT (queue, tenant) DO UPDATE SET number = excluded.number
        """,
        rows,
    )


def forget_served(db: Session) -> None:
    """Forget when tenants were served that have no lanes any more."""
    db.run(
        """
        DELETE FROM served WHERE tenant <> ''
        AND NOT EXISTS (SELECT 1 FROM lane l WHERE l.tenant = served.tenant AND l.tenant <> '')
        """
    )
