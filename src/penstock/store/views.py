"""Statements that show jobs, gates and lines.  Reads only."""

from typing import NamedTuple

from penstock.lifecycle.states import State
from penstock.store.session import Session


class JobViewRow(NamedTuple):
    """A job with what every table knows of it, in the order of JOB."""

    seq: int
    id: str
    tenant: str
    queue: str
    task: str
    args: str
    priority: int
    cost: int
    limits: str
    retry: str
    expires: int | None
    meta: str
    enqueued: int
    due: int | None
    scheduled_attempt: int | None
    free_attempt: int | None  # of one that is ready or at the door
    lane_attempt: int | None
    running_attempt: int | None
    running_since: int | None
    worker: str | None
    lease: int | None
    cancel: int | None
    state: str | None  # of one that has ended
    finished: int | None
    started: int | None  # of one that has ended
    ended_attempt: int | None
    result: str | None
    error: str | None
    reason: str | None
    progress: str | None
    timeout: int | None
    fence: int | None
    own_lease: int | None
    put_off: str | None  # why it is scheduled
    lost: int
    workflow: str | None


JOB = """
    SELECT j.seq, j.id, j.tenant, j.queue, j.task, j.args, j.priority, j.cost, j.limits, j.retry, j.expires,
           j.meta, j.enqueued,
           s.due, s.attempt, coalesce(w.attempt, o.attempt), l.attempt,
           r.attempt, r.started, r.worker, r.lease, r.cancel,
           d.state, d.finished, d.started, d.attempt, d.result, d.error, d.reason, p.value, j.timeout,
           r.fence, (SELECT ol.lease FROM own_lease ol WHERE ol.seq = j.seq), s.reason,
           coalesce(s.lost, w.lost, o.lost, l.lost, r.lost,
               (SELECT count(*) FROM failure f WHERE f.seq = d.seq AND f.error LIKE '{"kind": "LeaseLost"%')),
           (SELECT f.id FROM workflow_job m JOIN workflow f ON f.number = m.workflow WHERE m.seq = j.seq)
    FROM job j
    LEFT JOIN scheduled s ON s.seq = j.seq LEFT JOIN ready w ON w.seq = j.seq LEFT JOIN lane_job l ON l.seq = j.seq
    LEFT JOIN running r ON r.seq = j.seq LEFT JOIN done d ON d.seq = j.seq LEFT JOIN progress p ON p.seq = j.seq
    LEFT JOIN door o ON o.seq = j.seq
"""
WAITING = """
    SELECT seq FROM ready UNION ALL SELECT seq FROM lane_job UNION ALL SELECT seq FROM door
    UNION ALL SELECT seq FROM successor
"""
# A job that is due waits, though it may not stand in line yet.
DUE = "SELECT seq FROM scheduled WHERE due <= ?"
_AMONG = {  # where to look for the few that are not ended, among all that ever were, by the time
    State.SCHEDULED: "SELECT seq FROM scheduled WHERE due > ?",
    State.WAITING: f"{WAITING} UNION ALL {DUE}",
}


def job(db: Session, id_: str) -> JobViewRow | None:
    """Return all that is known of one job."""
    row = db.one(f"{JOB} WHERE j.id = ?", id_)
    return None if row is None else JobViewRow(*row)


def jobs(
    db: Session,
    now: int,
    state: State | None,
    queue: str | None,
    task: str | None,
    tenant: str | None,
    key: str | None,
    before: int | None,
    begins: str | None,
    most: int,
) -> list[JobViewRow]:
    """Return jobs, newest first."""
    where, values = ["1 = 1"], list[object]()
    if state is State.RUNNING:
        where.append("j.seq IN (SELECT seq FROM running)")
    elif state is not None:
        where.append(f"j.seq IN ({_AMONG[state]})" if state in _AMONG else "d.state = ?")
        values.append(now if state in _AMONG else state.value)
    for column, value in (("j.queue", queue), ("j.task", task), ("j.tenant", tenant)):
        if value is not None:
            where.append(f"{column} = ?")
            values.append(value)
    if key is not None:
        where.append("j.limits LIKE ? ESCAPE '!'")
        values.append(_naming(key))
    if before is not None:
        where.append("j.seq < ?")
        values.append(before)
    if begins is not None:
        where.append("j.id >= ? AND j.id < ?")
        values += [begins, begins + "\U0010ffff"]
    rows = db.all(f"{JOB} WHERE {' AND '.join(where)} ORDER BY j.seq DESC LIMIT ?", *values, most)
    return [JobViewRow(*row) for row in rows]


def count(db: Session, queue: str | None, task: str | None, tenant: str | None = None) -> dict[State, int]:
    """Return how many jobs are in each state."""
    where, values = [], []
    for column, value in (("j.queue", queue), ("j.task", task), ("j.tenant", tenant)):
        if value is not None:
            where.append(f"{column} = ?")
            values.append(value)
    joined = f"JOIN job j ON j.seq = t.seq WHERE {' AND '.join(where)}" if where else ""
    parts = {
        "scheduled": State.SCHEDULED,
        "ready": State.WAITING,
        "lane_job": State.WAITING,
        "door": State.WAITING,
        "successor": State.WAITING,
        "running": State.RUNNING,
    }
    counts: dict[State, int] = {}
    for table, state in parts.items():
        row = db.one(f"SELECT count(*) FROM {table} t {joined}", *values)
        counts[state] = counts.get(state, 0) + (int(row[0]) if row else 0)
    for name, number in db.all(f"SELECT t.state, count(*) FROM done t {joined} GROUP BY t.state", *values):
        counts[State(name)] = number
    return {state: number for state, number in counts.items() if number}


def failures(db: Session, seq: int) -> list[tuple[int, int, str]]:
    """Return (attempt, at, error) of the failed attempts of a job."""
    return db.all("SELECT attempt, at, error FROM failure WHERE seq = ? ORDER BY attempt", seq)


def gates(
    db: Session, tenant: str | None, prefix: str, without: str, offset: int, most: int
) -> list[tuple[int, str, str]]:
    """Return (id, tenant, name) of the gates of keys, by name, of one tenant or of all."""
    which, values = _gates_of(tenant, prefix, without)
    return db.all(
        f"SELECT id, tenant, name FROM gate WHERE {which} ORDER BY name, tenant LIMIT ? OFFSET ?",
        *values,
        most,
        offset,
    )


def gates_total(db: Session, tenant: str | None, prefix: str, without: str) -> int:
    """Return how many gates of keys begin with *prefix*."""
    which, values = _gates_of(tenant, prefix, without)
    row = db.one(f"SELECT count(*) FROM gate WHERE {which}", *values)
    return int(row[0]) if row else 0


def _gates_of(tenant: str | None, prefix: str, without: str) -> tuple[str, list[str]]:
    which, values = "kind = 'key' AND name >= ? AND name < ?", [prefix, prefix + "\U0010ffff"]
    if without:
        which, values = (
            f"{which} AND NOT (name >= ? AND name < ?)",
            [*values, without, without + "\U0010ffff"],
        )
    return (which, values) if tenant is None else (f"{which} AND tenant = ?", [*values, tenant])


def foretold(db: Session) -> list[tuple[str, str]]:
    """Return the (tenant, limits) of jobs that have not come to their gates yet, newest last.

    Of jobs that are not due yet one is looked at for each kind of limits, however many there are.
    """
    rows = db.all(
        """
        WITH RECURSIVE kind(signature) AS (
            SELECT min(signature) FROM scheduled WHERE signature IS NOT NULL
            UNION ALL
            SELECT (SELECT min(s.signature) FROM scheduled s WHERE s.signature > kind.signature)
            FROM kind WHERE kind.signature IS NOT NULL
        )
        SELECT j.seq, j.tenant, j.limits FROM kind JOIN job j
            ON j.seq = (SELECT max(s.seq) FROM scheduled s WHERE s.signature = kind.signature)
        UNION ALL
        SELECT max(j.seq), j.tenant, j.limits FROM (SELECT seq FROM door UNION ALL SELECT seq FROM successor) AS d
            JOIN job j ON j.seq = d.seq WHERE j.limits <> '' GROUP BY j.tenant, j.limits
        """
    )
    return [(tenant, limits) for _, tenant, limits in sorted(rows)]


def at_door(db: Session, tenant: str, key: str) -> int:
    """Return how many jobs at the door, or that succeed others, will pass the gate of *key*."""
    row = db.one(
        """
        SELECT count(*) FROM (SELECT seq FROM door UNION ALL SELECT seq FROM successor) AS d
            JOIN job j ON j.seq = d.seq
        WHERE j.tenant = ? AND j.limits LIKE ? ESCAPE '!'
        """,
        tenant,
        _naming(key),
    )
    return int(row[0]) if row else 0


def _naming(key: str) -> str:
    """Return a pattern that limits which name *key* are like."""
    return '%["' + key.replace("!", "!!").replace("%", "!%").replace("_", "!_") + '",%'


def waiting(db: Session, gate: int) -> int:
    """Return how many jobs that must pass a gate wait."""
    row = db.one("SELECT count(*) FROM lane_gate g JOIN lane_job j ON j.lane = g.lane WHERE g.gate = ?", gate)
    return int(row[0]) if row else 0


def own_numbers(db: Session, gate: int) -> str | None:
    """Return the numbers, as text, of the last deleted lane that passed this gate."""
    row = db.one("SELECT own FROM gate WHERE id = ?", gate)
    return None if row is None else row[0]


def lane_gates(db: Session, gate: int) -> str | None:
    """Return the gates of the newest lane that passes this one, to show what numbers its jobs bring."""
    row = db.one(
        "SELECT l.gates FROM lane_gate g JOIN lane l ON l.id = g.lane WHERE g.gate = ? ORDER BY g.lane DESC LIMIT 1",
        gate,
    )
    return None if row is None else str(row[0])


def standing(db: Session, seq: int) -> tuple[int, int, int, int] | None:
    """Return (lane, priority, ord, cost) of a job that waits with limits."""
    return db.one("SELECT lane, priority, ord, cost FROM lane_job WHERE seq = ?", seq)


def ahead_in_lane(db: Session, lane: int, priority: int, ord_: int, most: int) -> int:
    """Return how many jobs of a lane come before this place, at most *most*."""
    row = db.one(
        """
        SELECT count(*) FROM (SELECT 1 FROM lane_job WHERE lane = ? AND
            (priority > ? OR (priority = ? AND ord < ?)) LIMIT ?) AS found
        """,
        lane,
        priority,
        priority,
        ord_,
        most,
    )
    return int(row[0]) if row else 0


def ahead_in_line(db: Session, line: str, lane: int, priority: int, ord_: int, most: int) -> int:
    """Return how many jobs of the other lanes of a line come before this place, at most *most*."""
    row = db.one(
        """
        SELECT count(*) FROM (SELECT 1 FROM lane l JOIN lane_job j ON j.lane = l.id WHERE l.line = ? AND l.id <> ? AND
            (j.priority > ? OR (j.priority = ? AND j.ord < ?)) LIMIT ?) AS found
        """,
        line,
        lane,
        priority,
        priority,
        ord_,
        most,
    )
    return int(row[0]) if row else 0


def ahead_in_queue(db: Session, queue: str, seq: int) -> int:
    """Return how many jobs without limits come before this one in its queue."""
    row = db.one(
        """
        SELECT count(*) FROM ready r JOIN ready me ON me.seq = ? WHERE r.queue = ? AND
            (r.priority > me.priority OR (r.priority = me.priority AND r.ord < me.ord))
        """,
        seq,
        queue,
    )
    return int(row[0]) if row else 0
