"""Statements about parts: where the jobs of a task stand apart in a queue, because some worker does not know it."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from penstock.clock import SECOND
from penstock.job import Topic, UnknownTask
from penstock.lifecycle.knowledge import part_of
from penstock.store.session import Session

FRESH: Final = 20 * SECOND  # how often, at most, it is written down that a task is known or refused


class ArrivalRules(NamedTuple):
    """What decides where jobs stand that arrive: the gates of types, and the (queue, task) whose jobs stand apart."""

    type_gates: dict[str, int]
    parts: set[tuple[str, str]]


def arrival_rules(db: Session, queues: list[str], refused_after: int) -> ArrivalRules:
    """Return what decides where jobs that arrive in *queues* stand; parts that were *refused_after* then."""
    found = ArrivalRules({}, set())
    for what, queue, name, number in db.all(
        """
        SELECT 'type', '', name, id FROM gate WHERE kind = 'type' AND rules IS NOT NULL
        UNION ALL
        SELECT 'part', queue, task, 0 FROM task_part WHERE queue IN (SELECT value FROM each(?)) AND refused_at > ?
        """,
        queues,
        refused_after,
    ):
        if what == "type":
            found.type_gates[name] = number
        else:
            found.parts.add((queue, name))
    return found


def note(db: Session, pairs: Iterable[tuple[str, str]], now: int) -> None:
    """Note (queue, task) whose jobs stand apart from *now* on, unless they do."""
    db.many(
        """
        INSERT INTO task_part (queue, task, part, refused_at, known_at) VALUES (?, ?, ?, ?, ?)
        ON CONFLICT (queue, task) DO NOTHING
        """,
        [(queue, task, part_of(task), now, now) for queue, task in sorted(pairs)],
    )


def refused(db: Session, pairs: Iterable[tuple[str, str]], now: int) -> None:
    """Note when a claim last met a job of these (queue, task) and did not know it."""
    _touch(db, "refused_at", pairs, now)


def known(db: Session, pairs: Iterable[tuple[str, str]], now: int) -> None:
    """Note when a claim last asked for these (queue, task)."""
    _touch(db, "known_at", pairs, now)


def _touch(db: Session, column: str, pairs: Iterable[tuple[str, str]], now: int) -> None:
    """Set the time of parts, but for those that another transaction changes: none waits for another here."""
    for queue, task in sorted(pairs):
        db.run(
            f"""
            UPDATE task_part SET {column} = ? WHERE queue = ? AND task IN (
                SELECT task FROM task_part WHERE queue = ? AND task = ? AND {column} <= ? FOR UPDATE SKIP LOCKED)
            """,
            now,
            queue,
            queue,
            task,
            now - FRESH,
        )


def set_apart(db: Session, jobs: Iterable[tuple[int, str]]) -> None:
    """Move jobs without limits, as (seq, task), to the parts of their tasks."""
    db.tell(Topic.WORK)
    db.many("UPDATE ready SET part = ? WHERE seq = ?", [(part_of(task), seq) for seq, task in jobs])


def change_lane(db: Session, lane: int, task: str, to: int, most: int) -> list[int]:
    """Move the jobs of a task among the first *most* of a lane to another lane; return them."""
    rows = db.all(
        """
        UPDATE lane_job SET lane = ? WHERE seq IN EVERY (
            SELECT f.seq FROM (
                SELECT seq FROM lane_job WHERE lane = ? ORDER BY priority DESC, ord LIMIT ?) AS f
            JOIN job j ON j.seq = f.seq WHERE j.task = ?)
        RETURNING seq
        """,
        to,
        lane,
        most,
        task,
    )
    return [seq for (seq,) in rows]


_NO_JOBS: Final = """
    NOT EXISTS (SELECT 1 FROM ready r WHERE r.queue = task_part.queue AND r.part = task_part.part)
    AND NOT EXISTS (SELECT 1 FROM lane l
        WHERE l.queue = task_part.queue AND l.part = task_part.part AND l.part <> '' AND l.head IS NOT NULL)
"""


def are_unused(db: Session, refused_before: int) -> bool:
    """Tell whether there are parts without jobs that no claim has refused since then."""
    return (
        db.one(f"SELECT 1 FROM task_part WHERE refused_at <= ? AND {_NO_JOBS} LIMIT 1", refused_before)
        is not None
    )


def forget_unused(db: Session, refused_before: int) -> int:
    """Delete the parts without jobs that no claim has refused since then."""
    return db.run(f"DELETE FROM task_part WHERE refused_at <= ? AND {_NO_JOBS}", refused_before)


def unasked(db: Session, known_before: int, most: int) -> list[UnknownTask]:
    """Return the tasks with jobs that no claim has asked for since then; jobs are counted up to *most*."""
    rows = db.all(
        """
        SELECT p.queue, p.task, p.known_at,
            (SELECT count(*) FROM (
                SELECT 1 FROM ready r WHERE r.queue = p.queue AND r.part = p.part LIMIT ?) AS f)
            + (SELECT count(*) FROM (
                SELECT 1 FROM lane l JOIN lane_job j ON j.lane = l.id
                WHERE l.queue = p.queue AND l.part = p.part AND l.part <> '' LIMIT ?) AS g) AS jobs
        FROM task_part p WHERE p.known_at <= ? ORDER BY p.queue, p.task
        """,
        most,
        most,
        known_before,
    )
    return [UnknownTask(*row) for row in rows if row[-1]]


def known_at(db: Session, queue: str, task: str) -> int | None:
    """Return when a claim last asked for a task whose jobs stand apart in a queue."""
    row = db.one("SELECT known_at FROM task_part WHERE queue = ? AND task = ?", queue, task)
    return None if row is None else int(row[0])


def misplaced(db: Session) -> list[tuple[str, str, str, int]]:
    """Return (queue, part, task, how many) of jobs that stand in a part of another task, or in one not noted."""
    return db.all(
        """
        SELECT w.queue, w.part, j.task, count(*) FROM (
            SELECT seq, queue, part FROM ready WHERE part <> ''
            UNION ALL SELECT x.seq, l.queue, l.part FROM lane l JOIN lane_job x ON x.lane = l.id WHERE l.part <> ''
        ) AS w JOIN job j ON j.seq = w.seq LEFT JOIN task_part p ON p.queue = w.queue AND p.part = w.part
        WHERE p.task IS NULL OR j.task <> p.task GROUP BY w.queue, w.part, j.task ORDER BY w.queue, w.part, j.task
        """
    )
