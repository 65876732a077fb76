"""Statements that count jobs and instances, and how full queues and gates are."""

from penstock.store.lanes import RESCHEDULED
from penstock.store.session import Session

_IN_LANES = f"CASE WHEN lane IN ({RESCHEDULED}) THEN 'scheduled' ELSE 'waiting' END"
_WAITING = f"""
    SELECT seq, 'waiting' AS state FROM ready UNION ALL SELECT seq, {_IN_LANES} FROM lane_job
    UNION ALL SELECT seq, 'waiting' FROM door UNION ALL SELECT seq, 'waiting' FROM successor
"""
# How many jobs stand in each lane, and whether they count as waiting or as scheduled.
BY_LANE = f"SELECT lane, {_IN_LANES} AS state, count(*) AS jobs FROM lane_job GROUP BY lane"


def tally(db: Session, now: int) -> list[tuple[str, str, str, int]]:
    """Return (tenant, queue, state, count); a job that failed and will be tried again counts as 'retrying'."""
    return db.all(
        f"""
        SELECT j.tenant, j.queue, t.state, count(*) FROM ({_WAITING}
            UNION ALL SELECT seq, CASE WHEN due <= ? THEN 'waiting' WHEN attempt > lost THEN 'retrying'
                ELSE 'scheduled' END FROM scheduled
            UNION ALL SELECT seq, 'running' FROM running UNION ALL SELECT seq, state FROM done
        ) AS t JOIN job j ON j.seq = t.seq WHERE j.queue <> ''
        GROUP BY j.tenant, j.queue, t.state ORDER BY j.tenant, j.queue
        """,
        now,
    )


def ended_since(db: Session, since: int) -> list[tuple[str, str, str, int]]:
    """Return (tenant, queue, state, count) of the jobs that ended after then."""
    return db.all(
        """
        SELECT j.tenant, j.queue, d.state, count(*) FROM done d JOIN job j ON j.seq = d.seq
        WHERE d.finished > ? AND j.queue <> '' GROUP BY j.tenant, j.queue, d.state
        """,
        since,
    )


def live(db: Session) -> list[tuple[str, str, int]]:
    """Return (queue, state, count) of the jobs that have not ended."""
    return db.all(
        f"""
        SELECT queue, state, CAST(sum(jobs) AS BIGINT) FROM (
            SELECT queue, 'waiting' AS state, count(*) AS jobs FROM ready GROUP BY queue
            UNION ALL SELECT n.queue, c.state, c.jobs FROM ({BY_LANE}) AS c JOIN lane n ON n.id = c.lane
            UNION ALL SELECT j.queue, 'waiting', count(*) FROM (
                SELECT seq FROM door UNION ALL SELECT seq FROM successor
            ) AS d JOIN job j ON j.seq = d.seq GROUP BY j.queue
            UNION ALL SELECT queue, 'running', count(*) FROM running GROUP BY queue
            UNION ALL
            SELECT j.queue, 'scheduled', count(*) FROM scheduled s JOIN job j ON j.seq = s.seq GROUP BY j.queue
        ) AS parts WHERE queue <> '' GROUP BY queue, state ORDER BY queue, state
        """
    )


def live_instances(db: Session, now: int) -> list[tuple[str, str, int]]:
    """Return (workflow, state, count) of the instances that have not ended."""
    return db.all(
        """
        SELECT i.workflow, CASE WHEN i.paused = 1 THEN 'paused' ELSE t.state END AS shown, count(*) FROM (
            SELECT seq, 'deferred' AS state FROM ready WHERE queue = ''
            UNION ALL SELECT p.seq, 'deferred' FROM lane n JOIN lane_job p ON p.lane = n.id WHERE n.queue = ''
            UNION ALL SELECT seq, 'deferred' FROM door
            UNION ALL SELECT seq, CASE WHEN due <= ? THEN 'deferred' ELSE 'scheduled' END FROM scheduled
            UNION ALL SELECT seq, 'running' FROM running WHERE queue = ''
        ) AS t JOIN instance i ON i.seq = t.seq GROUP BY i.workflow, shown ORDER BY i.workflow, shown
        """,
        now,
    )


def busiest_keys(db: Session, most: int) -> list[tuple[int, str, str, int, int, int, int]]:
    """Return (gate, tenant, key, running, waiting, all running, all waiting) of the busiest keys.

    Only jobs that wait because of the key count.
    """
    return db.all(
        """
        SELECT g.id, g.tenant, g.name, g.running, coalesce(w.waiting, 0), CAST(sum(g.running) OVER () AS BIGINT),
               CAST(sum(coalesce(w.waiting, 0)) OVER () AS BIGINT)
        FROM gate g LEFT JOIN (
            SELECT l.behind AS gate, count(*) AS waiting FROM lane l JOIN lane_job j ON j.lane = l.id
            WHERE l.ready = 0 AND l.behind IS NOT NULL GROUP BY l.behind
        ) AS w ON w.gate = g.id
        WHERE g.kind = 'key'
        ORDER BY g.running + coalesce(w.waiting, 0) DESC, g.tenant, g.name LIMIT ?
        """,
        most,
    )
