"""Statements about successors: the latest calls of unique keys whose jobs run."""

from typing import Final, NamedTuple

from penstock.job import Topic
from penstock.store.session import Session


class Successor(NamedTuple):
    """A job that waits for the end of an earlier one."""

    earlier: int
    seq: int
    ord: int
    due: int
    id: str


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
    db.run("INSERT INTO successor (seq, earlier, ord, due) VALUES (?, ?, ?, ?)", seq, earlier, ord_, due)


def replace(db: Session, old: int, new: int, due: int) -> bool:
    """Have another wait in the place of a successor; False if that one waits no more."""
    return db.run("UPDATE successor SET seq = ?, due = ? WHERE seq = ?", new, due, old) > 0


def take(db: Session, earlier: list[int]) -> list[Successor]:
    """Delete and return the successors of these jobs."""
    rows = db.all(
        "DELETE FROM successor WHERE earlier IN (SELECT value FROM each(?)) RETURNING earlier, seq, ord, due",
        earlier,
    )
    # In a statement of its own: the one above may have waited for a successor that it knows nothing else of.
    ids: dict[int, str] = dict(
        db.all("SELECT seq, id FROM job WHERE seq IN (SELECT value FROM each(?))", [row[1] for row in rows])
    )
    return [Successor(earlier_, seq, ord_, due, ids[seq]) for earlier_, seq, ord_, due in rows]


def waits_for(db: Session, seq: int) -> tuple[str, int] | None:
    """Return the (id, due) of the job for whose end this one waits, and when it is due itself."""
    return db.one("SELECT j.id, s.due FROM successor s JOIN job j ON j.seq = s.earlier WHERE s.seq = ?", seq)


_FORSAKEN: Final = """
    NOT EXISTS (SELECT 1 FROM running r WHERE r.seq = successor.earlier AND r.has_successor = 1) LIMIT 100
"""


def forsaken(db: Session) -> list[tuple[str, int]]:
    """Return (id, earlier) of the successors whose earlier job does not run, or does not know of them."""
    return db.all(
        f"SELECT j.id, successor.earlier FROM successor JOIN job j ON j.seq = successor.seq WHERE {_FORSAKEN}"
    )


def to_door(db: Session) -> None:
    """Move forsaken successors to the door, where they find their place like any job that comes.

    A process of an older version ends attempts and knows nothing of successors.
    """
    rows = db.all(f"SELECT seq, earlier, due FROM successor WHERE {_FORSAKEN}")
    if rows:
        db.tell(Topic.WORK)
        db.many("DELETE FROM successor WHERE seq = ?", [(seq,) for seq, _, _ in rows])
        db.many("INSERT INTO door (seq, attempt, lost, replaces, due) VALUES (?, 0, 0, ?, ?)", rows)
