"""Statements about running attempts: their leases and deadlines, their workers, how far they are."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from penstock.job import Running, Topic
from penstock.store.session import Session


class Lease(NamedTuple):
    """What decides how long a running attempt keeps its lease."""

    seq: int
    fence: int
    cancel: int  # when it was asked to stop, or 0
    deadline: int | None
    own: int | None  # how long a lease its job asks for
    worker: str


def locked(db: Session, seqs: list[int]) -> list[Lease]:
    """Return the leases of the running attempts of these jobs, and lock them."""
    rows = db.all(
        """
        SELECT r.seq, r.fence, r.cancel,
            CASE WHEN EXISTS (SELECT 1 FROM deadline)
                THEN (SELECT d.at FROM deadline d WHERE d.seq = r.seq AND d.fence = r.fence) END,
            CASE WHEN EXISTS (SELECT 1 FROM own_lease)
                THEN (SELECT o.lease FROM own_lease o WHERE o.seq = r.seq) END,
            r.worker
        FROM running r WHERE r.seq IN (SELECT value FROM each(?)) AND r.queue <> '' ORDER BY r.seq FOR UPDATE OF r
        """,
        seqs,
    )
    return [Lease(*row) for row in rows]


def renew(db: Session, rows: Iterable[tuple[int, int]]) -> None:
    """Set the (lease, seq) of running attempts."""
    db.many("UPDATE running SET lease = ? WHERE seq = ?", rows)


def set_own(db: Session, rows: Iterable[tuple[int, int]]) -> None:
    """Add (seq, lease) of jobs that say how long their workers may be silent."""
    db.many("INSERT INTO own_lease (seq, lease) VALUES (?, ?)", rows)


def set_leases(db: Session, rows: Iterable[tuple[int, int]]) -> None:
    """Set the (lease, seq) of attempts that begin in this transaction, when it ends."""
    db.last("UPDATE running SET lease = ? WHERE seq = ?", rows)


def set_deadlines(db: Session, rows: Iterable[tuple[int, int, int]]) -> None:
    """Set the (seq, fence, at) of attempts that begin in this transaction, when it ends."""
    db.last(
        """
        INSERT INTO deadline (seq, fence, at) VALUES (?, ?, ?)
        ON CONFLICT (seq) DO UPDATE SET fence = excluded.fence, at = excluded.at
        """,
        rows,
    )


def deadlines(db: Session, seqs: Sequence[int]) -> dict[tuple[int, int], int]:
    """Return the deadlines of attempts, by (seq, fence)."""
    rows = db.all("SELECT seq, fence, at FROM deadline WHERE seq IN (SELECT value FROM each(?))", seqs)
    return {(seq, fence): at for seq, fence, at in rows}


def assign(db: Session, rows: Iterable[tuple[str, int]]) -> None:
    """Set the (worker, seq) of attempts that begin in this transaction, when it ends."""
    db.last("UPDATE running SET worker = ? WHERE seq = ?", rows)


def running(db: Session, ids: Sequence[str], tenant: str | None) -> list[Running]:
    """Return the running attempts of the jobs of a tenant, or of all, that have these ids."""
    rows = db.all(
        f"""
        SELECT j.id, j.seq, r.fence, r.worker, r.queue, r.task, j.tenant, j.meta, r.attempt, r.cancel, o.lease,
               r.lease, r.started, d.at
        FROM job j JOIN running r ON r.seq = j.seq LEFT JOIN own_lease o ON o.seq = j.seq
        LEFT JOIN deadline d ON d.seq = r.seq AND d.fence = r.fence
        WHERE j.id IN (SELECT value FROM each(?)) AND r.queue <> ''{" AND j.tenant = ?" if tenant is not None else ""}
        """,
        ids,
        *(() if tenant is None else (tenant,)),
    )
    return [Running(*row) for row in rows]


def progress(db: Session, seq: int, fence: int, value: str, now: int) -> bool:
    """Keep how far an attempt is; False if it is not running under this fence."""
    if db.one("SELECT 1 FROM running WHERE seq = ? AND fence = ? AND queue <> ''", seq, fence) is None:
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
