"""Statements that show jobs, gates and lines, and search for jobs.  Reads only."""

from collections.abc import Collection
from typing import Final, NamedTuple

import msgspec

from penstock.job import JobFilter
from penstock.lifecycle.states import State
from penstock.names import MAX_NAME
from penstock.store.attempts import gates_from_text
from penstock.store.jobs import TENANTS
from penstock.store.lanes import IS_RESCHEDULED, RESCHEDULED
from penstock.store.session import Session
from penstock.store.statements import literally

# Where limits name a key.  LIKE would take no notice of case, on SQLite.
_NAMES: Final = "replace(j.limits, ?, '') <> j.limits"
_LISTED: Final = "j.queue <> ''"  # an instance is a job that no list shows
# Comes after all that may follow the beginning of a name.
LAST: Final = "\U0010ffff" * (MAX_NAME // 4 + 1)


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
    costs: str | None
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
    rescheduled: int  # whether it stands in a lane that is rescheduled
    resource: str | None  # of the attempt that runs


JOB = f"""
    SELECT j.seq, j.id, j.tenant, j.queue, j.task, j.args, j.priority, j.cost, j.costs, j.limits, j.retry,
           j.expires, j.meta, j.enqueued,
           s.due, s.attempt, coalesce(w.attempt, o.attempt), l.attempt,
           r.attempt, r.started, r.worker, r.lease, r.cancel,
           d.state, d.finished, d.started, d.attempt, d.result, d.error, d.reason, p.value, j.timeout,
           r.fence, (SELECT ol.lease FROM own_lease ol WHERE ol.seq = j.seq), s.reason,
           coalesce(s.lost, w.lost, o.lost, l.lost, r.lost, d.lost, 0),
           (SELECT f.id FROM workflow_job m JOIN workflow f ON f.number = m.workflow WHERE m.seq = j.seq),
           (SELECT count(*) FROM lane n WHERE n.id = l.lane AND {IS_RESCHEDULED}), r.resource
    FROM job j
    LEFT JOIN scheduled s ON s.seq = j.seq LEFT JOIN ready w ON w.seq = j.seq LEFT JOIN lane_job l ON l.seq = j.seq
    LEFT JOIN running r ON r.seq = j.seq LEFT JOIN done d ON d.seq = j.seq LEFT JOIN progress p ON p.seq = j.seq
    LEFT JOIN door o ON o.seq = j.seq
"""
WAITING = f"""
    SELECT seq FROM ready UNION ALL SELECT seq FROM lane_job WHERE lane NOT IN ({RESCHEDULED})
    UNION ALL SELECT seq FROM door UNION ALL SELECT seq FROM successor
"""
_RESCHEDULED = f"SELECT seq FROM lane_job WHERE lane IN ({RESCHEDULED})"
# A job that is due waits, though it may not stand in line yet.
DUE = "SELECT seq FROM scheduled WHERE due <= ?"
_AMONG = {  # where to look for the few that are not ended, among all that ever were, by the time
    State.SCHEDULED: f"SELECT seq FROM scheduled WHERE due > ? UNION ALL {_RESCHEDULED}",
    State.WAITING: f"{WAITING} UNION ALL {DUE}",
}
_PLACES = {  # where to look for the same, told apart more finely: by the time, but for those that run
    "scheduled": f"SELECT seq FROM scheduled WHERE due > ? AND attempt = lost UNION ALL {_RESCHEDULED}",
    "retrying": "SELECT seq FROM scheduled WHERE due > ? AND attempt > lost",
    "waiting": f"{WAITING} UNION ALL {DUE}",
    "running": "SELECT seq FROM running",
}


def of_id(db: Session, id_: str, tenant: str | None) -> list[JobViewRow]:
    """Return all that is known of the job of a tenant that has this id; or of any tenant, at most `TENANTS`."""
    if tenant is None:
        rows = db.all(f"{JOB} WHERE j.id = ? AND {_LISTED} ORDER BY j.tenant LIMIT ?", id_, TENANTS)
    else:
        rows = db.all(f"{JOB} WHERE j.id = ? AND j.tenant = ? AND {_LISTED}", id_, tenant)
    return [JobViewRow(*row) for row in rows]


def of_seq(db: Session, seq: int) -> JobViewRow | None:
    """Return all that is known of a job, also of an instance."""
    row = db.one(f"{JOB} WHERE j.seq = ?", seq)
    return None if row is None else JobViewRow(*row)


def of(db: Session, ids: Collection[str], tenant: str) -> list[JobViewRow]:
    """Return all that is known of these jobs of a tenant."""
    rows = db.all(
        f"{JOB} WHERE j.id IN (SELECT value FROM each(?)) AND j.tenant = ? AND {_LISTED}", list(ids), tenant
    )
    return [JobViewRow(*row) for row in rows]


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
    where, values = [_LISTED], list[object]()
    if state is State.RUNNING:
        where.append("j.seq IN (SELECT seq FROM running)")
    elif state is not None:
        where.append(f"j.seq IN ({_AMONG[state]})" if state in _AMONG else "d.state = ?")
        values.append(now if state in _AMONG else state.value)
    named, given = _equal(queue=queue, task=task, tenant=tenant)
    where += named
    values += given
    if key is not None:
        where.append(_NAMES)
        values.append(naming(key))
    if before is not None:
        where.append("j.seq < ?")
        values.append(before)
    if begins is not None:
        where.append("j.id >= ? AND j.id < ?")
        values += [begins, begins + LAST]
    rows = db.all(f"{JOB} WHERE {' AND '.join(where)} ORDER BY j.seq DESC LIMIT ?", *values, most)
    return [JobViewRow(*row) for row in rows]


def count(
    db: Session,
    queue: str | None,
    task: str | None,
    tenant: str | None = None,
    tasks: list[str] | None = None,
) -> dict[State, int]:
    """Return how many jobs are in each state."""
    where, values = _equal(queue=queue, task=task, tenant=tenant)
    if tasks is not None:
        where.append("j.task IN (SELECT value FROM each(?))")
        values.append(tasks or [""])
    joined = f"JOIN job j ON j.seq = t.seq WHERE {' AND '.join([*where, _LISTED])}" if where else ""
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
    also = f"{joined} AND" if joined else "WHERE"
    row = db.one(f"SELECT count(*) FROM lane_job t {also} t.lane IN ({RESCHEDULED})", *values)
    if row and row[0]:
        counts[State.WAITING] -= row[0]
        counts[State.SCHEDULED] += row[0]
    for name, number in db.all(f"SELECT t.state, count(*) FROM done t {joined} GROUP BY t.state", *values):
        counts[State(name)] = number
    if not where:
        for name, number in db.all(_INSTANCES):
            counts[State(name)] -= number
    return {state: number for state, number in counts.items() if number}


# How many instances are in each state that a count of all jobs has counted.
_INSTANCES: Final = f"""
    SELECT t.state, count(*) FROM instance i JOIN (
        SELECT seq, 'scheduled' AS state FROM scheduled UNION ALL SELECT seq, 'waiting' FROM ready
        UNION ALL SELECT seq, CASE WHEN lane IN ({RESCHEDULED}) THEN 'scheduled' ELSE 'waiting' END FROM lane_job
        UNION ALL SELECT seq, 'waiting' FROM door UNION ALL SELECT seq, 'running' FROM running
        UNION ALL SELECT seq, state FROM done
    ) AS t ON t.seq = i.seq GROUP BY t.state
"""


def search(db: Session, now: int, wanted: JobFilter, offset: int, most: int) -> list[JobViewRow]:
    """Return the jobs that fit, newest first."""
    where, values = _where(now, wanted)
    rows = db.all(f"{JOB} WHERE {where} ORDER BY j.seq DESC LIMIT ? OFFSET ?", *values, most, offset)
    return [JobViewRow(*row) for row in rows]


def ids(db: Session, now: int, wanted: JobFilter, most: int) -> list[tuple[str, str]]:
    """Return (id, tenant) of the jobs that fit, oldest first."""
    where, values = _where(now, wanted)
    return db.all(f"SELECT j.id, j.tenant FROM job j WHERE {where} ORDER BY j.seq LIMIT ?", *values, most)


def total(db: Session, now: int, wanted: JobFilter) -> int:
    """Return how many jobs fit."""
    where, values = _where(now, wanted)
    row = db.one(f"SELECT count(*) FROM job j WHERE {where}", *values)
    return int(row[0]) if row else 0


def _where(now: int, wanted: JobFilter) -> tuple[str, list[object]]:
    where, values = [_LISTED], list[object]()
    if wanted.states is not None:
        where.append(_of_states(now, wanted.states, values))
    if wanted.queues is not None:
        where.append("j.queue IN (SELECT value FROM each(?))")
        values.append(sorted(wanted.queues))
    named, given = _equal(task=wanted.task, tenant=wanted.tenant)
    where += named
    values += given
    if wanted.task_prefix is not None:
        where.append("j.task LIKE ? ESCAPE '!'")
        values.append(literally(wanted.task_prefix) + "%")
    for sign, moment in ((">=", wanted.since), ("<", wanted.until)):
        if moment is not None:
            where.append(f"j.enqueued {sign} ?")
            values.append(moment)
    if wanted.ended_before is not None:
        where.append("j.seq IN (SELECT seq FROM done WHERE finished < ?)")
        values.append(wanted.ended_before)
    return " AND ".join(where), values


def _of_states(now: int, states: Collection[str], values: list[object]) -> str:
    # The few that have not ended are looked up; the many that have are looked at, newest first, until a page is full.
    live = [_PLACES[state] for state in sorted(states) if state in _PLACES]
    values += [now for state in sorted(states) if state in _PLACES and state != "running"]
    ended = [state for state in sorted(states) if state not in _PLACES]
    either = [f"j.seq IN ({' UNION ALL '.join(live)})"] if live else []
    if ended:
        marks = ", ".join("?" for _ in ended)
        either.append(f"EXISTS (SELECT 1 FROM done d WHERE d.seq = j.seq AND d.state IN ({marks}))")
        values += ended
    return f"({' OR '.join(either) or '1 = 0'})"


def _equal(**wanted: str | None) -> tuple[list[str], list[object]]:
    """Return conditions for the columns of a job that are given a value, and the values."""
    given = {column: value for column, value in wanted.items() if value is not None}
    return [f"j.{column} = ?" for column in given], list(given.values())


def gates(db: Session, tenant: str | None, prefix: str, offset: int, most: int) -> list[tuple[int, str, str]]:
    """Return (id, tenant, name) of the gates of keys, by name, of one tenant or of all."""
    which, values = _gates_of(tenant, prefix)
    return db.all(
        f"SELECT id, tenant, name FROM gate WHERE {which} ORDER BY name, tenant LIMIT ? OFFSET ?",
        *values,
        most,
        offset,
    )


def gates_total(db: Session, tenant: str | None, prefix: str) -> int:
    """Return how many gates of keys begin with *prefix*."""
    which, values = _gates_of(tenant, prefix)
    row = db.one(f"SELECT count(*) FROM gate WHERE {which}", *values)
    return int(row[0]) if row else 0


def _gates_of(tenant: str | None, prefix: str) -> tuple[str, list[str]]:
    which, values = "kind = 'key' AND name >= ? AND name < ?", [prefix, prefix + LAST]
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


def at_door(db: Session, key: str) -> list[tuple[str, str, int]]:
    """Return (tenant, limits, how many) of the jobs at the door, or that succeed others, whose limits name *key*."""
    return db.all(
        f"""
        SELECT j.tenant, j.limits, count(*) FROM (SELECT seq FROM door UNION ALL SELECT seq FROM successor) AS d
            JOIN job j ON j.seq = d.seq
        WHERE {_NAMES} GROUP BY j.tenant, j.limits
        """,
        naming(key),
    )


def naming(key: str) -> str:
    """Return what limits contain that name *key*."""
    return f"[{msgspec.json.encode(key).decode()},"


def waiting(db: Session, gate: int) -> int:
    """Return how many jobs that must pass a gate wait."""
    row = db.one("SELECT count(*) FROM lane_gate g JOIN lane_job j ON j.lane = g.lane WHERE g.gate = ?", gate)
    return int(row[0]) if row else 0


def following(db: Session) -> list[tuple[tuple[int, ...], int]]:
    """Return how many attempts cannot have begun because one before them in a relay runs, by the gates they count at.

    The gate of their key comes first.
    """
    rows = db.all(
        """
        SELECT r.gates, count(*) FROM running r JOIN running b ON b.seq = r.follows AND b.fence = r.fence
        WHERE r.follows <> 0 GROUP BY r.gates
        """
    )
    return [(gates_from_text(gates), count) for gates, count in rows]


def begun_at(db: Session, gate: int) -> list[int]:
    """Return when the attempts began that hold a slot of a gate."""
    rows = db.all("SELECT started FROM running WHERE ',' || gates || ',' LIKE ?", f"%,{gate},%")
    return [at for (at,) in rows]


def durations(db: Session, kind: str, tenant: str, name: str) -> list[int]:
    """Return how long the last attempts took that passed a gate, of the few hundred jobs that ended last."""
    rows = db.all(
        f"""
        SELECT d.finished - coalesce(d.began, d.started) FROM (
            SELECT seq, started, began, finished FROM done ORDER BY finished DESC LIMIT 200
        ) AS d JOIN job j ON j.seq = d.seq WHERE d.started IS NOT NULL AND CASE ?
            WHEN 'key' THEN {_NAMES} WHEN 'type' THEN j.task = ? ELSE j.tenant = ? END
        """,
        kind,
        naming(name),
        name,
        tenant,
    )
    return [span for (span,) in rows]


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


def standing(db: Session, seq: int) -> tuple[int, int, int, int, str | None] | None:
    """Return (lane, priority, ord, cost, costs) of a job that waits with limits."""
    return db.one("SELECT lane, priority, ord, cost, costs FROM lane_job WHERE seq = ?", seq)


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
        SELECT count(*) FROM ready r JOIN ready me ON me.seq = ? AND r.part = me.part WHERE r.queue = ? AND
            (r.priority > me.priority OR (r.priority = me.priority AND r.ord < me.ord))
        """,
        seq,
        queue,
    )
    return int(row[0]) if row else 0
