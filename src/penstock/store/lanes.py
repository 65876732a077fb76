"""Statements about lanes: the waiting jobs of one queue that carry exactly the same limits."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from penstock.store.session import Part, Row, Session
from penstock.store.waiting import Head


class LaneRow(NamedTuple):
    """A lane as it is stored."""

    id: int
    tenant: str
    queue: str
    part: str  # that of a task whose jobs stand here; empty if it may be any
    gates: str  # the stands of its jobs
    head: int | None
    priority: int
    ord: int
    cost: int
    costs: str | None
    behind: int | None
    line: str | None
    ready: int
    task: str | None  # of the head, if it was looked up; not stored here


# A lane is rescheduled while it is parked and one of its limits says so: its jobs count as scheduled.
IS_RESCHEDULED: Final = """ready = 0 AND behind IS NOT NULL AND gates LIKE '%"reschedule"%'"""
RESCHEDULED: Final = f"SELECT id FROM lane WHERE {IS_RESCHEDULED}"
SavedLane = tuple[int | None, int, int, int, str | None, int | None, str | None, int, int]
_STORED: Final = ", ".join(LaneRow._fields[:-1])
_COLUMNS: Final = f"{_STORED}, (SELECT j.task FROM job j WHERE j.seq = head)"
_SAVE: Final = """
    UPDATE lane SET head = ?, priority = ?, ord = ?, cost = ?, costs = ?, behind = ?, line = ?, ready = ? WHERE id = ?
"""


def by_signature(db: Session, signatures: list[str]) -> list[tuple[str, LaneRow]]:
    """Return (signature, lane) of the lanes that exist."""
    rows = db.all(
        f"""
        SELECT n.signature, {_STORED}, NULL FROM lane_name n JOIN lane l ON l.id = n.lane
        WHERE n.signature IN (SELECT value FROM each(?))
        """,
        signatures,
    )
    return [(signature, LaneRow(*lane)) for signature, *lane in rows]


def load(db: Session, ids: list[int]) -> list[LaneRow]:
    """Return the lanes."""
    return _lanes(db.all(f"SELECT {_COLUMNS} FROM lane WHERE id IN (SELECT value FROM each(?))", ids))


def ready(db: Session, part: Part, most: int) -> list[LaneRow]:
    """Return the first *most* lanes of a part that a claim should look at."""
    rows = db.all(
        f"""
        SELECT {_COLUMNS} FROM lane WHERE tenant = ? AND queue = ? AND part = ? AND ready = 1
        ORDER BY priority DESC, ord LIMIT ?
        """,
        *part,
        most,
    )
    return _lanes(rows)


def ready_locked(db: Session, part: Part, most: int) -> list[LaneRow]:
    """Do the same as `ready`, and lock the lanes; those that other transactions have locked are left out."""
    rows = db.all(
        f"""
        SELECT {_COLUMNS} FROM lane WHERE tenant = ? AND queue = ? AND part = ? AND ready = 1
        ORDER BY priority DESC, ord LIMIT ? FOR UPDATE SKIP LOCKED
        """,
        *part,
        most,
    )
    return _lanes(rows)


def locked_of(db: Session, gates: list[int]) -> list[LaneRow]:
    """Lock and return a lane that passes each of these gates, if there is one."""
    rows = db.all(
        f"""
        SELECT {_COLUMNS} FROM lane WHERE id IN EVERY (
            SELECT (SELECT x.lane FROM lane_gate x WHERE x.gate = e.value LIMIT 1) FROM each(?) e)
        ORDER BY id FOR UPDATE
        """,
        gates,
    )
    return _lanes(rows)


def ready_instances(db: Session, most: int) -> list[LaneRow]:
    """Return the first ready lanes of instances, of all tenants."""
    rows = db.all(
        f"SELECT {_COLUMNS} FROM lane WHERE queue = '' AND ready = 1 ORDER BY priority DESC, ord LIMIT ?",
        most,
    )
    return _lanes(rows)


def firsts(db: Session, lines: list[str]) -> list[LaneRow]:
    """Return the first lane of each line."""
    rows = db.all(
        f"""
        SELECT {_COLUMNS} FROM lane WHERE id IN EVERY (
            SELECT (SELECT x.id FROM lane x WHERE x.line = e.value ORDER BY x.priority DESC, x.ord LIMIT 1)
            FROM each(?) e)
        """,
        lines,
    )
    return _lanes(rows)


def dormant_firsts(db: Session, gates: list[int]) -> list[LaneRow]:
    """Return the first lane of each line behind these gates that has lanes which were not called.

    One step for each line, however many lanes stand in it.
    """
    rows = db.all(
        f"""
        WITH RECURSIVE walk (gate, line) AS (
            SELECT e.value, (SELECT min(l.line) FROM lane l WHERE l.ready = 0 AND l.behind = e.value)
            FROM each(?) e
            UNION ALL
            SELECT w.gate,
                   (SELECT min(l.line) FROM lane l WHERE l.ready = 0 AND l.behind = w.gate AND l.line > w.line)
            FROM walk w WHERE w.line IS NOT NULL
        )
        SELECT {_COLUMNS} FROM lane WHERE id IN EVERY (
            SELECT (SELECT x.id FROM lane x WHERE x.line = w.line ORDER BY x.priority DESC, x.ord LIMIT 1)
            FROM walk w WHERE w.line IS NOT NULL)
        """,
        gates,
    )
    return _lanes(rows)


def heads(db: Session, lanes: list[int]) -> dict[int, tuple[Head, int]]:
    """Return the first job of each lane that has one, and the gate at which it was told of, or 0."""
    rows = db.all(
        """
        SELECT lane, seq, priority, ord, cost, costs, (SELECT j.task FROM job j WHERE j.seq = lane_job.seq), told
        FROM lane_job WHERE seq IN EVERY (
            SELECT (SELECT x.seq FROM lane_job x WHERE x.lane = e.value ORDER BY x.priority DESC, x.ord LIMIT 1)
            FROM each(?) e)
        """,
        lanes,
    )
    return {lane: (tuple(head), told) for lane, *head, told in rows}


def add(db: Session, rows: Iterable[LaneRow]) -> None:
    """Add lanes."""
    db.many(
        f"INSERT INTO lane ({_STORED}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [row[:-1] for row in rows],
    )


def name(db: Session, rows: Iterable[tuple[int, str]]) -> None:
    """Add the signatures of lanes, as (lane, signature)."""
    db.many("INSERT INTO lane_name (lane, signature) VALUES (?, ?)", rows)


def add_gates(db: Session, rows: Iterable[tuple[int, int]]) -> None:
    """Add (gate, lane): the lane's jobs pass that gate."""
    db.many("INSERT INTO lane_gate (gate, lane) VALUES (?, ?)", rows)


def save(db: Session, rows: Iterable[SavedLane], *, last: bool = False) -> None:
    """Keep (head, priority, ord, cost, costs, behind, line, ready, id); *last* if no later statement looks at lanes."""
    if last:
        db.last(_SAVE, rows)
    else:
        db.many(_SAVE, rows)


def empty(db: Session, most: int) -> list[tuple[int, str]]:
    """Return (id, gates) of up to *most* lanes without jobs."""
    return db.all("SELECT id, gates FROM lane WHERE head IS NULL ORDER BY id LIMIT ?", most)


def delete(db: Session, lanes: list[int], gates: Iterable[tuple[int, int]]) -> None:
    """Delete lanes and their (gate, lane) pairs."""
    db.many("DELETE FROM lane_gate WHERE gate = ? AND lane = ?", gates)
    db.many("DELETE FROM lane_name WHERE lane = ?", [(lane,) for lane in lanes])
    db.many("DELETE FROM lane WHERE id = ?", [(lane,) for lane in lanes])


def signature(db: Session, lane: int) -> str:
    """Return the signature of a lane."""
    row = db.one("SELECT signature FROM lane_name WHERE lane = ?", lane)
    assert row is not None, f"lane {lane} is gone"  # noqa: S101 - a broken store, not a mistake of a caller
    return str(row[0])


def _lanes(rows: list[Row]) -> list[LaneRow]:
    return list(map(LaneRow._make, rows))  # half the time of calling it, and claims read many
