"""Statements about jobs: what was asked for, how they ended, and in which table each stands."""

from collections.abc import Iterable, Sequence
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
Made = tuple[int, int]  # how many attempts a job has made, and how many of them were lost
EndedRow = tuple[int, str, int, int | None, int, str | None, str | None, str, int]
# Of a job that is done: seq, finished, started, attempt, result, lost; and of its last attempt when its handler began,
# its worker, its gates, and the one in whose line its job stood.
DoneRow = tuple[int, int, int | None, int, str | None, int, int | None, str, str, int | None]
# Looked for only where any job has one.
OWN_LEASE: Final = """
    CASE WHEN EXISTS (SELECT 1 FROM own_lease) THEN (SELECT o.lease FROM own_lease o WHERE o.seq = j.seq) END
"""
WORKFLOW: Final = """
    CASE WHEN EXISTS (SELECT 1 FROM workflow_job)
        THEN (SELECT f.id FROM workflow_job m JOIN workflow f ON f.number = m.workflow WHERE m.seq = j.seq) END
"""

TENANTS: Final = 5  # whose jobs are looked at where an id is given without a tenant


class ArrivingJob(NamedTuple):
    """What a known job brings when it stands in line again."""

    seq: int
    tenant: str
    queue: str
    task: str
    limits: str
    priority: int
    cost: int
    costs: str | None


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
    lost: int
    lane: int | None
    ord: int | None
    refused: int

    @property
    def made(self) -> Made:
        return self.attempt, self.lost


def add(db: Session, rows: Iterable[JobRow]) -> None:
    """Add what was asked for."""
    db.many(f"INSERT INTO job ({JOB_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)


def add_weighed(db: Session, rows: Iterable[tuple[*JobRow, str]]) -> None:
    """Add what was asked for, with its costs at the end: jobs whose limits have costs of their own."""
    db.many(
        f"INSERT INTO job ({JOB_COLUMNS}, costs) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        rows,
    )


def known_ids(db: Session, tenant: str, ids: list[str]) -> list[str]:
    """Return which of these ids of a tenant are taken."""
    rows = db.all("SELECT id FROM job WHERE id IN (SELECT value FROM each(?)) AND tenant = ?", ids, tenant)
    return [id_ for (id_,) in rows]


def of_id(db: Session, id_: str, tenant: str | None) -> list[tuple[int, str]]:
    """Return (seq, tenant) of the job of a tenant that has this id; or of any tenant, at most `TENANTS`.

    An instance is none.
    """
    if tenant is None:
        return db.all(
            "SELECT seq, tenant FROM job WHERE id = ? AND queue <> '' ORDER BY tenant LIMIT ?", id_, TENANTS
        )
    return db.all("SELECT seq, tenant FROM job WHERE id = ? AND tenant = ? AND queue <> ''", id_, tenant)


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
        SELECT seq, tenant, queue, task, limits, priority, cost, costs FROM job
        WHERE seq IN (SELECT value FROM each(?))
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
    INSERT INTO done (seq, state, finished, started, attempt, result, error, reason, lost)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_DONE = """
    INSERT INTO done (seq, state, finished, started, attempt, result, reason, lost, began, worker, gates, behind)
    VALUES (?, 'done', ?, ?, ?, ?, '', ?, ?, ?, ?, ?)
"""


def end(db: Session, rows: Iterable[EndedRow], done: Iterable[DoneRow] = ()) -> None:
    """Add jobs that ended, as (seq, state, finished, started, attempt, result, error, reason, lost), or were done."""
    db.tell(Topic.ENDS)
    db.tell(Topic.ROOM)
    db.many(_ENDED, rows)
    db.many(_DONE, done)


def finish(db: Session, rows: Sequence[EndedRow], done: Sequence[DoneRow]) -> None:
    """Do what `end` does, when the transaction ends."""
    if rows or done:
        db.tell(Topic.ENDS)
    if done:
        db.last(_DONE, done)
    if rows:
        db.last(_ENDED, rows)


def unstarted(seq: int, state: State, now: int, made: Made, reason: str) -> EndedRow:
    """Return how a job ended that did not run."""
    attempt, lost = made
    return (seq, state.value, now, None, attempt, None, None, reason, lost)


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


def keep_for_good(db: Session, seqs: list[int]) -> None:
    """Forget when jobs expire."""
    db.run("DELETE FROM expiry WHERE seq IN (SELECT value FROM each(?))", seqs)


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
    """Forget how a job ended and when it expires, but not its attempts; False if it has just been deleted."""
    if not db.run("DELETE FROM done WHERE seq = ?", seq):
        return False
    for table in ("progress", "expiry"):
        db.run(f"DELETE FROM {table} WHERE seq = ?", seq)
    return True


def set_made(db: Session, table: str, made: Made, seq: int) -> None:
    """Set how many attempts a job has made elsewhere, in the table where it stands."""
    db.run(f"UPDATE {table} SET attempt = ?, lost = ? WHERE seq = ?", *made, seq)


def set_enqueued(db: Session, seq: int, at: int) -> None:
    """Set when a job was asked for, elsewhere."""
    db.run("UPDATE job SET enqueued = ? WHERE seq = ?", at, seq)


# Where jobs stand.


def place(db: Session, seq: int) -> Place | None:
    """Return where a job stands; None if it has ended."""
    row = db.one(
        """
        SELECT 'lane_job', attempt, lost, lane, ord, refused FROM lane_job WHERE seq = ?
        UNION ALL SELECT 'ready', attempt, lost, NULL, ord, 0 FROM ready WHERE seq = ?
        UNION ALL SELECT 'scheduled', attempt, lost, NULL, NULL, 0 FROM scheduled WHERE seq = ?
        UNION ALL SELECT 'running', attempt, lost, NULL, NULL, 0 FROM running WHERE seq = ?
        UNION ALL SELECT 'door', attempt, lost, NULL, NULL, 0 FROM door WHERE seq = ?
        UNION ALL SELECT 'successor', 0, 0, NULL, NULL, 0 FROM successor WHERE seq = ?
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


def leave(db: Session, table: str, seq: int) -> Made | None:
    """Delete a job from the table it waits in; return its attempts so far, or None if it just left."""
    made = "0, 0" if table == "successor" else "attempt, lost"
    return db.one(f"DELETE FROM {table} WHERE seq = ? RETURNING {made}", seq)


def leave_free(db: Session, seqs: list[int]) -> dict[int, Made]:
    """Delete jobs that wait but stand in no lane; return the attempts of each so far."""
    return {
        seq: (attempt, lost)
        for table in ("ready", "scheduled", "door")
        for seq, attempt, lost in db.all(
            f"DELETE FROM {table} WHERE seq IN (SELECT value FROM each(?)) RETURNING seq, attempt, lost", seqs
        )
    }
