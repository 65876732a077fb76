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
    """An attempt, what is known of the one before it, and its job."""

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
    id: str
    tenant: str
    queue: str
    task: str
    enqueued: int


_BEFORE: Final = f"""
    p.number, p.ended, substr(p.error, length(p.error) - {_TAIL}), p.retried,
    j.id, j.tenant, j.queue, j.task, j.enqueued
"""
_JOINED: Final = """
    JOIN job j ON j.seq = t.seq
    LEFT JOIN attempt p ON p.seq = t.seq
        AND p.number = (SELECT max(m.number) FROM attempt m WHERE m.seq = t.seq AND m.number < t.number)
"""


def running(db: Session, before: int, most: int) -> list[TimedRow]:
    """Return attempts that run, of jobs *before* one, the last that came first."""
    rows = db.all(
        f"""
        SELECT t.seq, t.number, 'running', t.started, NULL, NULL, t.worker, t.gates, t.behind, NULL, {_BEFORE}
        FROM (SELECT r.*, {AFTER_ALL} AS number FROM running r WHERE r.seq < ? ORDER BY r.seq DESC LIMIT ?) AS t
        {_JOINED} ORDER BY t.seq DESC
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
            SELECT d.seq, d.state, d.started, d.began, d.finished, d.worker, d.gates, d.behind, {AFTER_ALL} AS number
            FROM done d WHERE d.finished >= ? AND d.finished <= ? AND (d.finished < ? OR d.seq < ?)
            ORDER BY d.finished DESC, d.seq DESC LIMIT ?
        ) AS t {_JOINED} ORDER BY t.finished DESC, t.seq DESC
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
            SELECT a.* FROM attempt a WHERE a.ended >= ? AND a.ended <= ?
            AND (a.ended < ? OR a.seq < ? OR (a.seq = ? AND a.number < ?))
            ORDER BY a.ended DESC, a.seq DESC, a.number DESC LIMIT ?
        ) AS t {_JOINED} ORDER BY t.ended DESC, t.seq DESC, t.number DESC
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


def limits(db: Session, seqs: list[int]) -> list[tuple[int, str]]:
    """Return the (seq, limits) of jobs."""
    return db.all("SELECT seq, limits FROM job WHERE seq IN (SELECT value FROM each(?))", seqs)
