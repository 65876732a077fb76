"""Statements about lanes: the waiting jobs of one queue that carry exactly the same limits."""

from collections.abc import Iterable

from penstock.store.session import Row, Session

COLUMNS = "id, queue, gates, head, priority, ord, cost, behind, line, ready"
_L = "l.id, l.queue, l.gates, l.head, l.priority, l.ord, l.cost, l.behind, l.line, l.ready"

_SAVE = (
    "UPDATE lane SET head = ?, priority = ?, ord = ?, cost = ?, behind = ?, line = ?, ready = ? WHERE id = ?"
)


def by_signature(db: Session, signatures: list[str]) -> list[Row]:
    """Return (signature, lane...) of the lanes that exist."""
    return db.all(
        f"""
        SELECT n.signature, {_L} FROM lane_name n JOIN lane l ON l.id = n.lane
        WHERE n.signature IN (SELECT value FROM each(?))
        """,
        signatures,
    )


def load(db: Session, ids: list[int]) -> list[Row]:
    """Return the lanes."""
    return db.all(f"SELECT {COLUMNS} FROM lane WHERE id IN (SELECT value FROM each(?))", ids)


def ready(db: Session, queue: str, most: int) -> list[Row]:
    """Return the first *most* lanes of a queue that a claim should look at."""
    return db.all(
        f"SELECT {COLUMNS} FROM lane WHERE queue = ? AND ready = 1 ORDER BY priority DESC, ord LIMIT ?",
        queue,
        most,
    )


def firsts(db: Session, lines: list[str]) -> list[Row]:
    """Return the first lane of each line."""
    return db.all(
        f"""
        SELECT {COLUMNS} FROM lane WHERE id IN EVERY (
            SELECT (SELECT x.id FROM lane x WHERE x.line = e.value ORDER BY x.priority DESC, x.ord LIMIT 1)
            FROM each(?) e)
        """,
        lines,
    )


def dormant_firsts(db: Session, gates: list[int]) -> list[Row]:
    """Return the first lane of each line behind these gates in which somebody has not been called.

    One step for each line, however many lanes stand in it.
    """
    return db.all(
        f"""
        WITH RECURSIVE walk (gate, line) AS (
            SELECT e.value, (SELECT min(l.line) FROM lane l WHERE l.ready = 0 AND l.behind = e.value)
            FROM each(?) e
            UNION ALL
            SELECT w.gate,
                   (SELECT min(l.line) FROM lane l WHERE l.ready = 0 AND l.behind = w.gate AND l.line > w.line)
            FROM walk w WHERE w.line IS NOT NULL
        )
        SELECT {COLUMNS} FROM lane WHERE id IN EVERY (
            SELECT (SELECT x.id FROM lane x WHERE x.line = w.line ORDER BY x.priority DESC, x.ord LIMIT 1)
            FROM walk w WHERE w.line IS NOT NULL)
        """,
        gates,
    )


def heads(db: Session, lanes: list[int]) -> list[Row]:
    """Return (lane, seq, priority, ord, cost) of the first job of each lane that has one."""
    return db.all(
        """
        SELECT lane, seq, priority, ord, cost FROM lane_job WHERE seq IN EVERY (
            SELECT (SELECT x.seq FROM lane_job x WHERE x.lane = e.value ORDER BY x.priority DESC, x.ord LIMIT 1)
            FROM each(?) e)
        """,
        lanes,
    )


def add(db: Session, rows: Iterable[Row]) -> None:
    """Add lanes, in the order of COLUMNS."""
    db.many(f"INSERT INTO lane ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)


def name(db: Session, rows: Iterable[Row]) -> None:
    """Add (lane, signature): what makes the lane's jobs alike."""
    db.many("INSERT INTO lane_name (lane, signature) VALUES (?, ?)", rows)


def add_gates(db: Session, rows: Iterable[Row]) -> None:
    """Add (gate, lane): the lane's jobs pass that gate."""
    db.many("INSERT INTO lane_gate (gate, lane) VALUES (?, ?)", rows)


def save(db: Session, rows: Iterable[Row], *, last: bool = False) -> None:
    """Keep (head, priority, ord, cost, behind, line, ready, id); *last* if nobody asks for lanes after that."""
    if last:
        db.last(_SAVE, rows)
    else:
        db.many(_SAVE, rows)


def empty(db: Session, most: int) -> list[Row]:
    """Return (id, gates) of up to *most* lanes without jobs."""
    return db.all("SELECT id, gates FROM lane WHERE head IS NULL ORDER BY id LIMIT ?", most)


def delete(db: Session, lanes: list[int], gates: Iterable[Row]) -> None:
    """Delete lanes and their (gate, lane) pairs."""
    db.many("DELETE FROM lane_gate WHERE gate = ? AND lane = ?", gates)
    db.many("DELETE FROM lane_name WHERE lane = ?", [(lane,) for lane in lanes])
    db.many("DELETE FROM lane WHERE id = ?", [(lane,) for lane in lanes])


def signature(db: Session, lane: int) -> str:
    """Return what makes a lane's jobs alike."""
    row = db.one("SELECT signature FROM lane_name WHERE lane = ?", lane)
    assert row is not None, f"lane {lane} is gone"  # noqa: S101 - a broken store, not a mistake of a caller
    return str(row[0])
