"""Statements about floating limits: numbers of slots that a handler on a worker computes."""

from typing import NamedTuple

from penstock.limits.rules import Floating
from penstock.store.session import Session


class FloatingRow(NamedTuple):
    """A floating limit as it is stored."""

    gate: int
    handler: str
    initial: int
    every: int
    metadata: str
    refreshed: int | None
    next_at: int
    failures: int
    error: str
    fence: int
    worker: str


_COLUMNS = ", ".join(FloatingRow._fields)


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


def due(db: Session, handlers: list[str], now: int, most: int) -> list[FloatingRow]:
    """Return the floating limits whose refresh is due and whose handler is one of these."""
    rows = db.all(
        f"""
        SELECT {_COLUMNS} FROM floating WHERE next_at <= ? AND handler IN (SELECT value FROM each(?))
        ORDER BY next_at LIMIT ?
        """,
        now,
        handlers,
        most,
    )
    return [FloatingRow(*row) for row in rows]


def of(db: Session, gate: int) -> FloatingRow | None:
    """Return the floating limit of a gate."""
    row = db.one(f"SELECT {_COLUMNS} FROM floating WHERE gate = ?", gate)
    return None if row is None else FloatingRow(*row)


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
