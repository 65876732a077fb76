"""Statements about the leases that jobs bring along, and about deadlines."""

from collections.abc import Iterable, Sequence

from penstock.store.session import Row, Session


def set_own(db: Session, rows: Iterable[Row]) -> None:
    """Add (seq, lease) of jobs that say how long their workers may be silent."""
    db.many("INSERT INTO own_lease (seq, lease) VALUES (?, ?)", rows)


def set_leases(db: Session, rows: Iterable[Row]) -> None:
    """Set the (lease, seq) of attempts that begin in this transaction, when it ends."""
    db.last("UPDATE running SET lease = ? WHERE seq = ?", rows)


def set_deadlines(db: Session, rows: Iterable[Row]) -> None:
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
