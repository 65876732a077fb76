"""Statements about queues: their pauses, pools and bounds, and which tenants were served from them."""

from collections.abc import Iterable, Sequence

from penstock.job import Topic
from penstock.store.counts import BY_LANE
from penstock.store.session import Queue, Session
from penstock.store.statements import chosen

PoolRow = tuple[str, str, str, int | None]  # tenant, name, ordering, slots
BoundRow = tuple[str, str, int, str, int | None]  # tenant, queue, max_depth, strategy, warning

_BOUND = "tenant, queue, max_depth, strategy, warning"


def is_paused(db: Session, queue: Queue) -> bool:
    """Tell whether nothing may start from a queue of a tenant, or of all."""
    return db.one("SELECT 1 FROM queue_pause WHERE tenant IN (?, '') AND queue = ?", *queue) is not None


def pause(db: Session, queue: Queue, now: int) -> None:
    """Let nothing start from a queue of a tenant, or of all."""
    db.run(
        "INSERT INTO queue_pause (tenant, queue, at) VALUES (?, ?, ?) ON CONFLICT (queue, tenant) DO NOTHING",
        *queue,
        now,
    )


def has_pause(db: Session, queue: Queue) -> bool:
    """Tell whether a queue was paused, of this tenant or of all as it says."""
    return db.one("SELECT 1 FROM queue_pause WHERE tenant = ? AND queue = ?", *queue) is not None


def resume(db: Session, queue: Queue) -> int:
    """Let jobs start from a queue of a tenant again, or of all; return how many pauses that ended."""
    db.tell(Topic.WORK)
    return db.run("DELETE FROM queue_pause WHERE ? IN (tenant, '') AND queue = ?", *queue)


def counts(db: Session) -> list[tuple[str, str, int, int, int, int]]:
    """Return (tenant, queue, waiting, scheduled, running, paused) of every queue that has any of them."""
    return db.all(
        f"""
        SELECT tenant, queue, CAST(sum(waiting) AS BIGINT), CAST(sum(scheduled) AS BIGINT),
            CAST(sum(running) AS BIGINT), max(CASE WHEN paused = 1
            OR EXISTS (SELECT 1 FROM queue_pause p WHERE p.queue = parts.queue AND p.tenant = '') THEN 1 ELSE 0 END)
        FROM (
            SELECT '' AS tenant, queue, count(*) AS waiting, 0 AS scheduled, 0 AS running, 0 AS paused
                FROM ready GROUP BY queue
            UNION ALL SELECT n.tenant, n.queue, CASE WHEN c.state = 'waiting' THEN c.jobs ELSE 0 END,
                CASE WHEN c.state = 'scheduled' THEN c.jobs ELSE 0 END, 0, 0
                FROM ({BY_LANE}) AS c JOIN lane n ON n.id = c.lane
            UNION ALL SELECT j.tenant, j.queue, count(*), 0, 0, 0 FROM (
                SELECT seq FROM door UNION ALL SELECT seq FROM successor
            ) AS d JOIN job j ON j.seq = d.seq GROUP BY j.tenant, j.queue
            UNION ALL SELECT j.tenant, j.queue, 0, count(*), 0, 0 FROM scheduled s JOIN job j ON j.seq = s.seq
                GROUP BY j.tenant, j.queue
            UNION ALL SELECT j.tenant, j.queue, 0, 0, count(*), 0 FROM running r JOIN job j ON j.seq = r.seq
                GROUP BY j.tenant, j.queue
            UNION ALL SELECT tenant, queue, 0, 0, 0, 1 FROM queue_pause
            UNION ALL SELECT tenant, name, 0, 0, 0, 0 FROM gate WHERE kind = 'queue' AND rules IS NOT NULL
        ) AS parts WHERE queue <> '' GROUP BY tenant, queue ORDER BY queue, tenant
        """
    )


def running(db: Session, names: Sequence[str], tenant: str | None) -> dict[str, int]:
    """Return how many jobs of each of these queues run, of a tenant or of all."""
    asked = (
        "SELECT r.queue, count(*) FROM running r JOIN job j ON j.seq = r.seq WHERE {which} GROUP BY r.queue"
    )
    among = "r.queue IN (SELECT value FROM each(?))"
    if tenant is None:
        return dict(db.all(asked.format(which=among), names))
    return dict(db.all(asked.format(which=f"{among} AND j.tenant = ?"), names, tenant))


def serve(db: Session, rows: Iterable[tuple[str, str, int]]) -> None:
    """Remember which tenants were served last, given (queue, tenant, number), when the transaction ends."""
    db.last(
        """
        INSERT INTO served (queue, tenant, number) VALUES (?, ?, ?)
        ON CONFLICT (queue, tenant) DO UPDATE SET number = excluded.number
        """,
        rows,
    )


def forget_served(db: Session) -> None:
    """Forget when tenants were served that have no lanes any more."""
    db.run(
        """
        DELETE FROM served WHERE tenant <> ''
        AND NOT EXISTS (SELECT 1 FROM lane l WHERE l.tenant = served.tenant AND l.tenant <> '')
        """
    )


def pools(db: Session, tenant: str | None) -> list[PoolRow]:
    """Return (tenant, name, ordering, slots) of every pool, of one tenant or of all."""
    where, values = chosen(tenant=tenant)
    return db.all(f"SELECT tenant, name, ordering, slots FROM pool {where} ORDER BY tenant, name", *values)


def pool_queues(db: Session) -> list[tuple[str, str, str, int]]:
    """Return (tenant, pool, queue, weight) of every pool's queues, in order."""
    return db.all("SELECT tenant, pool, queue, weight FROM pool_queue ORDER BY tenant, pool, place")


def put_pool(db: Session, pool: PoolRow, rows: Iterable[tuple[str, int, int, int | None]]) -> None:
    """Add a pool or replace it, with its (queue, place, weight, gate)."""
    tenant, name, *_ = pool
    db.tell(Topic.WORK)
    db.run(
        """
        INSERT INTO pool (tenant, name, ordering, slots) VALUES (?, ?, ?, ?)
        ON CONFLICT (tenant, name) DO UPDATE SET ordering = excluded.ordering, slots = excluded.slots
        """,
        *pool,
    )
    db.run("DELETE FROM pool_queue WHERE tenant = ? AND pool = ?", tenant, name)
    db.many(
        "INSERT INTO pool_queue (queue, tenant, pool, place, weight, gate) VALUES (?, ?, ?, ?, ?, ?)",
        [(queue, tenant, name, place, weight, gate) for queue, place, weight, gate in rows],
    )


def delete_pool(db: Session, tenant: str, name: str) -> bool:
    """Delete a pool; tell whether there was one."""
    db.tell(Topic.WORK)
    db.run("DELETE FROM pool_queue WHERE tenant = ? AND pool = ?", tenant, name)
    return db.run("DELETE FROM pool WHERE tenant = ? AND name = ?", tenant, name) > 0


def bounds_of(db: Session, queues: Iterable[Queue]) -> list[BoundRow]:
    """Return the bounds of those of these queues that have one."""
    of_tenants: dict[str, set[str]] = {}
    for tenant, name in queues:
        of_tenants.setdefault(tenant, set()).add(name)
    rows: list[BoundRow] = []
    for tenant, names in sorted(of_tenants.items()):
        rows += db.all(
            f"""
            SELECT {_BOUND} FROM queue_bound
            WHERE queue IN (SELECT value FROM each(?)) AND tenant = ? ORDER BY queue
            """,
            sorted(names),
            tenant,
        )
    return rows


def bounds(db: Session) -> list[BoundRow]:
    """Return the bounds of all queues."""
    return db.all(f"SELECT {_BOUND} FROM queue_bound ORDER BY queue, tenant")


def put_bound(db: Session, bound: BoundRow) -> None:
    """Set the bound of a queue."""
    db.run(
        f"""
        INSERT INTO queue_bound ({_BOUND}) VALUES (?, ?, ?, ?, ?)
        ON CONFLICT (queue, tenant) DO UPDATE SET max_depth = excluded.max_depth, strategy = excluded.strategy,
            warning = excluded.warning
        """,
        *bound,
    )


def remove_bound(db: Session, queue: Queue) -> None:
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
        *[name, tenant] * 3,
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
        *[name, tenant] * 3,
        most,
    )
    return [row[0] for row in rows]
