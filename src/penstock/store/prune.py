"""Statements that delete what is no longer needed."""

from collections.abc import Sequence
from typing import Final

from penstock.clock import SECOND
from penstock.store import migrations
from penstock.store.session import Session

_FORGOTTEN: Final = 24 * 3_600 * SECOND  # no process asks any more what became of a transaction so old

# Where something is kept about a job, by its number; the job itself last.
OF_A_JOB: Final = (
    "done", "progress", "attempt", "failure", "expiry", "own_lease", "deadline", "uniqueness", "workflow_job",
    "instance", "job",
)  # fmt: skip
# Where something is kept about an instance, by the number of its job.  It has ended, so it waits for nothing.
OF_AN_INSTANCE: Final = ("instance_step", "signal")
_SPARED: Final = frozenset({"schema_version", "anchor", "receipt"})


def receipts(db: Session, now: int) -> None:
    """Delete the receipts of connections that were closed long ago."""
    db.run("DELETE FROM receipt WHERE at < ?", now - _FORGOTTEN)


def prune(db: Session, before: int, now: int, most: int) -> int:
    """Delete up to *most* jobs that ended before then and stand for no unique key; return how many."""
    rows: list[tuple[int]] = db.all(
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
    _delete(db, rows)
    return len(rows)


def forget(db: Session, seq: int) -> bool:
    """Delete a job that has ended; tell whether there was one."""
    rows: list[tuple[int]] = db.all("SELECT seq FROM done WHERE seq = ? FOR UPDATE", seq)
    _delete(db, rows)
    return bool(rows)


def _delete(db: Session, rows: Sequence[tuple[int]]) -> None:
    for table in OF_AN_INSTANCE:
        db.many(f"DELETE FROM {table} WHERE instance = ?", rows)
    for table in OF_A_JOB:
        db.many(f"DELETE FROM {table} WHERE seq = ?", rows)


def everything(db: Session) -> None:
    """Empty every table but those that belong to the database itself."""
    for name in migrations.schema().columns:
        if name not in _SPARED:
            db.run(f"DELETE FROM {name}")
