"""Statements about the leases of running attempts."""

from collections.abc import Iterable, Sequence

from penstock.job import Beat
from penstock.store import terms
from penstock.store.session import Row, Session, Topic


def renew(db: Session, attempts: Sequence[tuple[int, int]], now: int, lease: int) -> list[Beat]:
    """Lengthen the leases of (seq, fence); tell of each whether it still stands and whether it should stop."""
    found = {
        seq: (fence, cancel)
        for seq, fence, cancel in db.all(
            """
            SELECT seq, fence, cancel FROM running WHERE seq IN (SELECT value FROM each(?)) ORDER BY seq FOR UPDATE
            """,
            [seq for seq, _ in attempts],
        )
    }
    beats = []
    for seq, fence in attempts:
        held, cancel = found.get(seq, (None, 0))
        beats.append(Beat(seq, alive=held == fence, cancel_asked=held == fence and bool(cancel)))
    ends = terms.deadlines(db, [seq for seq, _ in attempts])
    db.many(
        "UPDATE running SET lease = ? WHERE seq = ?",
        [
            (min(now + lease, ends.get(attempt, now + lease)), beat.seq)
            for attempt, beat in zip(attempts, beats, strict=True)
            if beat.alive
        ],
    )
    return beats


def assign(db: Session, rows: Iterable[tuple[str, int]]) -> None:
    """Set the (worker, seq) of attempts that begin in this transaction, when it ends."""
    db.last("UPDATE running SET worker = ? WHERE seq = ?", rows)


def running(db: Session, ids: Sequence[str]) -> list[Row]:
    """Return (id, seq, fence, worker, queue, task, tenant, meta, attempt, cancel, lease of its own) of jobs that run."""
    return db.all(
        """
        SELECT j.id, j.seq, r.fence, r.worker, r.queue, r.task, j.tenant, j.meta, r.attempt, r.cancel, o.lease
        FROM job j JOIN running r ON r.seq = j.seq LEFT JOIN own_lease o ON o.seq = j.seq
        WHERE j.id IN (SELECT value FROM each(?))
        """,
        ids,
    )


def progress(db: Session, seq: int, fence: int, value: str, now: int) -> bool:
    """Keep how far an attempt is; False if it is not running under this fence."""
    if db.one("SELECT 1 FROM running WHERE seq = ? AND fence = ?", seq, fence) is None:
        return False
    db.run(
        """
        INSERT INTO progress (seq, value, at) VALUES (?, ?, ?)
        ON CONFLICT (seq) DO UPDATE SET value = excluded.value, at = excluded.at
        """,
        seq,
        value,
        now,
    )
    return True


def ask_to_cancel(db: Session, seq: int, now: int) -> bool:
    """Ask the worker of a running attempt to stop; False if none runs.  The first moment it was asked counts."""
    db.tell(Topic.WORK)
    return (
        db.run(
            "UPDATE running SET cancel = CASE cancel WHEN 0 THEN ? ELSE cancel END WHERE seq = ?", now, seq
        )
        > 0
    )
