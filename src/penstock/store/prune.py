"""Statements that delete what nobody asks for any more."""

from typing import Final

from penstock.clock import SECOND
from penstock.store.session import Session

_FORGOTTEN: Final = 24 * 3_600 * SECOND  # nobody asks any more what became of a transaction so old


def receipts(db: Session, now: int) -> None:
    """Delete the receipts of connections that were closed long ago."""
    db.run("DELETE FROM receipt WHERE at < ?", now - _FORGOTTEN)


def prune(db: Session, before: int, now: int, most: int) -> int:
    """Delete up to *most* jobs that ended before then and stand for no unique key; return how many."""
    rows = db.all(
        """
        SELECT d.seq FROM done d WHERE d.finished < ?
        AND NOT EXISTS (SELECT 1 FROM uniqueness u WHERE u.seq = d.seq AND (u.until > ?
            OR (u.until IS NULL AND ',' || u.states || ',' LIKE '%,' || d.state || ',%')))
        ORDER BY d.finished LIMIT ? FOR UPDATE OF d SKIP LOCKED
        """,
        before,
        now,
        most,
    )
    for table in ("done", "progress", "failure", "expiry", "uniqueness", "workflow_job", "job"):
        db.many(f"DELETE FROM {table} WHERE seq = ?", rows)
    return len(rows)
