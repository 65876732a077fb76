"""Statements about jobs: where each stands, and its moves from table to table."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from penstock.job import Topic
from penstock.lifecycle.states import State
from penstock.store.session import Row, Session

JOB_COLUMNS = """
    seq, id, tenant, queue, task, args, priority, cost, limits, retry, timeout, expires, meta, uniqueness, enqueued
"""
_JOB_NAMES = [name.strip() for name in JOB_COLUMNS.split(",")]
# Looked for only where any job has one.
_OWN_LEASE = """
    CASE WHEN EXISTS (SELECT 1 FROM own_lease) THEN (SELECT o.lease FROM own_lease o WHERE o.seq = j.seq) END
"""


# The same with workflows.
_WORKFLOW = """
    CASE WHEN EXISTS (SELECT 1 FROM workflow_job)
        THEN (SELECT f.id FROM workflow_job m JOIN workflow f ON f.number = m.workflow WHERE m.seq = j.seq) END
"""


def add(db: Session, rows: Iterable[Row]) -> None:
    """Add what was asked for, in the order of JOB_COLUMNS."""
    db.many(f"INSERT INTO job ({JOB_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)


def known_ids(db: Session, ids: list[str]) -> list[str]:
    """Return which of these ids are taken."""
    return [id_ for (id_,) in db.all("SELECT id FROM job WHERE id IN (SELECT value FROM each(?))", ids)]


def seq_of(db: Session, id_: str) -> int | None:
    """Return the number of a job."""
    row = db.one("SELECT seq FROM job WHERE id = ?", id_)
    return None if row is None else int(row[0])


def queue_of(db: Session, seq: int) -> str:
    """Return the queue of a job."""
    row = db.one("SELECT queue FROM job WHERE seq = ?", seq)
    return "" if row is None else str(row[0])


def arriving(db: Session, seqs: list[int]) -> list[Row]:
    """Return (seq, tenant, queue, task, limits, priority, cost) of jobs about to stand in line again."""
    return db.all(
        """
        SELECT seq, tenant, queue, task, limits, priority, cost FROM job WHERE seq IN (SELECT value FROM each(?))
        """,
        seqs,
    )


def payloads(db: Session, seqs: list[int]) -> list[Row]:
    """Return (seq, id, task, args, timeout, meta, tenant, enqueued, limits, expires, own lease, workflow)."""
    return db.all(
        f"""
        SELECT seq, id, task, args, timeout, meta, tenant, enqueued, limits, expires, {_OWN_LEASE},
            {_WORKFLOW}
        FROM job j WHERE seq IN (SELECT value FROM each(?))
        """,
        seqs,
    )


def tasks(db: Session, seqs: list[int]) -> dict[int, str]:
    """Return the task names of jobs."""
    return dict(db.all("SELECT seq, task FROM job WHERE seq IN (SELECT value FROM each(?))", seqs))


def names(db: Session, seqs: list[int]) -> list[Row]:
    """Return (seq, id, task, queue, tenant)."""
    return db.all(
        "SELECT seq, id, task, queue, tenant FROM job WHERE seq IN (SELECT value FROM each(?))", seqs
    )


def policies(db: Session, seqs: list[int]) -> dict[int, str]:
    """Return the retry policies of jobs."""
    return dict(db.all("SELECT seq, retry FROM job WHERE seq IN (SELECT value FROM each(?))", seqs))


# Waiting without limits.


def get_ready(db: Session, rows: Iterable[Row]) -> None:
    """Add (seq, queue, priority, ord, cost, attempt, lost)."""
    db.tell(Topic.WORK)
    db.many(
        "INSERT INTO ready (seq, queue, priority, ord, cost, attempt, lost) VALUES (?, ?, ?, ?, ?, ?, ?)",
        rows,
    )


def first_ready(db: Session, queue: str, skip: int, most: int) -> list[Row]:
    """Return (seq, priority, ord, cost, attempt, lost) of the first jobs of a queue that nobody else is taking."""
    return db.all(
        """
        SELECT seq, priority, ord, cost, attempt, lost FROM ready WHERE queue = ?
        ORDER BY priority DESC, ord LIMIT ? OFFSET ? FOR UPDATE SKIP LOCKED
        """,
        queue,
        most,
        skip,
    )


def leave_ready(db: Session, seqs: list[int]) -> None:
    """Delete jobs that no longer wait."""
    db.run("DELETE FROM ready WHERE seq IN (SELECT value FROM each(?))", seqs)


# Waiting with limits.


def join_lanes(db: Session, rows: Iterable[Row]) -> None:
    """Add (seq, lane, priority, ord, cost, attempt, lost, refused)."""
    db.many(
        "INSERT INTO lane_job (seq, lane, priority, ord, cost, attempt, lost, refused) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        rows,
    )


def in_lane(db: Session, lane: int, skip: int, most: int) -> list[Row]:
    """Return (seq, priority, ord, cost) of the first jobs of a lane."""
    return db.all(
        "SELECT seq, priority, ord, cost FROM lane_job WHERE lane = ? ORDER BY priority DESC, ord LIMIT ? OFFSET ?",
        lane,
        most,
        skip,
    )


def leave_lanes(db: Session, seqs: list[int]) -> list[Row]:
    """Delete jobs that no longer wait; return their (seq, attempt, lost)."""
    return db.all(
        "DELETE FROM lane_job WHERE seq IN (SELECT value FROM each(?)) RETURNING seq, attempt, lost", seqs
    )


def stand_in(db: Session, old: int, new: int) -> None:
    """Put a job that has made no attempt exactly where another one waits."""
    db.run("UPDATE lane_job SET seq = ?, attempt = 0, lost = 0 WHERE seq = ?", new, old)


def refuse(db: Session, seq: int) -> int:
    """Count a refusal; return how many there have been."""
    row = db.one("UPDATE lane_job SET refused = refused + 1 WHERE seq = ? RETURNING refused", seq)
    return int(row[0]) if row else 0


def forgive(db: Session, seq: int) -> None:
    """Forget the refusals of a job."""
    db.run("UPDATE lane_job SET refused = 0 WHERE seq = ?", seq)


# Enqueued while somebody else had the gates.


def deliver(db: Session, rows: Sequence[Row], due: Mapping[int, int], placed: Collection[int]) -> None:
    """Add jobs, in the order of JOB_COLUMNS, without a look at any gate; *due* says which are not due yet.

    Those with limits wait at the door; those *placed* have a place already.
    """
    add(db, rows)
    numbered = [dict(zip(_JOB_NAMES, row, strict=True)) for row in rows]
    present = [job for job in numbered if job["seq"] not in due and job["seq"] not in placed]
    free = [job for job in present if not job["limits"]]
    if free:
        get_ready(db, [(j["seq"], j["queue"], j["priority"], j["seq"], j["cost"], 0, 0) for j in free])
    if len(free) < len(present):
        db.tell(Topic.WORK)
        db.many(
            "INSERT INTO door (seq, attempt, lost) VALUES (?, 0, 0)",
            [(job["seq"],) for job in present if job["limits"]],
        )
    if due:
        schedule(db, [(seq, at, 0, 0) for seq, at in due.items()])


def replace_later(db: Session, seq: int, replaces: int, due: int) -> None:
    """Have a job take the place of another once it is let in; it is *due* then (0: at once)."""
    db.tell(Topic.WORK)
    db.run(
        "INSERT INTO door (seq, attempt, lost, replaces, due) VALUES (?, 0, 0, ?, ?)",
        seq,
        replaces,
        due,
    )


def at_door(db: Session, most: int) -> list[Row]:
    """Let in the (seq, attempt, lost, whom it replaces, due) that came first."""
    return sorted(
        db.all(
            """
            DELETE FROM door WHERE seq IN (SELECT seq FROM door ORDER BY seq LIMIT ? FOR UPDATE SKIP LOCKED)
            RETURNING seq, attempt, lost, replaces, due
            """,
            most,
        )
    )


def from_door(db: Session, seq: int) -> list[Row]:
    """Let in those of the unique key of one, as `at_door` does."""
    return sorted(
        db.all(
            """
            DELETE FROM door WHERE seq IN EVERY (
                SELECT o.seq FROM uniqueness u JOIN uniqueness o ON o.key = u.key WHERE u.seq = ?)
            RETURNING seq, attempt, lost, replaces, due
            """,
            seq,
        )
    )


# Running.


def run_ready(db: Session, seqs: list[int], fence: int, worker: str, lease: int, now: int) -> None:
    """Start jobs that wait without limits."""
    db.run(
        """
        INSERT INTO running (seq, fence, queue, task, worker, lease, started, begin_by, gates, cost,
            priority, ord, attempt, lost, cancel)
        SELECT r.seq, ?, r.queue, j.task, ?, ?, ?, 0, '', r.cost, r.priority, r.ord, r.attempt + 1, r.lost, 0
        FROM ready r JOIN job j ON j.seq = r.seq WHERE r.seq IN (SELECT value FROM each(?))
        """,
        fence,
        worker,
        lease,
        now,
        seqs,
    )
    leave_ready(db, seqs)


# What is known of a job that begins, the best first once it is sorted.
STARTED: Final = """
    -priority, ord, seq, id, task, args, timeout, meta, tenant, enqueued, expires, own AS own_lease, workflow,
    attempt, lost
"""


def starting(condition: str = "true") -> str:
    """Return the part of a statement that starts jobs at `at.now`, and has what is STARTED in `known`.

    Its parameters are a queue, how many at most, their fence, their worker and for how long they are leased,
    unless a job has a lease of its own.
    """
    return f"""
        taken AS (
            DELETE FROM ready WHERE {condition} AND seq = ANY(ARRAY(
                SELECT seq FROM ready WHERE queue = ? ORDER BY priority DESC, ord LIMIT ? FOR UPDATE SKIP LOCKED))
            RETURNING seq, queue, cost, priority, ord, attempt, lost
        ), known AS (
            SELECT t.*, j.id, j.task, j.args, j.timeout, j.meta, j.tenant, j.enqueued, j.expires, {_OWN_LEASE} AS own,
                {_WORKFLOW} AS workflow
            FROM taken t JOIN job j ON j.seq = t.seq
        ), begun AS (
            INSERT INTO running (seq, fence, queue, task, worker, lease, started, begin_by, gates, cost,
                priority, ord, attempt, lost, cancel)
            SELECT seq, ?, queue, task, ?, at.now + coalesce(own, ?), at.now, 0, '', cost, priority, ord,
                attempt + 1, lost, 0
            FROM known CROSS JOIN at
        ), first_begun AS (
            UPDATE workflow_job SET started = at.now FROM known CROSS JOIN at
            WHERE known.workflow IS NOT NULL AND workflow_job.seq = known.seq AND workflow_job.started IS NULL
        )
    """


def start_first(
    db: Session, queue: str, most: int, fence: int, worker: str, lease: int, now: int
) -> list[Row]:
    """Start the first jobs of a queue that nobody else is taking, where one statement may change several tables.

    Return (seq, id, task, args, timeout, meta, tenant, enqueued, expires, own lease, workflow, attempt, lost),
    the best first.
    """
    rows = db.all(
        f"WITH at AS (SELECT CAST(? AS BIGINT) AS now), {starting()} SELECT {STARTED} FROM known",
        now,
        queue,
        most,
        fence,
        worker,
        lease,
    )
    return [row[2:] for row in sorted(rows)]


def started(db: Session, fence: int) -> list[Row]:
    """Return when jobs began under this *fence*, and what `start_first` tells of each."""
    return db.all(
        f"""
        SELECT r.started, r.seq, j.id, j.task, j.args, j.timeout, j.meta, j.tenant, j.enqueued, j.expires,
            {_OWN_LEASE}, {_WORKFLOW}, r.attempt - 1, r.lost
        FROM running r JOIN job j ON j.seq = r.seq WHERE r.fence = ? ORDER BY r.priority DESC, r.ord
        """,
        fence,
    )


RUNNING_COLUMNS = """
    seq, fence, queue, task, worker, lease, started, begin_by, gates, cost, priority, ord, attempt, lost, cancel
"""
_ATTEMPT = f"""
    {RUNNING_COLUMNS}, has_successor,
    CASE WHEN EXISTS (SELECT 1 FROM workflow_job)
        THEN (SELECT w.workflow FROM workflow_job w WHERE w.seq = running.seq) END
"""
_RUN = f"INSERT INTO running ({RUNNING_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_RUN_ON = (
    f"INSERT INTO running ({RUNNING_COLUMNS}, has_successor) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


def start(db: Session, rows: Iterable[Row]) -> None:
    """Add running attempts, in the order of RUNNING_COLUMNS, when the transaction ends."""
    db.last(_RUN, rows)


def attempts(db: Session, seqs: list[int]) -> list[Row]:
    """Return the running attempts of these jobs, as `take` does, and keep them from others."""
    return db.all(
        f"SELECT {_ATTEMPT} FROM running WHERE seq IN (SELECT value FROM each(?)) ORDER BY seq FOR UPDATE",
        seqs,
    )


def overdue(db: Session, now: int, most: int) -> list[Row]:
    """Return the attempts whose lease ran out, as `take` does."""
    return db.all(
        f"SELECT {_ATTEMPT} FROM running WHERE lease <= ? ORDER BY lease LIMIT ? FOR UPDATE SKIP LOCKED",
        now,
        most,
    )


def take(db: Session, pairs: Collection[tuple[int, int]]) -> list[Row]:
    """Delete the attempts of these (seq, fence) that are running; return what is known of them.

    That is their RUNNING_COLUMNS, whether somebody may wait for their end, and their workflow.
    """
    rows = db.all(
        f"""
        DELETE FROM running WHERE seq IN (SELECT value FROM each(?)) AND fence IN (SELECT value FROM each(?))
        RETURNING {_ATTEMPT}
        """,
        sorted({seq for seq, _ in pairs}),
        sorted({fence for _, fence in pairs}),
    )
    others = [row for row in rows if row[:2] not in pairs]
    if others:
        # A job whose lease was lost runs again, under the fence of another job of this batch.
        db.many(_RUN_ON, [row[:-1] for row in others])
        rows = [row for row in rows if row[:2] in pairs]
    return rows


def stop(db: Session, seqs: list[int]) -> None:
    """Delete attempts that ended."""
    db.run("DELETE FROM running WHERE seq IN (SELECT value FROM each(?))", seqs)


# Not due yet, ended, and what else is known of a job.


def schedule(db: Session, rows: Iterable[Row]) -> None:
    """Add (seq, due, attempt, lost)."""
    _schedule(db, "INSERT INTO scheduled (seq, due, attempt, lost) VALUES (?, ?, ?, ?)", list(rows))


def put_off(db: Session, rows: Iterable[Row]) -> None:
    """Add (seq, due, attempt, lost, reason) of jobs that have begun before."""
    _schedule(
        db, "INSERT INTO scheduled (seq, due, attempt, lost, reason) VALUES (?, ?, ?, ?, ?)", list(rows)
    )


def _schedule(db: Session, adding: str, rows: list[Row]) -> None:
    db.tell(Topic.WORK)
    db.many(adding, rows)
    db.run(
        """
        UPDATE scheduled SET signature = (
            SELECT CASE WHEN length(j.limits) + length(j.tenant) > 500 THEN j.seq || ''
                ELSE j.limits || j.tenant END
            FROM job j WHERE j.seq = scheduled.seq)
        WHERE seq IN (SELECT j.seq FROM job j WHERE j.limits <> '' AND j.seq IN (SELECT value FROM each(?)))
        """,
        [row[0] for row in rows],
    )


def due(db: Session, now: int, most: int) -> list[Row]:
    """Take the (seq, attempt, lost) whose moment has come, earliest first."""
    rows = db.all(
        """
        SELECT seq, attempt, lost FROM scheduled WHERE due <= ? ORDER BY due, seq LIMIT ? FOR UPDATE SKIP LOCKED
        """,
        now,
        most,
    )
    if rows:
        unschedule(db, [row[0] for row in rows])
    return rows


def unschedule(db: Session, seqs: list[int]) -> None:
    """Delete jobs that no longer wait for their moment."""
    db.many("DELETE FROM scheduled WHERE seq = ?", [(seq,) for seq in seqs])


_ENDED = """
    INSERT INTO done (seq, state, finished, started, attempt, result, error, reason)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""


def end(db: Session, rows: Iterable[Row]) -> None:
    """Add (seq, state, finished, started, attempt, result, error, reason)."""
    db.tell(Topic.ENDS)
    db.many(_ENDED, rows)


def finish(db: Session, rows: Iterable[Row]) -> None:
    """Add to those who ended, as `end` does, when the transaction ends."""
    db.tell(Topic.ENDS)
    db.last(_ENDED, rows)


def failed(db: Session, rows: Iterable[Row]) -> None:
    """Remember (seq, attempt, at, error)."""
    db.many(
        """
        INSERT INTO failure (seq, attempt, at, error) VALUES (?, ?, ?, ?)
        ON CONFLICT (seq, attempt) DO UPDATE SET at = excluded.at, error = excluded.error
        """,
        rows,
    )


def expire_at(db: Session, rows: Iterable[Row]) -> None:
    """Remember (seq, at): the job is worth nothing later."""
    db.many("INSERT INTO expiry (seq, at) VALUES (?, ?)", rows)


def expired(db: Session, now: int, most: int) -> list[int]:
    """Return the jobs whose time to live is over; one that runs may yet come back to its place."""
    rows = db.all(
        """
        SELECT e.seq FROM expiry e WHERE e.at <= ? AND NOT EXISTS (SELECT 1 FROM running r WHERE r.seq = e.seq)
        ORDER BY e.at LIMIT ?
        """,
        now,
        most,
    )
    return [seq for (seq,) in rows]


def forget_expiry(db: Session, seqs: list[int]) -> None:
    """Forget until when jobs were worth something, unless one of them has begun meanwhile."""
    db.run(
        """
        DELETE FROM expiry WHERE seq IN (SELECT value FROM each(?))
        AND NOT EXISTS (SELECT 1 FROM running r WHERE r.seq = expiry.seq)
        """,
        seqs,
    )


def place(db: Session, seq: int) -> Row | None:
    """Return (table, attempt, lane, ord, refused) of a job that has not ended, or None."""
    return db.one(
        """
        SELECT 'lane_job', attempt, lane, ord, refused FROM lane_job WHERE seq = ?
        UNION ALL SELECT 'ready', attempt, NULL, ord, 0 FROM ready WHERE seq = ?
        UNION ALL SELECT 'scheduled', attempt, NULL, NULL, 0 FROM scheduled WHERE seq = ?
        UNION ALL SELECT 'running', attempt, NULL, NULL, 0 FROM running WHERE seq = ?
        UNION ALL SELECT 'door', attempt, NULL, NULL, 0 FROM door WHERE seq = ?
        UNION ALL SELECT 'successor', 0, NULL, NULL, 0 FROM successor WHERE seq = ?
        """,
        seq,
        seq,
        seq,
        seq,
        seq,
        seq,
    )


def change_lane(db: Session, seq: int, lane: int) -> None:
    """Move a waiting job to another lane."""
    db.run("UPDATE lane_job SET lane = ?, refused = 0 WHERE seq = ?", lane, seq)


def set_begin_by(db: Session, seq: int, begin_by: int) -> None:
    """Note the moment at which the gates remember this attempt's start."""
    db.run("UPDATE running SET begin_by = ? WHERE seq = ?", begin_by, seq)


def running_of(db: Session, scope: str, name: str) -> list[Row]:
    """Return (seq, gates) of the running attempts of a queue or a type, and keep them from ending meanwhile."""
    column = {"queue": "queue", "type": "task"}[scope]
    return db.all(f"SELECT seq, gates FROM running WHERE {column} = ? ORDER BY seq FOR UPDATE", name)


def set_gates(db: Session, rows: Iterable[Row]) -> None:
    """Keep (gates, seq) of running attempts."""
    db.many("UPDATE running SET gates = ? WHERE seq = ?", rows)


def leave(db: Session, table: str, seq: int) -> int | None:
    """Delete a job from the table it waits in; return how many attempts it has made, or None if it just left."""
    made = "0" if table == "successor" else "attempt"
    row = db.one(f"DELETE FROM {table} WHERE seq = ? RETURNING {made}", seq)
    return int(row[0]) if row else None


def leave_free(db: Session, seqs: list[int]) -> dict[int, int]:
    """Delete those that wait but stand in no lane; return how many attempts each has made."""
    return {
        seq: attempt
        for table in ("ready", "scheduled", "door")
        for seq, attempt in db.all(
            f"DELETE FROM {table} WHERE seq IN (SELECT value FROM each(?)) RETURNING seq, attempt", seqs
        )
    }


def state(db: Session, seq: int) -> State | None:
    """Return where a job stands."""
    found = place(db, seq)
    if found is not None:
        return {"scheduled": State.SCHEDULED, "running": State.RUNNING}.get(found[0], State.WAITING)
    row = db.one("SELECT state FROM done WHERE seq = ?", seq)
    return None if row is None else State(row[0])


def unique_terms(db: Session, seq: int) -> str | None:
    """Return the terms on which a job stands for a unique key, as JSON."""
    row = db.one("SELECT uniqueness FROM job WHERE seq = ?", seq)
    return None if row is None else row[0]


def called(db: Session, seq: int) -> tuple[str, int]:
    """Return a job's id, and when it was enqueued."""
    row = db.one("SELECT id, enqueued FROM job WHERE seq = ?", seq)
    assert row is not None  # noqa: S101 - one that waits is known
    return str(row[0]), int(row[1])


def begin_anew(db: Session, seq: int) -> bool:
    """Forget how a job ended, and until when it was worth something; False if it has just been deleted."""
    if not db.run("DELETE FROM done WHERE seq = ?", seq):
        return False
    for table in ("failure", "progress", "expiry"):
        db.run(f"DELETE FROM {table} WHERE seq = ?", seq)
    return True
