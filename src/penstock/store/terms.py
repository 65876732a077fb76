"""Statements about the leases that jobs bring along, and about deadlines."""

from collections.abc import Iterable, Sequence

from penstock.store.session import Row, Session


def set_own(db: Session, rows: Iterable[Row]) -> None:
    """Add (seq, lease) of jobs that say how long their workers may be silent."""
    db.many("INSERT INTO own_lease (seq, lease) VALUES (?, ?)", rows)


def own(db: Session, seqs: Sequence[int]) -> dict[int, int]:
    """Return the leases that jobs bring along."""
    return dict(db.all("SELECT seq, lease FROM own_lease WHERE seq IN (SELECT value FROM each(?))", seqs))


def set_terms(db: Session, leases: Iterable[Row], deadlines: Iterable[Row]) -> None:
    """Set (lease, seq) and (seq, fence, at) of attempts that begin in this transaction, when it ends."""
    db.last("UPDATE running SET lease = ? WHERE seq = ?", leases)
    db.last(
        """
        INSERT INTO deadline (seq, fence, at) VALUES (?, ?, ?)
        ON CONFLICT (seq) DO UPDATE SET fence = excluded.fence, at = excluded.at
        """,
        deadlines,
    )


def deadlines(db: Session, seqs: Sequence[int]) -> dict[tuple[int, int], int]:
    """Return the deadlines of attempts, by (seq, fence)."""
    rows = db.all("SELECT seq, fence, at FROM deadline WHERE seq IN (SELECT value FROM each(?))", seqs)
    return {(seq, fence): at for seq, fence, at in rows}
