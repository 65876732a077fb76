"""Statements that count what a change would touch, up to a number.  Reads only."""

from penstock.store.session import Queue, Session

_PLACES = ("scheduled", "door", "successor", "running")


def of_gate(db: Session, tenant: str, key: str, most: int) -> int:
    """Return how many jobs wait at the gate of a key or hold a slot of it."""
    row = db.one(
        """
        SELECT g.running + (SELECT count(*) FROM (
            SELECT 1 FROM lane_gate p JOIN lane_job w ON w.lane = p.lane WHERE p.gate = g.id LIMIT ?
        ) AS counted) FROM gate g WHERE g.kind = 'key' AND g.tenant = ? AND g.name = ?
        """,
        most,
        tenant,
        key,
    )
    return 0 if row is None else int(row[0])


def of_queue(db: Session, queue: Queue, most: int) -> tuple[int, bool]:
    """Return how many jobs of a queue have not ended, and whether there may be more.

    Of each place where jobs of all queues stand only so many are looked at.
    """
    tenant, name = queue
    counted = [
        db.one(
            """
            SELECT count(*), count(*) FROM (
                SELECT 1 FROM ready r JOIN job j ON j.seq = r.seq
                WHERE r.queue = ? AND (j.tenant = ? OR ? = '') LIMIT ?
            ) AS counted
            """,
            name, tenant, tenant, most,
        ),
        db.one(
            """
            SELECT count(*), count(*) FROM (
                SELECT 1 FROM lane l JOIN lane_job w ON w.lane = l.id
                WHERE l.queue = ? AND (l.tenant = ? OR ? = '') LIMIT ?
            ) AS counted
            """,
            name, tenant, tenant, most,
        ),
        *(
            db.one(
                f"""
                SELECT sum(CASE WHEN j.queue = ? AND (j.tenant = ? OR ? = '') THEN 1 ELSE 0 END), count(*)
                FROM (SELECT seq FROM {place} LIMIT ?) AS looked JOIN job j ON j.seq = looked.seq
                """,
                name, tenant, tenant, most,
            )
            for place in _PLACES
        ),
    ]  # fmt: skip
    rows = [(int(row[0] or 0), int(row[1])) for row in counted if row is not None]
    return sum(jobs for jobs, _ in rows), any(looked >= most for _, looked in rows)
