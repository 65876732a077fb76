"""Statements about attempts that ended: a row for each that ended otherwise than done; `done` has the one that did."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from penstock.store.session import Session


class EndedAttempt(NamedTuple):
    """An attempt that ended, as it is stored."""

    seq: int
    number: int
    attempt: int
    outcome: str
    started: int | None  # when it was claimed
    began: int | None  # when its handler began, if its worker told
    ended: int | None
    worker: str
    gates: str  # in which it held a slot
    behind: int | None  # the gate in whose line its job stood when it started
    reason: str
    error: str | None
    retried: int | None = None  # when its job was retried by hand after it


class LastAttempt(NamedTuple):
    """The attempt of a job that runs, or that ended done; *state* is None while it runs."""

    state: str | None
    attempt: int
    started: int | None
    began: int | None
    ended: int | None
    worker: str | None  # unknown of one that ended before this was kept
    gates: str | None
    behind: int | None
    result: str | None


_COLUMNS = (
    "seq, number, attempt, outcome, started, began, ended, worker, gates, behind, reason, error, retried"
)


def numbers(db: Session, seqs: list[int]) -> dict[int, int]:
    """Return the number of the last of each job's attempts that has a row."""
    return dict(
        db.all(
            "SELECT seq, max(number) FROM attempt WHERE seq IN (SELECT value FROM each(?)) GROUP BY seq", seqs
        )
    )


def add(db: Session, rows: Iterable[EndedAttempt]) -> None:
    """Add attempts that ended."""
    db.many(f"INSERT INTO attempt ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)


def forget(db: Session, rows: Iterable[tuple[int, int]]) -> None:
    """Delete the attempts of these (seq, number)."""
    db.many("DELETE FROM attempt WHERE seq = ? AND number = ?", rows)


def retried(db: Session, seq: int, now: int) -> None:
    """Note at the last attempt of a job that the job was retried by hand."""
    db.run(
        """
        UPDATE attempt SET retried = ? WHERE seq = ?
        AND number = (SELECT max(a.number) FROM attempt a WHERE a.seq = ?)
        """,
        now,
        seq,
        seq,
    )


def of(db: Session, seq: int) -> list[EndedAttempt]:
    """Return the attempts of a job that have a row, the first one first."""
    rows = db.all(f"SELECT {_COLUMNS} FROM attempt WHERE seq = ? ORDER BY number", seq)
    return [EndedAttempt(*row) for row in rows]


def last(db: Session, seq: int) -> LastAttempt | None:
    """Return the attempt of a job that runs, or that ended done."""
    row = db.one(
        """
        SELECT NULL, attempt, started, NULL, NULL, worker, gates, behind, NULL FROM running WHERE seq = ?
        UNION ALL
        SELECT state, attempt, started, began, finished, worker, gates, behind, result FROM done
        WHERE seq = ? AND state = 'done' AND (started IS NOT NULL OR worker IS NOT NULL)
        """,
        seq,
        seq,
    )
    return None if row is None else LastAttempt(*row)


def failures(db: Session, seq: int) -> list[tuple[int, int, str]]:
    """Return (attempt, at, error) of the attempts of a job that left an error."""
    return db.all(
        "SELECT attempt, ended, error FROM attempt WHERE seq = ? AND error IS NOT NULL ORDER BY number", seq
    )


def gate_names(db: Session, gates: Sequence[int]) -> dict[int, tuple[str, str]]:
    """Return the (kind, name) of those of these gates that exist."""
    rows = db.all("SELECT id, kind, name FROM gate WHERE id IN (SELECT value FROM each(?))", list(gates))
    return {gate: (kind, name) for gate, kind, name in rows}


def orphans(db: Session) -> list[tuple[int, int]]:
    """Return (seq, how many) of attempts without a job."""
    return db.all(
        """
        SELECT a.seq, count(*) FROM attempt a WHERE NOT EXISTS (SELECT 1 FROM job j WHERE j.seq = a.seq)
        GROUP BY a.seq ORDER BY a.seq LIMIT 100
        """
    )


def gaps(db: Session) -> list[tuple[str, int, int]]:
    """Return (id, kept, last number) of the jobs whose attempts are not numbered one after the other."""
    return db.all(
        """
        SELECT j.id, count(*), max(a.number) FROM attempt a JOIN job j ON j.seq = a.seq
        GROUP BY j.id HAVING max(a.number) - min(a.number) + 1 <> count(*) ORDER BY j.id LIMIT 100
        """
    )
