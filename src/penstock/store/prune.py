"""Statements that delete what nobody asks for any more."""

from penstock.store.session import Session


def prune(db: Session, before: int, most: int) -> int:
    """Delete up to *most* jobs that ended before then; return how many."""
    rows = db.all("SELECT seq FROM done WHERE finished < ? ORDER BY finished LIMIT ?", before, most)
    for table in ("done", "progress", "failure", "expiry", "uniqueness", "job"):
        db.many(f"DELETE FROM {table} WHERE seq = ?", rows)
    return len(rows)
