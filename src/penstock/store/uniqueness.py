"""Statements about unique keys.  The engine judges a key by the state of its holders when a job brings it again."""

from collections.abc import Collection
from typing import NamedTuple

from penstock.lifecycle.states import State
from penstock.store.session import Session


class KeyHolder(NamedTuple):
    """A job that took a unique key."""

    seq: int
    id: str
    states: str  # in which it stands for the key
    until: int | None
    since: int | None  # when the first call came, if it waits for a pause in them


def holders(db: Session, key: str) -> list[KeyHolder]:
    """Return the jobs that took the key, the latest first."""
    rows = db.all(
        """
        SELECT u.seq, j.id, u.states, u.until, u.since FROM uniqueness u JOIN job j ON j.seq = u.seq
        WHERE u.key = ? ORDER BY u.seq DESC
        """,
        key,
    )
    return [KeyHolder(*row) for row in rows]


def earlier(db: Session, seq: int) -> list[KeyHolder]:
    """Return the jobs that took the key of this one before it, the latest first."""
    rows = db.all(
        """
        SELECT e.seq, j.id, e.states, e.until, e.since
        FROM uniqueness u JOIN uniqueness e ON e.key = u.key AND e.seq < u.seq JOIN job j ON j.seq = e.seq
        WHERE u.seq = ? ORDER BY e.seq DESC
        """,
        seq,
    )
    return [KeyHolder(*row) for row in rows]


def seqs(db: Session, keys: Collection[str]) -> list[int]:
    """Return the jobs that took any of these keys."""
    rows = db.all("SELECT seq FROM uniqueness WHERE key IN (SELECT value FROM each(?))", sorted(keys))
    return [seq for (seq,) in rows]


def take(
    db: Session, key: str, seq: int, states_: Collection[State], until: int | None, since: int | None = None
) -> None:
    """Let a job stand for a key, for calls that have come *since* then if it waits for a pause in them."""
    db.run(
        """
        INSERT INTO uniqueness (key, seq, states, until, since) VALUES (?, ?, ?, ?, ?)
        ON CONFLICT (key, seq) DO UPDATE SET states = excluded.states, until = excluded.until, since = excluded.since
        """,
        key,
        seq,
        ",".join(sorted(states_)),
        until,
        since,
    )


def since(db: Session, seq: int) -> int | None:
    """Return since when the calls have come in which a job waits for a pause, if it does."""
    row = db.one("SELECT since FROM uniqueness WHERE seq = ?", seq)
    return None if row is None else row[0]


def set_since(db: Session, seq: int, since_: int) -> None:
    """Note since when the calls have come in which a job waits for a pause."""
    db.run("UPDATE uniqueness SET since = ? WHERE seq = ?", since_, seq)


def forget(db: Session, seq: int) -> None:
    """Let a job stand for its key no longer."""
    db.run("DELETE FROM uniqueness WHERE seq = ?", seq)


def twice(db: Session) -> list[tuple[str, int]]:
    """Return (key, jobs) of the keys for which more than one job stands that lets no other stand beside it."""
    return db.all(
        """
        SELECT u.key, count(*) FROM uniqueness u JOIN (
            SELECT seq FROM scheduled UNION ALL SELECT seq FROM ready UNION ALL SELECT seq FROM lane_job
            UNION ALL SELECT seq FROM running UNION ALL SELECT seq FROM door WHERE replaces IS NULL
        ) AS p ON p.seq = u.seq
        WHERE u.until IS NULL AND u.states LIKE '%running%scheduled%waiting%'
        GROUP BY u.key HAVING count(*) > 1 LIMIT 100
        """
    )


def states(text: str) -> frozenset[State]:
    """Read back the states that `take` wrote."""
    return frozenset(State(state) for state in text.split(",") if state)
