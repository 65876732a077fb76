"""What a claim must know before it looks at any job, read in one statement."""

from collections import defaultdict
from itertools import chain
from typing import Any, Final, NamedTuple

from penstock.store.session import Queue, Row, Session


class ClaimSnapshot(NamedTuple):
    """What is due by the clock, what rules the queues, and where jobs can be found."""

    moments: dict[str, int]  # when a gate opens, a lease ends, a job is due or expires, a schedule fires
    at_door: bool
    maintenance: bool  # nothing may start
    paused: set[Queue]
    queue_gates: dict[Queue, list[int]]  # its tenant's own, and that of all tenants
    pool_gates: dict[Queue, list[int]]  # of the pools that a queue belongs to and that have a number of slots
    type_gates: dict[str, int]  # only types about which something was decided
    awaited: set[Queue]  # producers may wait for room in these
    with_free: set[Queue]  # queues that have jobs without limits
    with_lanes: set[Queue]  # queues that have ready lanes
    served: dict[
        str, int
    ]  # of tenants with jobs, and of none: a higher number was served later from these queues
    last_served: int

    def is_due(self, now: int) -> bool:
        """Tell whether something must happen before any job may start."""
        return self.at_door or any(at <= now for at in self.moments.values())

    @property
    def with_jobs(self) -> set[Queue]:
        """Queues in which a claim may find a job."""
        return (self.with_free | self.with_lanes) - self.paused


MOMENTS: Final = ("wake", "due", "lease", "loan", "expiry", "schedule")
# Tenants with ready lanes: one step for each of them, however many lanes they have.
_ALL: Final = """
    SELECT e.value, (SELECT min(l.tenant) FROM lane l WHERE l.ready = 1 AND l.queue = e.value) FROM each(?) e
    UNION ALL
    SELECT f.queue,
        (SELECT min(l.tenant) FROM lane l WHERE l.ready = 1 AND l.queue = f.queue AND l.tenant > f.tenant)
    FROM found f WHERE f.tenant IS NOT NULL
"""
_ONE: Final = """
    SELECT e.value, (SELECT min(l.tenant) FROM lane l WHERE l.ready = 1 AND l.queue = e.value AND l.tenant = ?)
    FROM each(?) e
"""
_VIEW: Final = """
    WITH RECURSIVE found (queue, tenant) AS ({found}
    ), within (tenant, queue) AS (
        SELECT {own}, e.value FROM each(?) e UNION ALL SELECT tenant, queue FROM found WHERE tenant > {own}
    )
    SELECT 'wake' AS what, '' AS tenant, '' AS name, min(at) AS number FROM wake
    UNION ALL SELECT 'due', '', '', min(due) FROM scheduled
    UNION ALL SELECT 'lease', '', '', min(lease) FROM running
    UNION ALL SELECT 'loan', '', '', min(lease) FROM holder
    UNION ALL SELECT 'expiry', '', '', min(at) FROM expiry
    UNION ALL SELECT 'schedule', '', '', min(next_at) FROM schedule
    UNION ALL SELECT 'door', '', '', min(seq) FROM door
    UNION ALL SELECT 'maintenance', '', '', 1 FROM setting WHERE name = 'maintenance'
    UNION ALL SELECT 'paused', w.tenant, w.queue, 0 FROM within w
        JOIN queue_pause p ON p.queue = w.queue AND p.tenant IN (w.tenant, '')
    UNION ALL SELECT 'queue', w.tenant, w.queue, g.id FROM within w
        JOIN gate g ON g.kind = 'queue' AND g.tenant IN (w.tenant, '') AND g.name = w.queue
    UNION ALL SELECT 'pool', w.tenant, w.queue, p.gate FROM within w
        JOIN pool_queue p ON p.queue = w.queue AND p.tenant IN (w.tenant, '') AND p.gate IS NOT NULL
    UNION ALL SELECT 'awaited', w.tenant, w.queue, 0 FROM within w
        JOIN queue_bound b ON b.queue = w.queue AND b.tenant = w.tenant AND b.strategy = 'block'
    UNION ALL SELECT 'type', '', name, id FROM gate WHERE kind = 'type' AND rules IS NOT NULL
    UNION ALL SELECT 'free', '', e.value, 0 FROM each(?) e
        WHERE {free} AND EXISTS (SELECT 1 FROM ready r WHERE r.queue = e.value)
    UNION ALL SELECT 'lanes', f.tenant, f.queue,
        coalesce((SELECT max(s.number) FROM served s
            WHERE s.queue IN (SELECT value FROM each(?)) AND s.tenant = f.tenant), 0)
        FROM found f WHERE f.tenant IS NOT NULL
    UNION ALL SELECT 'served', '', '', (SELECT max(s.number) FROM served s WHERE s.queue = e.value) FROM each(?) e
    UNION ALL SELECT 'turn', '', '', max(s.number) FROM served s
        WHERE s.queue IN (SELECT value FROM each(?)) AND s.tenant = ''
"""
# Of all tenants.  Its parameters are the queues, as often as they are asked for.
VIEW: Final = _VIEW.format(found=_ALL, own="''", free="true")
ASKED: Final = VIEW.count("?")
_OF_ONE: Final = _VIEW.format(found=_ONE, own="?", free="? = ''")
# Whether a claim has more to think of than jobs without limits: something is due, or rules the queue, or has limits.
SPECIAL: Final = f"""
    number IS NOT NULL
    AND CASE WHEN what IN {MOMENTS} THEN number <= at.now ELSE what NOT IN ('free', 'served', 'turn') END
"""


def read_snapshot(db: Session, queues: list[str], tenant: str | None) -> ClaimSnapshot:
    """Look at the clock, and at these queues of one tenant, or of all."""
    if tenant is None:
        return _read(db.all(VIEW, *[queues] * ASKED))
    given = {
        "found": (tenant, queues),
        "within": (tenant, queues, tenant),
        "free": (queues, tenant),
    }
    return _read(db.all(_OF_ONE, *chain(*given.values()), queues, queues, queues))


def _read(rows: list[Row]) -> ClaimSnapshot:
    of: defaultdict[str, list[tuple[Queue, Any]]] = defaultdict(list)
    for what, tenant, name, number in rows:
        of[what].append(((tenant, name), number))
    gates: dict[str, dict[Queue, list[int]]] = {"queue": {}, "pool": {}}
    for kind, found in gates.items():
        for queue, gate in of[kind]:
            found.setdefault(queue, []).append(gate)
    return ClaimSnapshot(
        moments={what: at for what in MOMENTS for _, at in of[what] if at is not None},
        at_door=any(first is not None for _, first in of["door"]),
        maintenance=bool(of["maintenance"]),
        paused={queue for queue, _ in of["paused"]},
        queue_gates=gates["queue"],
        pool_gates=gates["pool"],
        type_gates={name: gate for (_, name), gate in of["type"]},
        awaited={queue for queue, _ in of["awaited"]},
        with_free={queue for queue, _ in of["free"]},
        with_lanes={queue for queue, _ in of["lanes"]},
        served={tenant: number or 0 for (tenant, _), number in of["lanes"] + of["turn"]},
        last_served=max((number or 0 for _, number in of["served"]), default=0),
    )


def next_moment(db: Session, now: int) -> int | None:
    """Return the next moment at which the clock alone changes something."""
    row = db.one(
        """
        SELECT (SELECT min(at) FROM wake), (SELECT min(due) FROM scheduled), (SELECT min(lease) FROM running),
               (SELECT min(at) FROM expiry WHERE at > ?), (SELECT min(next_at) FROM schedule),
               (SELECT min(lease) FROM holder)
        """,
        now,
    )
    return min((at for at in row or () if at is not None), default=None)
