"""Statements about successors: the latest calls of unique keys whose jobs run."""

from typing import Final

from penstock.job import Topic
from penstock.store.session import Row, Session


def announce(db: Session, earlier: int) -> bool:
    """Have the end of a running attempt look for a successor; False if it does not run.

    The row itself is changed, so that a transaction which ends the attempt at this moment sees it.
    """
    return db.run("UPDATE running SET has_successor = 1 WHERE seq = ?", earlier) > 0


def of(db: Session, earlier: int) -> int | None:
    """Return the job that waits for this one to end."""
    row = db.one("SELECT seq FROM successor WHERE earlier = ?", earlier)
    return None if row is None else int(row[0])


def add(db: Session, seq: int, earlier: int, ord_: int, due: int) -> None:
    """Have a job wait until an earlier one has ended."""
    db.run(
        "INSERT INTO successor (seq, earlier, ord, due) VALUES (?, ?, ?, ?)",
        seq,
        earlier,
        ord_,
        due,
    )


def replace(db: Session, old: int, new: int, due: int) -> bool:
    """Have another wait in the place of a successor; False if that one waits no more."""
    return db.run("UPDATE successor SET seq = ?, due = ? WHERE seq = ?", new, due, old) > 0


def take(db: Session, earlier: list[int]) -> list[Row]:
    """Take the successors of these jobs away; return their (earlier, seq, ord, due, id)."""
    rows = db.all(
        "DELETE FROM successor WHERE earlier IN (SELECT value FROM each(?)) RETURNING earlier, seq, ord, due",
        earlier,
    )
    # In a statement of its own: the one above may have waited for a successor that it knows nothing else of.
    ids: dict[int, str] = dict(
        db.all("SELECT seq, id FROM job WHERE seq IN (SELECT value FROM each(?))", [row[1] for row in rows])
    )
    return [(*row, ids[row[1]]) for row in rows]


def waits_for(db: Session, seq: int) -> Row | None:
    """Return the (id, due) of the job for whose end this one waits, and when it is due itself."""
    return db.one("SELECT j.id, s.due FROM successor s JOIN job j ON j.seq = s.earlier WHERE s.seq = ?", seq)


_FORSAKEN: Final = """
    NOT EXISTS (SELECT 1 FROM running r WHERE r.seq = successor.earlier AND r.has_successor = 1) LIMIT 100
"""


def forsaken(db: Session) -> list[Row]:
    """Return (id, earlier) of the successors whose earlier job does not run, or does not know of them."""
    return db.all(
        f"SELECT j.id, successor.earlier FROM successor JOIN job j ON j.seq = successor.seq WHERE {_FORSAKEN}"
    )


def to_door(db: Session) -> None:
    """Have those who were forsaken find their place like any that come.

    A process of an older version, which ends an attempt, knows of no successors.
    """
    rows = db.all(f"SELECT seq, earlier, due FROM successor WHERE {_FORSAKEN}")
    if rows:
        db.tell(Topic.WORK)
        db.many("DELETE FROM successor WHERE seq = ?", [(seq,) for seq, _, _ in rows])
        db.many("INSERT INTO door (seq, attempt, lost, replaces, due) VALUES (?, 0, 0, ?, ?)", rows)
