"""Statements about slots that are lent to processes: what each holder has and waits for."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from penstock.store.session import Session


class Asking(NamedTuple):
    """A want that waits at a gate."""

    ord: int
    holder: int
    own: str
    slots: int
    most: int
    lease: int  # of its holder


def add_holder(db: Session, holder: int, name: str, lease: int) -> None:
    """Let a process borrow."""
    db.run("INSERT INTO holder (id, name, lease) VALUES (?, ?, ?)", holder, name, lease)


def lease(db: Session, holder: int) -> int | None:
    """Return when a holder's lease ends; None if it has ended."""
    row = db.one("SELECT lease FROM holder WHERE id = ?", holder)
    return None if row is None else int(row[0])


def renew(db: Session, holder: int, until: int) -> None:
    """Lengthen a holder's lease."""
    db.run("UPDATE holder SET lease = ? WHERE id = ?", until, holder)


def overdue(db: Session, now: int, most: int) -> list[int]:
    """Return holders whose lease has run out."""
    rows = db.all("SELECT id FROM holder WHERE lease <= ? ORDER BY lease LIMIT ?", now, most)
    return [holder for (holder,) in rows]


def forget_holder(db: Session, holder: int) -> None:
    """Forget a holder, and all that it has and asks for."""
    for table, column in (("held", "holder"), ("asking", "holder"), ("holder", "id")):
        db.run(f"DELETE FROM {table} WHERE {column} = ?", holder)


def held_by(db: Session, holder: int) -> dict[int, int]:
    """Return how many slots a holder has, by gate."""
    return dict(db.all("SELECT gate, slots FROM held WHERE holder = ?", holder))


def held_at(db: Session, holder: int, gates: Sequence[int]) -> dict[int, int]:
    """Return how many slots a holder has of these gates."""
    rows = db.all(
        "SELECT gate, slots FROM held WHERE holder = ? AND gate IN (SELECT value FROM each(?))",
        holder,
        list(gates),
    )
    return dict(rows)


def change_held(db: Session, rows: Iterable[tuple[int, int, int]]) -> None:
    """Add (holder, gate, slots), which may be less than nothing, to what is held."""
    rows = list(rows)
    db.many(
        """
        INSERT INTO held (holder, gate, slots) VALUES (?, ?, ?)
        ON CONFLICT (holder, gate) DO UPDATE SET slots = held.slots + excluded.slots
        """,
        rows,
    )
    less = [(holder, gate) for holder, gate, slots in rows if slots < 0]
    db.many("DELETE FROM held WHERE holder = ? AND gate = ? AND slots = 0", less)


def lent(db: Session, gate: int) -> int:
    """Return how many slots of a gate are lent."""
    row = db.one("SELECT CAST(coalesce(sum(slots), 0) AS BIGINT) FROM held WHERE gate = ?", gate)
    return int(row[0]) if row else 0


def ask(db: Session, rows: Iterable[tuple[int, int, int, int, str, int, int]]) -> None:
    """Let wants stand in line, given (gate, ord, holder, want, own, slots, most)."""
    db.many(
        "INSERT INTO asking (gate, ord, holder, want, own, slots, most, given) VALUES (?, ?, ?, ?, ?, ?, ?, 0)",
        rows,
    )


def first(db: Session, gate: int) -> Asking | None:
    """Return the want that is next at a gate."""
    row = db.one(
        """
        SELECT a.ord, a.holder, a.own, a.slots, a.most, h.lease
        FROM asking a JOIN holder h ON h.id = a.holder
        WHERE a.gate = ? AND a.given <= 0 ORDER BY a.ord LIMIT 1
        """,
        gate,
    )
    return None if row is None else Asking(*row)


def give(db: Session, gate: int, ord_: int, slots: int) -> None:
    """Give slots to a want, or call its holder to take them (-1), or let it wait again (0)."""
    db.run("UPDATE asking SET given = ? WHERE gate = ? AND ord = ?", slots, gate, ord_)


def withdraw(db: Session, holder: int, wants: Sequence[int]) -> list[int]:
    """Let wants of a holder leave their lines, unless they were given something; return at which gates."""
    rows = db.all(
        "SELECT gate, ord FROM asking WHERE holder = ? AND given <= 0 AND want IN (SELECT value FROM each(?))",
        holder,
        list(wants),
    )
    db.many("DELETE FROM asking WHERE gate = ? AND ord = ?", rows)
    return [gate for gate, _ in rows]


def given(db: Session, holder: int) -> list[tuple[int, int, int, int]]:
    """Return the (want, gate, given, ord) that a holder was given and has not fetched."""
    return db.all(
        "SELECT want, gate, given, ord FROM asking WHERE holder = ? AND given > 0 ORDER BY ord", holder
    )


def fetched(db: Session, rows: Iterable[tuple[int, int]]) -> None:
    """Forget wants, as (gate, ord), whose holder knows what they were given."""
    db.many("DELETE FROM asking WHERE gate = ? AND ord = ?", rows)


def come(db: Session, holder: int) -> list[int]:
    """Note that a holder has come; return the gates where it was called."""
    rows = db.all("SELECT DISTINCT gate FROM asking WHERE holder = ? AND given = -1 ORDER BY gate", holder)
    if rows:
        db.run("UPDATE asking SET given = 0 WHERE holder = ? AND given = -1", holder)
    return [gate for (gate,) in rows]


def anything_for(db: Session, holder: int, now: int) -> bool:
    """Tell whether a holder should look: it was given slots, called or forgotten, or the clock may do that."""
    row = db.one(
        """
        SELECT 1 WHERE EXISTS (SELECT 1 FROM asking WHERE holder = ? AND given > 0)
        OR EXISTS (SELECT 1 FROM asking WHERE holder = ? AND given = -1)
        OR NOT EXISTS (SELECT 1 FROM holder WHERE id = ?)
        OR EXISTS (SELECT 1 FROM wake WHERE at <= ?) OR EXISTS (SELECT 1 FROM running WHERE lease <= ?)
        OR EXISTS (SELECT 1 FROM holder WHERE lease <= ?)
        """,
        holder, holder, holder, now, now, now,
    )  # fmt: skip
    return row is not None


def asked_by(db: Session, holder: int) -> list[tuple[int, int]]:
    """Return the (want, gate) of a holder that wait."""
    return db.all("SELECT want, gate FROM asking WHERE holder = ? AND given <= 0 ORDER BY ord", holder)


def contended(db: Session, holder: int, gates: Sequence[int]) -> list[int]:
    """Return those of the gates at which jobs or other holders wait, or starts are remembered."""
    rows = db.all(
        """
        SELECT g.id FROM gate g WHERE g.id IN (SELECT value FROM each(?)) AND (g.lanes > 0
            OR EXISTS (SELECT 1 FROM gate_memory m WHERE m.gate = g.id)
            OR (g.asking > 0 AND EXISTS (
                SELECT 1 FROM asking a WHERE a.gate = g.id AND a.given <= 0 AND a.holder <> ?)))
        """,
        list(gates),
        holder,
    )
    return [gate for (gate,) in rows]


def next_moment(db: Session) -> int | None:
    """Return when the clock alone may give back a slot or open a gate."""
    row = db.one(
        "SELECT (SELECT min(at) FROM wake), (SELECT min(lease) FROM running), (SELECT min(lease) FROM holder)"
    )
    return min((at for at in row or () if at is not None), default=None)


def miscounted(db: Session) -> list[tuple[int, int, int]]:
    """Return (gate, stored, true) where the number of wants that wait is wrong."""
    return db.all(
        """
        SELECT g.id, g.asking, count(a.ord) FROM gate g LEFT JOIN asking a ON a.gate = g.id AND a.given <= 0
        GROUP BY g.id, g.asking HAVING g.asking <> count(a.ord) LIMIT 100
        """
    )


def all_held(db: Session) -> list[tuple[int, int]]:
    """Return (gate, slots) of all that is lent."""
    return db.all("SELECT gate, CAST(sum(slots) AS BIGINT) FROM held GROUP BY gate")


def orphans(db: Session) -> list[tuple[int]]:
    """Return the holders that have or want slots but do not exist."""
    return db.all(
        """
        SELECT holder FROM held WHERE NOT EXISTS (SELECT 1 FROM holder h WHERE h.id = holder)
        UNION SELECT holder FROM asking WHERE NOT EXISTS (SELECT 1 FROM holder h WHERE h.id = holder)
        """
    )


def asked_gates(db: Session, now: int) -> list[int]:
    """Return the gates at which wants wait and no wake is due."""
    rows = db.all(
        """
        SELECT g.id FROM gate g WHERE g.asking > 0
        AND NOT EXISTS (SELECT 1 FROM wake w WHERE w.gate = g.id AND w.at <= ?) LIMIT 100
        """,
        now,
    )
    return [gate for (gate,) in rows]
