"""Statements about jobs: what was asked for, how they ended, and in which table each stands."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from penstock.job import Topic
from penstock.lifecycle.states import State
from penstock.store.session import JobRow, Queue, Session

JOB_COLUMNS: Final = """
    seq, id, tenant, queue, task, args, priority, cost, limits, retry, timeout, expires, meta, uniqueness, enqueued
"""
# What a worker gets of a job: seq, id, task, args, timeout, meta, tenant, enqueued, limits, expires, own lease,
# workflow.  It is unpacked where `Claimed` is made, and nowhere else: a NamedTuple costs 3 % of a claim.
PayloadRow = tuple[
    int, str, str, str, int | None, str, str, int, str, int | None, int | None, str | None
]  # fmt: skip
EndedRow = tuple[int, str, int, int | None, int, str | None, str | None, str]
# Looked for only where any job has one.
OWN_LEASE: Final = """
    CASE WHEN EXISTS (SELECT 1 FROM own_lease) THEN (SELECT o.lease FROM own_lease o WHERE o.seq = j.seq) END
"""
WORKFLOW: Final = """
    CASE WHEN EXISTS (SELECT 1 FROM workflow_job)
        THEN (SELECT f.id FROM workflow_job m JOIN workflow f ON f.number = m.workflow WHERE m.seq = j.seq) END
"""


class ArrivingJob(NamedTuple):
    """What a known job brings when it stands in line again."""

    seq: int
    tenant: str
    queue: str
    task: str
    limits: str
    priority: int
    cost: int


class JobName(NamedTuple):
    """What events say of a job."""

    seq: int
    id: str
    task: str
    queue: str
    tenant: str


class Place(NamedTuple):
    """The table in which a job stands, and what is known of it there."""

    table: str
    attempt: int
    lane: int | None
    ord: int | None
    refused: int


def add(db: Session, rows: Iterable[JobRow]) -> None:
    """Add what was asked for."""
    db.many(f"INSERT INTO job ({JOB_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)


def known_ids(db: Session, ids: list[str]) -> list[str]:
    """Return which of these ids are taken."""
    return [id_ for (id_,) in db.all("SELECT id FROM job WHERE id IN (SELECT value FROM each(?))", ids)]


def seq_of(db: Session, id_: str) -> int | None:
    """Return the number of a job."""
    row = db.one("SELECT seq FROM job WHERE id = ?", id_)
    return None if row is None else int(row[0])


def queue_of(db: Session, seq: int) -> Queue:
    """Return the queue of a job."""
    row = db.one("SELECT tenant, queue FROM job WHERE seq = ?", seq)
    return ("", "") if row is None else (row[0], row[1])


def unique_terms(db: Session, seq: int) -> str | None:
    """Return the terms on which a job stands for a unique key, as JSON."""
    row = db.one("SELECT uniqueness FROM job WHERE seq = ?", seq)
    return None if row is None else row[0]


def called(db: Session, seq: int) -> tuple[str, int]:
    """Return a job's id, and when it was enqueued."""
    row = db.one("SELECT id, enqueued FROM job WHERE seq = ?", seq)
    assert row is not None  # noqa: S101 - a job that waits is known
    return str(row[0]), int(row[1])


def arriving(db: Session, seqs: list[int]) -> list[ArrivingJob]:
    """Return jobs that are about to stand in line again."""
    rows = db.all(
        """
        SELECT seq, tenant, queue, task, limits, priority, cost FROM job WHERE seq IN (SELECT value FROM each(?))
        """,
        seqs,
    )
    return [ArrivingJob(*row) for row in rows]


def payloads(db: Session, seqs: list[int]) -> list[PayloadRow]:
    """Return what workers get of jobs."""
    return db.all(
        f"""
        SELECT seq, id, task, args, timeout, meta, tenant, enqueued, limits, expires, {OWN_LEASE},
            {WORKFLOW}
        FROM job j WHERE seq IN (SELECT value FROM each(?))
        """,
        seqs,
    )


def tasks(db: Session, seqs: list[int]) -> dict[int, str]:
    """Return the task names of jobs."""
    return dict(db.all("SELECT seq, task FROM job WHERE seq IN (SELECT value FROM each(?))", seqs))


def names(db: Session, seqs: list[int]) -> list[JobName]:
    """Return what events say of jobs."""
    rows = db.all(
        "SELECT seq, id, task, queue, tenant FROM job WHERE seq IN (SELECT value FROM each(?))", seqs
    )
    return [JobName(*row) for row in rows]


def policies(db: Session, seqs: list[int]) -> dict[int, str]:
    """Return the retry policies of jobs."""
    return dict(db.all("SELECT seq, retry FROM job WHERE seq IN (SELECT value FROM each(?))", seqs))


# How jobs end.


_ENDED = """
    INSERT INTO done (seq, state, finished, started, attempt, result, error, reason)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""


def end(db: Session, rows: Iterable[EndedRow]) -> None:
    """Add jobs that ended, as (seq, state, finished, started, attempt, result, error, reason)."""
    db.tell(Topic.ENDS)
    db.tell(Topic.ROOM)
    db.many(_ENDED, rows)


def finish(db: Session, rows: Iterable[EndedRow]) -> None:
    """Do what `end` does, when the transaction ends."""
    db.tell(Topic.ENDS)
    db.last(_ENDED, rows)


def failed(db: Session, rows: Iterable[tuple[int, int, int, str]]) -> None:
    """Add failed attempts, as (seq, attempt, at, error)."""
    db.many(
        """
        INSERT INTO failure (seq, attempt, at, error) VALUES (?, ?, ?, ?)
        ON CONFLICT (seq, attempt) DO UPDATE SET at = excluded.at, error = excluded.error
        """,
        rows,
    )


def expire_at(db: Session, rows: Iterable[tuple[int, int]]) -> None:
    """Set when jobs expire, as (seq, at)."""
    db.many("INSERT INTO expiry (seq, at) VALUES (?, ?)", rows)


def expired(db: Session, now: int, most: int) -> list[int]:
    """Return jobs that have expired and do not run; one that runs may yet come back to its place."""
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
    """Forget when jobs expire, but for those that have begun meanwhile."""
    db.run(
        """
        DELETE FROM expiry WHERE seq IN (SELECT value FROM each(?))
        AND NOT EXISTS (SELECT 1 FROM running r WHERE r.seq = expiry.seq)
        """,
        seqs,
    )


def revive(db: Session, seq: int) -> bool:
    """Forget how a job ended and when it expires; False if it has just been deleted."""
    if not db.run("DELETE FROM done WHERE seq = ?", seq):
        return False
    for table in ("failure", "progress", "expiry"):
        db.run(f"DELETE FROM {table} WHERE seq = ?", seq)
    return True


# Where jobs stand.


def place(db: Session, seq: int) -> Place | None:
    """Return where a job stands; None if it has ended."""
    row = db.one(
        """
        SELECT 'lane_job', attempt, lane, ord, refused FROM lane_job WHERE seq = ?
        UNION ALL SELECT 'ready', attempt, NULL, ord, 0 FROM ready WHERE seq = ?
        UNION ALL SELECT 'scheduled', attempt, NULL, NULL, 0 FROM scheduled WHERE seq = ?
        UNION ALL SELECT 'running', attempt, NULL, NULL, 0 FROM running WHERE seq = ?
        UNION ALL SELECT 'door', attempt, NULL, NULL, 0 FROM door WHERE seq = ?
        UNION ALL SELECT 'successor', 0, NULL, NULL, 0 FROM successor WHERE seq = ?
        """,
        *[seq] * 6,
    )
    return None if row is None else Place(*row)


def state(db: Session, seq: int) -> State | None:
    """Return where a job stands."""
    found = place(db, seq)
    if found is not None:
        return {"scheduled": State.SCHEDULED, "running": State.RUNNING}.get(found.table, State.WAITING)
    row = db.one("SELECT state FROM done WHERE seq = ?", seq)
    return None if row is None else State(row[0])


def leave(db: Session, table: str, seq: int) -> int | None:
    """Delete a job from the table it waits in; return how many attempts it has made, or None if it just left."""
    made = "0" if table == "successor" else "attempt"
    row = db.one(f"DELETE FROM {table} WHERE seq = ? RETURNING {made}", seq)
    return int(row[0]) if row else None


def leave_free(db: Session, seqs: list[int]) -> dict[int, int]:
    """Delete jobs that wait but stand in no lane; return how many attempts each has made."""
    return {
        seq: attempt
        for table in ("ready", "scheduled", "door")
        for seq, attempt in db.all(
            f"DELETE FROM {table} WHERE seq IN (SELECT value FROM each(?)) RETURNING seq, attempt", seqs
        )
    }
