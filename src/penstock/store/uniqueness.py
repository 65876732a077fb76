"""Statements about unique keys.  A key is judged by the state of its holder when somebody asks for it again."""

from collections.abc import Collection

from penstock.lifecycle.states import State
from penstock.store.session import Row, Session


def holder(db: Session, key: str) -> Row | None:
    """Return (seq, id, states, until) of the job that took the key last."""
    return db.one(
        """
        SELECT u.seq, j.id, u.states, u.until FROM uniqueness u JOIN job j ON j.seq = u.seq
        WHERE u.key = ? FOR UPDATE
        """,
        key,
    )


def take(db: Session, key: str, seq: int, states_: Collection[State], until: int | None) -> None:
    """Let a job stand for a key."""
    db.run(
        """
        INSERT INTO uniqueness (key, seq, states, until) VALUES (?, ?, ?, ?)
        ON CONFLICT (key) DO UPDATE SET seq = excluded.seq, states = excluded.states, until = excluded.until
        """,
        key,
        seq,
        ",".join(sorted(states_)),
        until,
    )


def states(text: str) -> frozenset[State]:
    """Read back the states that `take` wrote."""
    return frozenset(State(state) for state in text.split(",") if state)
