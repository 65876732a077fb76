"""Statements for people who look at gates: each reads a bounded number of rows.  Reads only."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from penstock.store.session import Row, Session
from penstock.store.views import LAST


class GateRow(NamedTuple):
    """The gate of a key; *waiting* jobs must pass it, counted up to a number."""

    id: int
    tenant: str
    name: str
    own: str | None  # the numbers that a lane brought which was deleted
    gates: str | None  # of the newest lane that passes it
    asking: int
    waiting: int
    floats: int


def after(
    db: Session, tenant: str | None, prefix: str, place: tuple[str, str], looked_at: int, most: int
) -> list[int]:
    """Return the gates of keys that come after a (tenant, name), of one tenant or of all, among so many."""
    last = prefix + LAST
    if tenant is not None:
        rows = db.all(
            """
            SELECT id FROM gate WHERE kind = 'key' AND tenant = ? AND name > ? AND name >= ? AND name < ?
            ORDER BY name LIMIT ?
            """,
            tenant, place[1], prefix, last, most,
        )  # fmt: skip
    else:
        rows = db.all(
            """
            SELECT id FROM (
                SELECT id, tenant, name FROM gate WHERE kind = 'key' AND (tenant, name) > (?, ?)
                ORDER BY tenant, name LIMIT ?
            ) AS g WHERE name >= ? AND name < ? ORDER BY tenant, name LIMIT ?
            """,
            *place, looked_at, prefix, last, most,
        )  # fmt: skip
    return [id_ for (id_,) in rows]


def place_after(db: Session, place: tuple[str, str], count: int) -> tuple[str, str] | None:
    """Return the (tenant, name) of the gate so many places after one; None if there are fewer."""
    return db.one(
        """
        SELECT tenant, name FROM gate WHERE kind = 'key' AND (tenant, name) > (?, ?)
        ORDER BY tenant, name LIMIT 1 OFFSET ?
        """,
        *place,
        count - 1,
    )


def rows(db: Session, ids: Sequence[int], counted: int) -> list[GateRow]:
    """Return these gates."""
    found = db.all(
        """
        SELECT g.id, g.tenant, g.name, g.own,
            (SELECT l.gates FROM lane_gate p JOIN lane l ON l.id = p.lane WHERE p.gate = g.id
                ORDER BY p.lane DESC LIMIT 1),
            g.asking,
            (SELECT count(*) FROM (SELECT 1 FROM lane_gate p JOIN lane_job w ON w.lane = p.lane
                WHERE p.gate = g.id LIMIT ?) AS counted),
            (SELECT count(*) FROM floating f WHERE f.gate = g.id)
        FROM gate g WHERE g.id IN (SELECT value FROM each(?))
        """,
        counted,
        list(ids),
    )
    return [GateRow(*row) for row in found]


def under_pressure(db: Session, tenant: str | None, looked_at: int, most: int) -> list[tuple[int, int, int]]:
    """Return (gate, jobs, since) of those that keep most of the jobs which have waited longest, so many of them."""
    return db.all(
        """
        SELECT l.behind, count(*), min(j.enqueued) FROM (
            SELECT seq, lane FROM lane_job ORDER BY seq LIMIT ?
        ) AS w JOIN lane l ON l.id = w.lane JOIN job j ON j.seq = w.seq JOIN gate g ON g.id = l.behind
        WHERE l.ready = 0 AND (g.tenant = ? OR ? = 0)
        GROUP BY l.behind ORDER BY count(*) DESC, l.behind LIMIT ?
        """,
        looked_at,
        tenant or "",
        int(tenant is not None),
        most,
    )


def named(db: Session, ids: Sequence[int]) -> list[tuple[int, str, str, str]]:
    """Return (id, kind, tenant, name) of these gates."""
    return db.all(
        "SELECT id, kind, tenant, name FROM gate WHERE id IN (SELECT value FROM each(?))", list(ids)
    )


def total(db: Session, tenant: str | None, counted: int) -> int:
    """Return how many keys have a gate, counted up to a number."""
    row = db.one(
        """
        SELECT count(*) FROM (
            SELECT 1 FROM gate WHERE kind = 'key' AND (tenant = ? OR ? = 0) LIMIT ?
        ) AS counted
        """,
        tenant or "",
        int(tenant is not None),
        counted,
    )
    return int(row[0]) if row else 0


def first_lanes(db: Session, gate: int, lines: int, most: int) -> list[int]:
    """Return the lanes that come first behind a gate, of so many lines."""
    names = db.all(
        "SELECT DISTINCT line FROM lane WHERE ready = 0 AND behind = ? ORDER BY line LIMIT ?", gate, lines
    )
    found: list[tuple[int, int, int]] = []
    for (name,) in names:
        found += db.all(
            """
            SELECT -priority, ord, id FROM lane WHERE line = ? AND line IS NOT NULL AND ready = 0
            ORDER BY priority DESC, ord LIMIT ?
            """,
            name,
            most,
        )
    return [lane for _, _, lane in sorted(found)[:most]]


# Of a job *j*: an instance stands in no queue.
_WORKFLOW: Final = "CASE WHEN j.queue = '' THEN (SELECT i.workflow FROM instance i WHERE i.seq = j.seq) END"


class Waiter(NamedTuple):
    """A job that stands in line."""

    seq: int
    lane: int
    cost: int
    costs: str | None
    id: str
    task: str
    args: str
    meta: str
    enqueued: int
    workflow: str | None  # of an instance


def first_in_lanes(db: Session, lanes: Sequence[int], most: int) -> list[Waiter]:
    """Return the first jobs of lanes, in the order in which they start."""
    found: list[Row] = []
    for lane in lanes:
        found += db.all(
            f"""
            SELECT -w.priority, w.ord, w.seq, w.lane, w.cost, w.costs, j.id, j.task, j.args, j.meta, j.enqueued,
                {_WORKFLOW}
            FROM lane_job w JOIN job j ON j.seq = w.seq WHERE w.lane = ? ORDER BY w.priority DESC, w.ord LIMIT ?
            """,
            lane,
            most,
        )
    return [Waiter(*row[2:]) for row in sorted(found)[:most]]


def through(
    db: Session, gate: int, looked_at: int, most: int
) -> list[tuple[str, str, str, str, int, str | None]]:
    """Return (id, tenant, task, worker, started, workflow) of what holds a slot of a gate, the oldest first."""
    return db.all(
        f"""
        SELECT j.id, j.tenant, j.task, r.worker, r.started, {_WORKFLOW} FROM (SELECT * FROM running LIMIT ?) AS r
        JOIN job j ON j.seq = r.seq WHERE ',' || r.gates || ',' LIKE ? ORDER BY r.started LIMIT ?
        """,
        looked_at,
        f"%,{gate},%",
        most,
    )


def elsewhere(db: Session, gate: int, looked_at: int, most: int) -> list[tuple[int, int]]:
    """Return (gate, jobs) of those behind which jobs are kept that need this gate too, among so many lanes' jobs."""
    return db.all(
        """
        SELECT behind, count(*) FROM (
            SELECT l.behind FROM lane_gate p JOIN lane l ON l.id = p.lane JOIN lane_job w ON w.lane = l.id
            WHERE p.gate = ? AND l.ready = 0 AND l.behind <> ? LIMIT ?
        ) AS kept GROUP BY behind ORDER BY count(*) DESC, behind LIMIT ?
        """,
        gate,
        gate,
        looked_at,
        most,
    )


def held(db: Session, gate: int, counted: int) -> tuple[int, int | None]:
    """Return how many jobs this gate itself keeps, counted up to a number, and when the oldest of those came."""
    row = db.one(
        """
        SELECT count(*), min(j.enqueued) FROM (
            SELECT w.seq FROM lane l JOIN lane_job w ON w.lane = l.id WHERE l.ready = 0 AND l.behind = ? LIMIT ?
        ) AS kept JOIN job j ON j.seq = kept.seq
        """,
        gate,
        counted,
    )
    return (0, None) if row is None else (int(row[0]), row[1])
