"""Statements about the bounds of queues."""

from collections.abc import Iterable

from penstock.store.session import Queue, Session

BoundRow = tuple[str, str, int, str, int | None]  # tenant, queue, max_depth, strategy, warning

_COLUMNS = "tenant, queue, max_depth, strategy, warning"


def of(db: Session, queues: Iterable[Queue]) -> list[BoundRow]:
    """Return the bounds of those of these queues that have one."""
    of_tenants: dict[str, set[str]] = {}
    for tenant, name in queues:
        of_tenants.setdefault(tenant, set()).add(name)
    rows: list[BoundRow] = []
    for tenant, names in sorted(of_tenants.items()):
        rows += db.all(
            f"""
            SELECT {_COLUMNS} FROM queue_bound
            WHERE queue IN (SELECT value FROM each(?)) AND tenant = ? ORDER BY queue
            """,
            sorted(names),
            tenant,
        )
    return rows


def every(db: Session) -> list[BoundRow]:
    """Return the bounds of all queues."""
    return db.all(f"SELECT {_COLUMNS} FROM queue_bound ORDER BY queue, tenant")


def put(db: Session, queue: Queue, max_depth: int, strategy: str, warning: int | None) -> None:
    """Set the bound of a queue."""
    db.run(
        f"""
        INSERT INTO queue_bound ({_COLUMNS}) VALUES (?, ?, ?, ?, ?)
        ON CONFLICT (queue, tenant) DO UPDATE SET max_depth = excluded.max_depth, strategy = excluded.strategy,
            warning = excluded.warning
        """,
        *queue,
        max_depth,
        strategy,
        warning,
    )


def remove(db: Session, queue: Queue) -> None:
    """Remove the bound of a queue."""
    db.run("DELETE FROM queue_bound WHERE tenant = ? AND queue = ?", *queue)


def depth(db: Session, queue: Queue) -> int:
    """Return how many jobs of a queue wait or are scheduled."""
    tenant, name = queue
    row = db.one(
        """
        SELECT (SELECT count(*) FROM ready WHERE queue = ? AND ? = '')
            + (SELECT count(*) FROM lane l JOIN lane_job j ON j.lane = l.id WHERE l.queue = ? AND l.tenant = ?)
            + (SELECT count(*) FROM (SELECT seq FROM door UNION ALL SELECT seq FROM scheduled
                UNION ALL SELECT seq FROM successor) AS s
                JOIN job j ON j.seq = s.seq WHERE j.queue = ? AND j.tenant = ?)
        """,
        name,
        tenant,
        name,
        tenant,
        name,
        tenant,
    )
    return int(row[0]) if row else 0


def oldest(db: Session, queue: Queue, most: int) -> list[int]:
    """Return the jobs of a queue that have waited longest."""
    tenant, name = queue
    rows = db.all(
        """
        SELECT seq FROM (
            SELECT seq FROM ready WHERE queue = ? AND ? = ''
            UNION ALL SELECT j.seq FROM lane l JOIN lane_job j ON j.lane = l.id
                WHERE l.queue = ? AND l.tenant = ?
            UNION ALL SELECT d.seq FROM door d JOIN job j ON j.seq = d.seq
                WHERE j.queue = ? AND j.tenant = ?
        ) AS waiting ORDER BY seq LIMIT ?
        """,
        name,
        tenant,
        name,
        tenant,
        name,
        tenant,
        most,
    )
    return [row[0] for row in rows]
