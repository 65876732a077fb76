"""Statements about floating limits: numbers of slots that a worker computes."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from penstock.job import RefreshesFor
from penstock.limits.rules import Floating
from penstock.store.session import Session


class FloatingRow(NamedTuple):
    """A floating limit as it is stored."""

    gate: int
    handler: str
    initial: int
    every: int
    metadata: str
    least: int
    most: int | None
    refreshed: int | None
    next_at: int  # while a worker has the refresh, when its lease runs out
    failures: int
    error: str
    fence: int
    worker: str


COLUMNS: Final = ", ".join(f"f.{name}" for name in FloatingRow._fields)
# Whether a job waits at the key or runs, or a call has slots of it or asks for some.
_IN_USE: Final = """
    (g.running > 0 OR g.lanes > 0 OR g.asking > 0 OR EXISTS (
        SELECT 1 FROM lane_gate p JOIN lane l ON l.id = p.lane WHERE p.gate = f.gate AND l.head IS NOT NULL))
"""
_DUE: Final = "floating f JOIN gate g ON g.id = f.gate WHERE f.idle = 0 AND f.next_at <= ?"
# What is due and neither in use nor asked for rests.
_LENDABLE: Final = f"(f.asked = 1 OR {_IN_USE})"
_NONE: Final = ["\x1f"]  # no name has control characters, and an empty list has no type
# Its parameters are those of `_asked`.
_CAN: Final = """
    (? = 1 OR g.tenant = ?) AND (f.handler IN (SELECT value FROM each(?)) OR EXISTS (
        SELECT 1 FROM floating_use u WHERE u.gate = f.gate AND (u.handler IN (SELECT value FROM each(?))
            OR (f.handler = '' AND u.queue IN (SELECT value FROM each(?))))))
"""


def add(db: Session, gate: int, initial: int, floating: Floating, now: int) -> None:
    """Let a gate float that does not yet; its key is used in the queues of all lanes that pass it."""
    db.run(
        """
        INSERT INTO floating (gate, handler, initial, every, metadata, least, most, next_at, failures, error, fence,
            worker, idle, asked) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, '', 0, '', 0, 1)
        """,
        gate,
        floating.handler,
        initial,
        floating.every,
        floating.metadata,
        floating.least,
        floating.most,
        now,
    )
    db.run(
        """
        INSERT INTO floating_use (gate, queue, handler)
        SELECT DISTINCT p.gate, l.queue, '' FROM lane_gate p JOIN lane l ON l.id = p.lane WHERE p.gate = ?
        """,
        gate,
    )


def wake(db: Session, gates: Iterable[int], now: int) -> None:
    """Refresh floating limits from now on, because jobs came; what is due now, whatever becomes of the jobs."""
    db.run(
        """
        UPDATE floating SET idle = 0, asked = CASE WHEN next_at <= ? THEN 1 ELSE asked END
        WHERE gate IN (SELECT value FROM each(?)) AND (idle = 1 OR (asked = 0 AND next_at <= ?))
        """,
        now,
        sorted(gates),
        now,
    )


def use(db: Session, rows: Iterable[tuple[int, str, str]]) -> None:
    """Note that a key is used in a queue, by jobs that name a handler or none (empty), as (gate, queue, handler)."""
    db.many(
        """
        INSERT INTO floating_use (gate, queue, handler) VALUES (?, ?, ?)
        ON CONFLICT (gate, queue, handler) DO NOTHING
        """,
        rows,
    )


def anything_due(db: Session, requests: Sequence[RefreshesFor], now: int) -> bool:
    """Tell whether a refresh is due that one of the workers can do, or of a key that is not in use any more."""
    # Mostly nothing is due at all, and a statement that only asks for that takes no time to plan.
    if db.one("SELECT 1 FROM floating WHERE idle = 0 AND next_at <= ? LIMIT 1", now) is None:
        return False
    return any(
        db.one(f"SELECT 1 FROM {_DUE} AND ({_CAN} OR NOT {_LENDABLE}) LIMIT 1", now, *_asked(wanted))
        for wanted in requests
    )


def due(db: Session, wanted: RefreshesFor, now: int) -> list[FloatingRow]:
    """Return the floating limits in use whose refresh is due and can be done by a worker, the longest overdue first."""
    rows = db.all(
        f"SELECT {COLUMNS} FROM {_DUE} AND {_CAN} AND {_LENDABLE} ORDER BY f.next_at, f.gate LIMIT ?",
        now,
        *_asked(wanted),
        wanted.count,
    )
    return [FloatingRow(*row) for row in rows]


def rest(db: Session, now: int, most: int) -> None:
    """Refresh no more what is due and not in use."""
    db.run(
        f"""
        UPDATE floating SET idle = 1 WHERE gate IN (
            SELECT f.gate FROM {_DUE} AND NOT {_LENDABLE} ORDER BY f.next_at LIMIT ?)
        """,
        now,
        most,
    )


def queues(db: Session, gate: int, among: Sequence[str]) -> list[str]:
    """Return in which of these queues a key was used."""
    rows = db.all(
        """
        SELECT DISTINCT queue FROM floating_use
        WHERE gate = ? AND queue IN (SELECT value FROM each(?)) ORDER BY queue
        """,
        gate,
        sorted(among) or _NONE,
    )
    return [queue for (queue,) in rows]


def handlers(db: Session, gate: int, among: Sequence[str]) -> list[str]:
    """Return which of these handlers jobs of a key named."""
    rows = db.all(
        """
        SELECT DISTINCT handler FROM floating_use
        WHERE gate = ? AND handler IN (SELECT value FROM each(?)) ORDER BY handler
        """,
        gate,
        sorted(among) or _NONE,
    )
    return [handler for (handler,) in rows]


def of(db: Session, gate: int) -> FloatingRow | None:
    """Return the floating limit of a gate."""
    row = db.one(f"SELECT {COLUMNS} FROM floating f WHERE f.gate = ?", gate)
    return None if row is None else FloatingRow(*row)


def is_used(db: Session, gate: int) -> bool:
    """Tell whether a job waits at a floating key or runs."""
    found = db.one(
        f"SELECT 1 FROM floating f JOIN gate g ON g.id = f.gate WHERE f.gate = ? AND {_IN_USE}", gate
    )
    return found is not None


def page(
    db: Session, tenant: str | None, prefix: str, offset: int, most: int
) -> list[tuple[FloatingRow, str, str]]:
    """Return (floating limit, tenant, key), by key, of one tenant or of all."""
    rows = db.all(
        f"""
        SELECT g.tenant, g.name, {COLUMNS} FROM floating f JOIN gate g ON g.id = f.gate
        WHERE (? = 1 OR g.tenant = ?) AND substr(g.name, 1, length(?)) = ?
        ORDER BY g.name, g.tenant LIMIT ? OFFSET ?
        """,
        *_of(tenant),
        prefix,
        prefix,
        most,
        offset,
    )
    return [(FloatingRow(*row), owner, key) for owner, key, *row in rows]


def total(db: Session, tenant: str | None, prefix: str) -> int:
    """Return how many floating limits there are."""
    row = db.one(
        """
        SELECT count(*) FROM floating f JOIN gate g ON g.id = f.gate
        WHERE (? = 1 OR g.tenant = ?) AND substr(g.name, 1, length(?)) = ?
        """,
        *_of(tenant),
        prefix,
        prefix,
    )
    return 0 if row is None else int(row[0])


def lately_used(db: Session, most: int) -> list[tuple[str, str, str | None, int, int | None, int]]:
    """Return (tenant, key, rules, initial, refreshed, failures) of those that do not rest, the next first."""
    return db.all(
        """
        SELECT g.tenant, g.name, g.rules, f.initial, f.refreshed, f.failures FROM floating f
        JOIN gate g ON g.id = f.gate WHERE f.idle = 0 ORDER BY f.next_at LIMIT ?
        """,
        most,
    )


def asleep(db: Session) -> list[tuple[str]]:
    """Return the keys that are in use but not refreshed."""
    return db.all(
        f"SELECT g.name FROM floating f JOIN gate g ON g.id = f.gate WHERE f.idle = 1 AND {_IN_USE} LIMIT 100"
    )


def take(db: Session, gate: int, worker: str, until: int) -> int:
    """Give one refresh to a worker until then; return its fence."""
    fence = db.fence()
    db.run(
        "UPDATE floating SET fence = ?, worker = ?, next_at = ?, asked = 0 WHERE gate = ?",
        fence,
        worker,
        until,
        gate,
    )
    return fence


def renew(db: Session, gate: int, until: int) -> None:
    """Leave a refresh to the worker that has it until then."""
    db.run("UPDATE floating SET next_at = ? WHERE gate = ?", until, gate)


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


def change(db: Session, row: FloatingRow) -> None:
    """Change how a floating limit is refreshed."""
    db.run(
        "UPDATE floating SET every = ?, metadata = ?, least = ?, most = ?, next_at = ? WHERE gate = ?",
        row.every,
        row.metadata,
        row.least,
        row.most,
        row.next_at,
        row.gate,
    )


def refresh_now(db: Session, gate: int, now: int) -> None:
    """Have a floating limit refreshed at once, in use or not; one that a worker has at present is left to it."""
    db.run(
        "UPDATE floating SET next_at = ?, idle = 0, asked = 1 WHERE gate = ? AND (worker = '' OR next_at <= ?)",
        now,
        gate,
        now,
    )


def delete(db: Session, gate: int) -> None:
    """Stop refreshing a gate."""
    db.run("DELETE FROM floating WHERE gate = ?", gate)
    db.run("DELETE FROM floating_use WHERE gate = ?", gate)


def _asked(wanted: RefreshesFor) -> tuple[object, ...]:
    handlers = sorted(wanted.handlers) or _NONE
    return (*_of(wanted.tenant), handlers, handlers, sorted(wanted.queues) or _NONE)


def _of(tenant: str | None) -> tuple[int, str]:
    """Return the parameters of `? = 1 OR g.tenant = ?`: all tenants, or one."""
    return (int(tenant is None), tenant or "")
