"""Statements that count how full queues and gates are."""

from penstock.store.session import Session


def queues(db: Session) -> list[tuple[str, str, int]]:
    """Return (queue, state, count) of the jobs that have not ended."""
    return db.all(
        """
        SELECT queue, state, CAST(sum(jobs) AS BIGINT) FROM (
            SELECT queue, 'waiting' AS state, count(*) AS jobs FROM ready GROUP BY queue
            UNION ALL
            SELECT l.queue, 'waiting', count(*) FROM lane_job j JOIN lane l ON l.id = j.lane GROUP BY l.queue
            UNION ALL SELECT j.queue, 'waiting', count(*) FROM (
                SELECT seq FROM door UNION ALL SELECT seq FROM successor
            ) AS d JOIN job j ON j.seq = d.seq GROUP BY j.queue
            UNION ALL SELECT queue, 'running', count(*) FROM running GROUP BY queue
            UNION ALL
            SELECT j.queue, 'scheduled', count(*) FROM scheduled s JOIN job j ON j.seq = s.seq GROUP BY j.queue
        ) AS parts GROUP BY queue, state ORDER BY queue, state
        """
    )


def keys(db: Session, most: int, without: str) -> list[tuple[str, str, int, int, int, int]]:
    """Return (tenant, key, running, waiting, all running, all waiting) of the busiest keys.

    Keys that begin with *without* are left out.
    """
    return db.all(
        """
        SELECT g.tenant, g.name, g.running, coalesce(w.waiting, 0), CAST(sum(g.running) OVER () AS BIGINT),
               CAST(sum(coalesce(w.waiting, 0)) OVER () AS BIGINT)
        FROM gate g LEFT JOIN (
            SELECT p.gate AS gate, count(*) AS waiting
            FROM lane_gate p JOIN lane_job j ON j.lane = p.lane GROUP BY p.gate
        ) AS w ON w.gate = g.id
        WHERE g.kind = 'key' AND (? = '' OR substr(g.name, 1, length(?)) <> ?)
        ORDER BY g.running + coalesce(w.waiting, 0) DESC, g.tenant, g.name LIMIT ?
        """,
        without,
        without,
        without,
        most,
    )
