"""Statements about queues."""

from collections.abc import Sequence

from penstock.job import Topic
from penstock.store.session import Session


def is_paused(db: Session, queue: str) -> bool:
    """Tell whether nothing may start from a queue."""
    return db.one("SELECT 1 FROM paused WHERE queue = ?", queue) is not None


def pause(db: Session, queue: str, now: int) -> None:
    """Let nothing start from a queue."""
    db.run("INSERT INTO paused (queue, at) VALUES (?, ?) ON CONFLICT (queue) DO NOTHING", queue, now)


def resume(db: Session, queue: str) -> None:
    """Let jobs start from a queue again."""
    db.tell(Topic.WORK)
    db.run("DELETE FROM paused WHERE queue = ?", queue)


def busy(db: Session) -> list[str]:
    """Return the queues in which a claim might find a job: a step for each of them, however many jobs wait."""
    rows = db.all(
        """
        WITH RECURSIVE free (queue) AS (
            SELECT min(queue) FROM ready
            UNION ALL
            SELECT (SELECT min(r.queue) FROM ready r WHERE r.queue > f.queue) FROM free f WHERE f.queue IS NOT NULL
        ), limited (queue) AS (
            SELECT min(queue) FROM lane WHERE ready = 1
            UNION ALL
            SELECT (SELECT min(l.queue) FROM lane l WHERE l.ready = 1 AND l.queue > f.queue)
            FROM limited f WHERE f.queue IS NOT NULL
        )
        SELECT queue FROM free WHERE queue IS NOT NULL UNION SELECT queue FROM limited WHERE queue IS NOT NULL
        UNION SELECT j.queue FROM door d JOIN job j ON j.seq = d.seq
        """
    )
    return [queue for (queue,) in rows]


def counts(db: Session) -> list[tuple[str, int, int, int]]:
    """Return (queue, waiting, running, paused) of every queue that has any of them."""
    return db.all(
        """
        SELECT queue, CAST(sum(waiting) AS BIGINT), CAST(sum(running) AS BIGINT), max(paused) FROM (
            SELECT queue, count(*) AS waiting, 0 AS running, 0 AS paused FROM ready GROUP BY queue
            UNION ALL SELECT l.queue, count(*), 0, 0 FROM lane_job j JOIN lane l ON l.id = j.lane GROUP BY l.queue
            UNION ALL SELECT j.queue, count(*), 0, 0 FROM (
                SELECT seq FROM door UNION ALL SELECT seq FROM successor
            ) AS d JOIN job j ON j.seq = d.seq GROUP BY j.queue
            UNION ALL SELECT queue, 0, count(*), 0 FROM running GROUP BY queue
            UNION ALL SELECT queue, 0, 0, 1 FROM paused
            UNION ALL SELECT name, 0, 0, 0 FROM gate WHERE kind = 'queue' AND rules IS NOT NULL
        ) AS parts GROUP BY queue ORDER BY queue
        """
    )


def running(db: Session, queues: Sequence[str]) -> dict[str, int]:
    """Return how many jobs of each of these queues run."""
    return dict(
        db.all(
            "SELECT queue, count(*) FROM running WHERE queue IN (SELECT value FROM each(?)) GROUP BY queue",
            queues,
        )
    )
