"""Statements that count what stands now: jobs that wait and run, by gate, queue and task.

They read every job that has not ended: for `doctor`, and for the first time that minutes are kept.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from penstock.minutes.minute import Level
from penstock.minutes.tally import Task
from penstock.store.attempts import gates_from_text
from penstock.store.lanes import IS_RESCHEDULED
from penstock.store.session import Session

_JOBS: Final = """
    SELECT j.tenant, j.queue, j.task, count(*) FROM {} w JOIN job j ON j.seq = w.seq WHERE j.queue <> ''
    GROUP BY j.tenant, j.queue, j.task
"""


def by_task(db: Session) -> dict[Task, Level]:
    """Return what stands of each task in each queue."""
    found: dict[Task, Level] = {}
    for table in ("ready", "lane_job", "running"):
        for *task, jobs in db.all(_JOBS.format(table)):
            level = found.setdefault((task[0], task[1], task[2]), Level())
            if table == "running":
                level.used += jobs
            else:
                level.waiting += jobs
    return found


def kept_by_queue(db: Session) -> Iterable[tuple[str, str, int, int]]:
    """Return (tenant, queue, kept, put off) of the jobs that gates keep."""
    rows = db.all(
        f"""
        SELECT tenant, queue, count(*), CAST(sum(CASE WHEN {IS_RESCHEDULED} THEN 1 ELSE 0 END) AS BIGINT)
        FROM lane JOIN lane_job ON lane_job.lane = lane.id
        WHERE ready = 0 AND behind IS NOT NULL AND queue <> '' GROUP BY tenant, queue
        """
    )
    return [(tenant, queue, kept, put_off) for tenant, queue, kept, put_off in rows]


def by_gate(db: Session) -> dict[int, Level]:
    """Return what stands at each gate."""
    found: dict[int, Level] = {}
    for gate, jobs in db.all(
        "SELECT p.gate, count(*) FROM lane_gate p JOIN lane_job w ON w.lane = p.lane GROUP BY p.gate"
    ):
        found.setdefault(gate, Level()).waiting = jobs
    for gate, jobs in db.all(
        """
        SELECT l.behind, count(*) FROM lane l JOIN lane_job w ON w.lane = l.id
        WHERE l.ready = 0 AND l.behind IS NOT NULL GROUP BY l.behind
        """
    ):
        found.setdefault(gate, Level()).kept = jobs
    following = Counter[int]()
    for gates, attempts in db.all("SELECT gates, count(*) FROM running WHERE follows <> 0 GROUP BY gates"):
        following.update(dict.fromkeys(gates_from_text(gates), attempts))
    for gate, running in db.all("SELECT id, running FROM gate WHERE running <> 0"):
        found.setdefault(gate, Level()).used = running - following[gate]
    return found


def set_lanes(db: Session) -> None:
    """Have each lane count the jobs that stand in it."""
    rows = [(true, lane) for lane, _, true in miscounted_lanes(db, 2**31)]
    db.many("UPDATE lane SET jobs = ? WHERE id = ?", rows)


def miscounted_lanes(db: Session, most: int = 100) -> list[tuple[int, int, int]]:
    """Return (lane, stored, true) where the number of a lane's jobs is wrong."""
    return db.all(
        """
        SELECT id, jobs, stand FROM (
            SELECT l.id, l.jobs, (SELECT count(*) FROM lane_job w WHERE w.lane = l.id) AS stand FROM lane l
        ) AS lanes WHERE jobs <> stand LIMIT ?
        """,
        most,
    )


def ended(db: Session, since: int, until: int) -> int:
    """Return how many attempts ended in a span of time, as far as they are kept."""
    row = db.one(
        """
        SELECT count(*) FROM (
            SELECT d.seq FROM done d JOIN job j ON j.seq = d.seq
            WHERE d.finished >= ? AND d.finished <= ? AND d.state = 'done' AND d.arrived IS NOT NULL AND j.queue <> ''
            UNION ALL
            SELECT a.seq FROM attempt a JOIN job j ON j.seq = a.seq
            WHERE a.ended >= ? AND a.ended <= ? AND a.arrived IS NOT NULL AND j.queue <> ''
        ) AS attempts
        """,
        since,
        until,
        since,
        until,
    )
    return 0 if row is None else int(row[0])


def failed(db: Session, since: int, until: int) -> int:
    """Return how many of them failed, or lost their workers."""
    row = db.one(
        """
        SELECT count(*) FROM attempt a JOIN job j ON j.seq = a.seq
        WHERE a.ended >= ? AND a.ended <= ? AND a.arrived IS NOT NULL AND a.outcome IN ('failed', 'lost')
        AND j.queue <> ''
        """,
        since,
        until,
    )
    return 0 if row is None else int(row[0])
