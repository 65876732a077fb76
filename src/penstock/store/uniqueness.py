"""Statements about unique keys.  A key is judged by the state of its holders when somebody asks for it again."""

from collections.abc import Collection

from penstock.lifecycle.states import State
from penstock.store.session import Row, Session


def holders(db: Session, key: str) -> list[Row]:
    """Return (seq, id, states, until) of the jobs that took the key, the latest first."""
    return db.all(
        """
        SELECT u.seq, j.id, u.states, u.until FROM uniqueness u JOIN job j ON j.seq = u.seq
        WHERE u.key = ? ORDER BY u.seq DESC
        """,
        key,
    )


def take(db: Session, key: str, seq: int, states_: Collection[State], until: int | None) -> None:
    """Let a job stand for a key."""
    db.run(
        """
        INSERT INTO uniqueness (key, seq, states, until) VALUES (?, ?, ?, ?)
        ON CONFLICT (key, seq) DO UPDATE SET states = excluded.states, until = excluded.until
        """,
        key,
        seq,
        ",".join(sorted(states_)),
        until,
    )


def forget(db: Session, key: str, seq: int) -> None:
    """Let a job stand for a key no longer."""
    db.run("DELETE FROM uniqueness WHERE key = ? AND seq = ?", key, seq)


def states(text: str) -> frozenset[State]:
    """Read back the states that `take` wrote."""
    return frozenset(State(state) for state in text.split(",") if state)
