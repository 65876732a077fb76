"""Statements that show the attempts of a span of time, the latest first.  Reads only.

Each looks at no more rows than it is told to, and leaves choosing among them to its caller.
"""

from typing import Final, NamedTuple

from penstock.store.session import Session

AFTER_ALL: Final = 2**62  # the number of an attempt that has no row of its own: it is the last of its job
_TAIL: Final = 40  # characters of an error in which the delay until the next attempt stands, as it comes last


class Place(NamedTuple):
    """An attempt in the order of when they ended: what comes after it ended earlier."""

    ended: int
    seq: int
    number: int


class TimedRow(NamedTuple):
    """An attempt, and what is known of the one before it."""

    seq: int
    number: int
    state: str  # how it ended, or how its job did that never began
    started: int | None
    began: int | None
    ended: int | None
    worker: str | None
    gates: str | None
    behind: int | None
    error: str | None  # the end of what is known of it
    earlier: int | None  # the number of the one before
    earlier_ended: int | None
    earlier_error: str | None
    retried: int | None


class TimedJob(NamedTuple):
    """The job of an attempt.  An instance stands in no queue, and has its workflow for a task."""

    id: str
    tenant: str
    queue: str
    task: str
    enqueued: int


# Of the attempt before *t*.  A join would let a planner read the whole table; these look up one row.
_TAIL_OF_ERROR: Final = f"substr(p.error, length(p.error) - {_TAIL})"
_BEFORE: Final = "t.earlier, " + ", ".join(
    f"CASE WHEN t.earlier IS NOT NULL THEN"
    f" (SELECT {column} FROM attempt p WHERE p.seq = t.seq AND p.number = t.earlier) END"
    for column in ("p.ended", _TAIL_OF_ERROR, "p.retried")
)
_LAST: Final = "(SELECT max(m.number) FROM attempt m WHERE m.seq = {}.seq) AS earlier"


def running(db: Session, before: int, most: int) -> list[TimedRow]:
    """Return attempts that run, of jobs *before* one, the last that came first."""
    rows = db.all(
        f"""
        SELECT t.seq, t.number, 'running', t.started, NULL, NULL, t.worker, t.gates, t.behind, NULL, {_BEFORE}
        FROM (
            SELECT r.*, {AFTER_ALL} AS number, {_LAST.format("r")}
            FROM running r WHERE r.seq < ? ORDER BY r.seq DESC LIMIT ?
        ) AS t ORDER BY t.seq DESC
        """,
        before,
        most,
    )
    return [TimedRow(*row) for row in rows]


def done(db: Session, since: int, before: Place, most: int) -> list[TimedRow]:
    """Return how jobs ended *since* then, with the attempts of those that are done."""
    rows = db.all(
        f"""
        SELECT t.seq, t.number, t.state, t.started, t.began, t.finished, t.worker, t.gates, t.behind, NULL, {_BEFORE}
        FROM (
            SELECT d.seq, d.state, d.started, d.began, d.finished, d.worker, d.gates, d.behind,
                {AFTER_ALL} AS number, {_LAST.format("d")}
            FROM done d WHERE d.finished >= ? AND d.finished <= ? AND (d.finished < ? OR d.seq < ?)
            ORDER BY d.finished DESC, d.seq DESC LIMIT ?
        ) AS t ORDER BY t.finished DESC, t.seq DESC
        """,
        since,
        before.ended,
        before.ended,
        before.seq,
        most,
    )
    return [TimedRow(*row) for row in rows]


def ended(db: Session, since: int, before: Place, most: int) -> list[TimedRow]:
    """Return attempts that ended *since* then otherwise than done."""
    rows = db.all(
        f"""
        SELECT t.seq, t.number, t.outcome, t.started, t.began, t.ended, t.worker, t.gates, t.behind,
            substr(t.error, length(t.error) - {_TAIL}), {_BEFORE}
        FROM (
            SELECT a.*, (SELECT max(m.number) FROM attempt m WHERE m.seq = a.seq AND m.number < a.number) AS earlier
            FROM attempt a WHERE a.ended >= ? AND a.ended <= ?
            AND (a.ended < ? OR a.seq < ? OR (a.seq = ? AND a.number < ?))
            ORDER BY a.ended DESC, a.seq DESC, a.number DESC LIMIT ?
        ) AS t ORDER BY t.ended DESC, t.seq DESC, t.number DESC
        """,
        since,
        before.ended,
        before.ended,
        before.seq,
        before.seq,
        before.number,
        most,
    )
    return [TimedRow(*row) for row in rows]


def jobs(db: Session, seqs: list[int]) -> dict[int, TimedJob]:
    """Return the jobs that have these numbers."""
    rows = db.all(
        """
        SELECT j.seq, j.id, j.tenant, j.queue,
            CASE WHEN j.queue = '' THEN (SELECT i.workflow FROM instance i WHERE i.seq = j.seq) ELSE j.task END,
            j.enqueued
        FROM job j WHERE j.seq IN (SELECT value FROM each(?))
        """,
        seqs,
    )
    return {seq: TimedJob(*job) for seq, *job in rows}


def limits(db: Session, seqs: list[int]) -> list[tuple[int, str]]:
    """Return the (seq, limits) of jobs."""
    return db.all("SELECT seq, limits FROM job WHERE seq IN (SELECT value FROM each(?))", seqs)
