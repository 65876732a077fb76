"""Statements about floating limits: numbers of slots that a handler on some worker computes anew."""

from penstock.limits.rules import Floating
from penstock.store.session import Row, Session

COLUMNS = "gate, handler, initial, every, metadata, refreshed, next_at, failures, error, fence, worker"


def add(db: Session, gate: int, initial: int, floating: Floating, now: int) -> bool:
    """Start to refresh a gate unless that was done already; tell whether it is new."""
    added = db.run(
        """
        INSERT INTO floating (gate, handler, initial, every, metadata, next_at, failures, error, fence, worker)
        VALUES (?, ?, ?, ?, ?, ?, 0, '', 0, '') ON CONFLICT (gate) DO NOTHING
        """,
        gate,
        floating.handler,
        initial,
        floating.every,
        floating.metadata,
        now,
    )
    return added > 0


def due(db: Session, handlers: list[str], now: int, most: int) -> list[Row]:
    """Return the floating limits whose refresh is due and whose handler is one of these."""
    return db.all(
        f"""
        SELECT {COLUMNS} FROM floating WHERE next_at <= ? AND handler IN (SELECT value FROM each(?))
        ORDER BY next_at LIMIT ?
        """,
        now,
        handlers,
        most,
    )


def of(db: Session, gate: int) -> Row | None:
    """Return the floating limit of a gate."""
    return db.one(f"SELECT {COLUMNS} FROM floating WHERE gate = ?", gate)


def take(db: Session, gate: int, worker: str, until: int) -> int:
    """Give one refresh to a worker until then; return its fence."""
    fence = db.fence()
    db.run(
        "UPDATE floating SET fence = ?, worker = ?, next_at = ? WHERE gate = ?", fence, worker, until, gate
    )
    return fence


def keep(db: Session, gate: int, refreshed: int | None, next_at: int, failures: int, error: str) -> None:
    """Keep how a refresh ended."""
    db.run(
        "UPDATE floating SET refreshed = ?, next_at = ?, failures = ?, error = ?, worker = '' WHERE gate = ?",
        refreshed,
        next_at,
        failures,
        error,
        gate,
    )


def change(db: Session, gate: int, every: int, metadata: str, next_at: int) -> None:
    """Change how a floating limit is refreshed."""
    db.run(
        "UPDATE floating SET every = ?, metadata = ?, next_at = ? WHERE gate = ?",
        every,
        metadata,
        next_at,
        gate,
    )


def delete(db: Session, gate: int) -> None:
    """Stop refreshing a gate."""
    db.run("DELETE FROM floating WHERE gate = ?", gate)
