"""Statements about the bounds of queues."""

from collections.abc import Sequence

from penstock.store.session import Session

BoundRow = tuple[str, int, str, int | None]  # queue, max_depth, strategy, warning


def of(db: Session, queues: Sequence[str]) -> list[BoundRow]:
    """Return the bounds of those of these queues that have one."""
    return db.all(
        """
        SELECT queue, max_depth, strategy, warning FROM bound
        WHERE queue IN (SELECT value FROM each(?)) ORDER BY queue
        """,
        queues,
    )


def every(db: Session) -> list[BoundRow]:
    """Return the bounds of all queues."""
    return db.all("SELECT queue, max_depth, strategy, warning FROM bound ORDER BY queue")


def put(db: Session, queue: str, max_depth: int, strategy: str, warning: int | None) -> None:
    """Set the bound of a queue."""
    db.run(
        """
        INSERT INTO bound (queue, max_depth, strategy, warning) VALUES (?, ?, ?, ?)
        ON CONFLICT (queue) DO UPDATE SET max_depth = excluded.max_depth, strategy = excluded.strategy,
            warning = excluded.warning
        """,
        queue,
        max_depth,
        strategy,
        warning,
    )


def remove(db: Session, queue: str) -> None:
    """Remove the bound of a queue."""
    db.run("DELETE FROM bound WHERE queue = ?", queue)


def depth(db: Session, queue: str) -> int:
    """Return how many jobs of a queue wait or are scheduled."""
    row = db.one(
        """
        SELECT (SELECT count(*) FROM ready WHERE queue = ?)
            + (SELECT count(*) FROM lane l JOIN lane_job j ON j.lane = l.id WHERE l.queue = ?)
            + (SELECT count(*) FROM door d JOIN job j ON j.seq = d.seq WHERE j.queue = ?)
            + (SELECT count(*) FROM scheduled s JOIN job j ON j.seq = s.seq WHERE j.queue = ?)
            + (SELECT count(*) FROM successor s JOIN job j ON j.seq = s.seq WHERE j.queue = ?)
        """,
        queue,
        queue,
        queue,
        queue,
        queue,
    )
    return int(row[0]) if row else 0


def oldest(db: Session, queue: str, most: int) -> list[int]:
    """Return the jobs of a queue that have waited longest."""
    rows = db.all(
        """
        SELECT seq FROM (
            SELECT seq FROM ready WHERE queue = ?
            UNION ALL SELECT j.seq FROM lane l JOIN lane_job j ON j.lane = l.id WHERE l.queue = ?
            UNION ALL SELECT d.seq FROM door d JOIN job j ON j.seq = d.seq WHERE j.queue = ?
        ) AS waiting ORDER BY seq LIMIT ?
        """,
        queue,
        queue,
        queue,
        most,
    )
    return [row[0] for row in rows]
