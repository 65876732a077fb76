"""Statements about queues."""

from penstock.store.session import Row, Session, Topic


def terms(db: Session, queues: list[str]) -> list[Row]:
    """Return what must be known to start jobs: ('paused', queue, 0), ('queue', name, gate), ('type', name, gate).

    Of the types, only those about which something was decided.
    """
    return db.all(
        """
        SELECT 'paused', p.queue, 0 FROM each(?) e CROSS JOIN paused p WHERE p.queue = e.value
        UNION ALL SELECT g.kind, g.name, g.id FROM each(?) e CROSS JOIN gate g
            WHERE g.kind = 'queue' AND g.tenant = '' AND g.name = e.value
        UNION ALL SELECT kind, name, id FROM gate WHERE kind = 'type' AND rules IS NOT NULL
        """,
        queues,
        queues,
    )


def is_paused(db: Session, queue: str) -> bool:
    """Tell whether nothing may start from a queue."""
    return db.one("SELECT 1 FROM paused WHERE queue = ?", queue) is not None


def pause(db: Session, queue: str, now: int) -> None:
    """Let nothing start from a queue."""
    db.run("INSERT INTO paused (queue, at) VALUES (?, ?) ON CONFLICT (queue) DO NOTHING", queue, now)


def resume(db: Session, queue: str) -> None:
    """Let jobs start from a queue again."""
    db.tell(Topic.WORK)
    db.run("DELETE FROM paused WHERE queue = ?", queue)


def counts(db: Session) -> list[Row]:
    """Return (queue, waiting, running, paused) of every queue that has any of them."""
    return db.all(
        """
        SELECT queue, CAST(sum(waiting) AS BIGINT), CAST(sum(running) AS BIGINT), max(paused) FROM (
            SELECT queue, count(*) AS waiting, 0 AS running, 0 AS paused FROM ready GROUP BY queue
            UNION ALL SELECT l.queue, count(*), 0, 0 FROM line j JOIN lane l ON l.id = j.lane GROUP BY l.queue
            UNION ALL SELECT j.queue, count(*), 0, 0 FROM door d JOIN job j ON j.seq = d.seq GROUP BY j.queue
            UNION ALL SELECT queue, 0, count(*), 0 FROM running GROUP BY queue
            UNION ALL SELECT queue, 0, 0, 1 FROM paused
            UNION ALL SELECT name, 0, 0, 0 FROM gate WHERE kind = 'queue' AND rules IS NOT NULL
        ) AS parts GROUP BY queue ORDER BY queue
        """
    )
