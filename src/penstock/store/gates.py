"""Statements about gates: what they count and remember, when the clock opens them, which job has the turn."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from penstock.job import Topic
from penstock.store.session import Session

# gate, span, heavy, kept_until, starts, paced; gap, folded_at and due of the bucket
MemoryRow = tuple[int, int, int, int, bytes, int, int | None, int, int]


class GateRow(NamedTuple):
    """A gate as it is stored; what follows its rules is of its memory, None if it has none.

    What follows the bucket's due time is of its turn, and means nothing if *seq* is None.
    """

    id: int
    running: int
    lanes: int
    asking: int
    rules: str | None
    span: int | None
    heavy: int | None
    starts: bytes | None
    paced: int | None
    gap: int | None
    folded_at: int
    due: int
    seq: int | None
    lane: int
    priority: int
    ord: int
    cost: int
    until: int | None
    costs: str | None
    kind: str
    member_of: str | None  # the groups whose resource its key is


# What a gate that only counts slots has after `lanes`.
_PLAIN: Final = (
    0, None, None, None, None, None, None, 0, 0, None, 0, 0, 0, 0, None, None, "key", None,
)  # fmt: skip


def load(db: Session, ids: list[int]) -> list[GateRow]:
    """Return the gates that exist."""
    rows = db.all(
        """
        SELECT g.id, g.running, g.lanes, g.asking, g.rules, m.span, m.heavy, m.starts, m.paced,
               m.gap, m.folded_at, m.due,
               t.seq, t.lane, t.priority, t.ord, t.cost, t.until, t.costs, g.kind, g.member_of
        FROM gate g LEFT JOIN gate_memory m ON m.gate = g.id LEFT JOIN turn t ON t.gate = g.id
        WHERE g.id IN (SELECT value FROM each(?))
        """,
        ids,
    )
    return list(map(GateRow._make, rows))


def load_own(db: Session, ids: Sequence[int]) -> list[GateRow]:
    """Return those of the gates that count slots for one lane, and nothing else is known of them."""
    # What is asked of a gate is no condition: an index on its kind would lead through all keys.
    rows = db.all(
        """
        SELECT g.id, g.running, g.lanes, g.kind = 'key' AND g.rules IS NULL AND g.asking = 0 AND g.member_of IS NULL
            AND NOT EXISTS (SELECT 1 FROM gate_memory m WHERE m.gate = g.id)
            AND NOT EXISTS (SELECT 1 FROM turn t WHERE t.gate = g.id)
            AND (SELECT count(*) FROM (SELECT 1 FROM lane_gate x WHERE x.gate = g.id LIMIT 2) two) = 1
        FROM gate g WHERE g.id IN (SELECT value FROM each(?))
        """,
        list(ids),
    )
    return [GateRow._make((*row, *_PLAIN)) for *row, is_own in rows if is_own]


def save(db: Session, rows: Iterable[tuple[int, int, int, int]]) -> None:
    """Keep (running, lanes, asking, id)."""
    db.last("UPDATE gate SET running = ?, lanes = ?, asking = ? WHERE id = ?", rows)


def save_rules(db: Session, gate: int, rules: str | None) -> None:
    """Keep what was decided about a gate."""
    db.tell(Topic.WORK)
    db.run("UPDATE gate SET rules = ? WHERE id = ?", rules, gate)


def keep_own(db: Session, rows: Iterable[tuple[str, int]]) -> None:
    """Keep (own, gate): the numbers that a lane brought which was deleted."""
    db.many("UPDATE gate SET own = ? WHERE id = ?", rows)


def save_memory(db: Session, rows: Iterable[MemoryRow]) -> None:
    """Keep what gates remember."""
    db.last(
        """
        INSERT INTO gate_memory (gate, span, heavy, kept_until, starts, paced, gap, folded_at, due)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
        ON CONFLICT (gate) DO UPDATE SET span = excluded.span, heavy = excluded.heavy,
            kept_until = excluded.kept_until, starts = excluded.starts, paced = excluded.paced,
            gap = excluded.gap, folded_at = excluded.folded_at, due = excluded.due
        """,
        rows,
    )


def find(db: Session, kind: str, tenant: str, names: list[str]) -> dict[str, int]:
    """Return the ids of the named gates that exist."""
    rows = db.all(
        "SELECT name, id FROM gate WHERE kind = ? AND tenant = ? AND name IN (SELECT value FROM each(?))",
        kind,
        tenant,
        names,
    )
    return dict(rows)


def add(db: Session, rows: Iterable[tuple[int, str, str, str]]) -> None:
    """Add (id, kind, tenant, name)."""
    db.many("INSERT INTO gate (id, kind, tenant, name, running, lanes) VALUES (?, ?, ?, ?, 0, 0)", rows)


def name(db: Session, gate: int) -> tuple[str, str, str]:
    """Return (kind, tenant, name) of a gate."""
    row = db.one("SELECT kind, tenant, name FROM gate WHERE id = ?", gate)
    assert row is not None, f"gate {gate} is gone"  # noqa: S101 - a broken store, not a mistake of a caller
    return row


def keys(db: Session, gates: Sequence[int]) -> dict[int, str]:
    """Return which of these gates are those of keys, with their names."""
    rows = db.all(
        "SELECT id, name FROM gate WHERE kind = 'key' AND id IN (SELECT value FROM each(?))", list(gates)
    )
    return dict(rows)


def ruled(db: Session, kind: str) -> dict[str, int]:
    """Return the gates of this kind that have rules, by name."""
    return dict(db.all("SELECT name, id FROM gate WHERE kind = ? AND rules IS NOT NULL", kind))


def due_wakes(db: Session, now: int, most: int) -> list[int]:
    """Delete the wakes that are due; return their gates."""
    gates = wakes_until(db, now, most)
    if gates:
        forget_wakes(db, gates)
    return gates


def wakes_until(db: Session, moment: int, most: int) -> list[int]:
    """Return the gates that are woken by then."""
    rows: list[tuple[int]] = db.all("SELECT gate FROM wake WHERE at <= ? ORDER BY at LIMIT ?", moment, most)
    return [gate for (gate,) in rows]


def forget_wakes(db: Session, gates: Iterable[int]) -> None:
    """Have no wake for these gates."""
    db.many("DELETE FROM wake WHERE gate = ?", [(gate,) for gate in gates])


def next_wake(db: Session) -> int | None:
    """Return when the next gate is woken."""
    row: tuple[int | None] | None = db.one("SELECT min(at) FROM wake")
    return None if row is None else row[0]


def lower_wakes(db: Session, rows: Iterable[tuple[int, int]]) -> None:
    """Set the wakes of gates, as (gate, at), unless they are earlier already."""
    db.last(
        """
        INSERT INTO wake (gate, at) VALUES (?, ?)
        ON CONFLICT (gate) DO UPDATE SET at = excluded.at WHERE excluded.at < wake.at
        """,
        rows,
    )


def save_turns(
    db: Session, rows: Iterable[tuple[int, int, int, int, int, int, int | None, str | None]]
) -> None:
    """Give jobs the turn at gates, as (gate, seq, lane, priority, ord, cost, until, costs)."""
    db.many(
        """
        INSERT INTO turn (gate, seq, lane, priority, ord, cost, until, costs) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
        ON CONFLICT (gate) DO UPDATE SET seq = excluded.seq, lane = excluded.lane, priority = excluded.priority,
            ord = excluded.ord, cost = excluded.cost, until = excluded.until, costs = excluded.costs
        """,
        rows,
    )


def turns_of_type(db: Session, task: str) -> list[tuple[int, int]]:
    """Return (seq, lane) of the jobs of this type that have the turn somewhere."""
    return db.all(
        "SELECT DISTINCT t.seq, t.lane FROM turn t JOIN job j ON j.seq = t.seq WHERE j.task = ?", task
    )


def type_of(db: Session, seq: int) -> int | None:
    """Return the gate of a job's type, if that has rules."""
    row = db.one(
        """
        SELECT g.id FROM job j JOIN gate g ON g.kind = 'type' AND g.tenant = '' AND g.name = j.task
        WHERE j.seq = ? AND g.rules IS NOT NULL
        """,
        seq,
    )
    return None if row is None else row[0]


def forget_turns(db: Session, gates: Iterable[int]) -> None:
    """End the turns at these gates."""
    db.many("DELETE FROM turn WHERE gate = ?", [(gate,) for gate in gates])


def sweep(db: Session, after: int, now: int, most: int) -> tuple[int, int]:
    """Delete idle gates, looking at *most* gates; return (last id looked at, deleted)."""
    rows: list[tuple[int, int, str | None]] = db.all(
        "SELECT id, running + lanes + asking, rules FROM gate WHERE id > ? ORDER BY id LIMIT ?", after, most
    )
    idle = [gate for gate, busy, rules in rows if not busy and rules is None]
    gone: list[tuple[int]] = db.all(
        """
        SELECT e.value FROM each(?) e
        WHERE NOT EXISTS (SELECT 1 FROM lane_gate l WHERE l.gate = e.value)
          AND NOT EXISTS (SELECT 1 FROM gate_memory m WHERE m.gate = e.value AND m.kept_until > ?)
          AND NOT EXISTS (SELECT 1 FROM floating f WHERE f.gate = e.value)
          AND NOT EXISTS (SELECT 1 FROM resource_group r WHERE r.gate = e.value)
          AND NOT EXISTS (SELECT 1 FROM resource r WHERE r.gate = e.value)
        """,
        idle,
        now,
    )
    for table, column in (("gate_memory", "gate"), ("wake", "gate"), ("turn", "gate"), ("gate", "id")):
        db.many(f"DELETE FROM {table} WHERE {column} = ?", gone)
    return (rows[-1][0] if len(rows) == most else 0), len(gone)
