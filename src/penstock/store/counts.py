"""Statements that count jobs by tenant, queue and state."""

from penstock.store.session import Session

_WAITING = """
    SELECT seq, 'waiting' AS state FROM ready UNION ALL SELECT seq, 'waiting' FROM lane_job
    UNION ALL SELECT seq, 'waiting' FROM door UNION ALL SELECT seq, 'waiting' FROM successor
"""


def tally(db: Session, now: int) -> list[tuple[str, str, str, int]]:
    """Return (tenant, queue, state, count); a job that failed and will be tried again counts as 'retrying'."""
    return db.all(
        f"""
        SELECT j.tenant, j.queue, t.state, count(*) FROM ({_WAITING}
            UNION ALL SELECT seq, CASE WHEN due <= ? THEN 'waiting' WHEN attempt > lost THEN 'retrying'
                ELSE 'scheduled' END FROM scheduled
            UNION ALL SELECT seq, 'running' FROM running UNION ALL SELECT seq, state FROM done
        ) AS t JOIN job j ON j.seq = t.seq GROUP BY j.tenant, j.queue, t.state ORDER BY j.tenant, j.queue
        """,
        now,
    )


def ended_since(db: Session, since: int) -> list[tuple[str, str, str, int]]:
    """Return (tenant, queue, state, count) of the jobs that ended after then."""
    return db.all(
        """
        SELECT j.tenant, j.queue, d.state, count(*) FROM done d JOIN job j ON j.seq = d.seq
        WHERE d.finished > ? GROUP BY j.tenant, j.queue, d.state
        """,
        since,
    )
