"""What a claim must know before it looks at any job, read in one statement; in two where tenants have jobs."""

from typing import Final, NamedTuple

from penstock.job import AHEAD
from penstock.lifecycle.knowledge import Knowledge, part_of
from penstock.store.parts import FRESH
from penstock.store.session import Part, Queue, Row, Session


class ClaimSnapshot(NamedTuple):
    """What is due by the clock, what rules the queues, and where jobs can be found.

    What is said of a queue of no tenant rules the queue of that name of every tenant.
    """

    moments: dict[str, int]  # when a gate opens, a lease ends, a job is due or expires, a schedule fires
    flags: set[
        str
    ]  # 'door' if jobs wait there, 'instances' if some can be admitted, 'maintenance' if nothing may start
    paused: set[Queue]
    awaited: set[Queue]  # producers may wait for room in these
    with_free: set[Part]  # those that have jobs without limits, and a task that the claim knows
    with_lanes: set[Part]  # the same, of ready lanes
    queue_gates: dict[Queue, list[int]]
    pool_gates: dict[Queue, list[int]]  # of the pools that a queue belongs to and that have a number of slots
    type_gates: dict[str, int]  # only types that have rules
    served: dict[str, int]  # where tenants have jobs: a higher number was served later from these queues
    parts: dict[
        tuple[str, str], int
    ]  # by queue and task: when a claim last asked for it; those this claim knows
    last_served: int = 0

    def is_due(self, now: int) -> bool:
        """Tell whether something must happen before any job may start."""
        return bool(self.flags & {"door", "instances"}) or any(at <= now for at in self.moments.values())

    def in_flight(self, now: int) -> bool:
        """Tell whether what is due still stands here after all of it was taken: another transaction has it."""
        return any(at <= now for what, at in self.moments.items() if what != "expiry")

    def is_paused(self, queue: Queue) -> bool:
        """Tell whether nothing may start from a queue."""
        return queue in self.paused or ("", queue[1]) in self.paused

    def with_jobs(self) -> set[Queue]:
        """Return the queues in which a claim may find a job."""
        found = {(tenant, queue) for tenant, queue, _ in self.with_free | self.with_lanes}
        return {queue for queue in found if not self.is_paused(queue)} if self.paused else found

    def gates(self, queue: Queue) -> list[int]:
        """Return the gates that every job of a queue passes."""
        both = [queue, ("", queue[1])] if queue[0] else [queue]
        return [
            gate for of in (self.queue_gates, self.pool_gates) for key in both for gate in of.get(key, ())
        ]


MOMENTS: Final = ("wake", "due", "lease", "loan", "expiry", "schedule", "timer")
# What rules the queues of no tenant, and whether there is more: its parameters are the queues, ASKED times.
VIEW: Final = """
    SELECT 'wake' AS what, '' AS tenant, '' AS name, '' AS task, min(at) AS number FROM wake
    UNION ALL SELECT 'due', '', '', '', min(due) FROM scheduled
    UNION ALL SELECT 'lease', '', '', '', min(lease) FROM running
    UNION ALL SELECT 'loan', '', '', '', min(lease) FROM holder
    UNION ALL SELECT 'expiry', '', '', '', min(at) FROM expiry
    UNION ALL SELECT 'schedule', '', '', '', min(next_at) FROM schedule
    UNION ALL SELECT 'timer', '', '', '', min(at) FROM instance_timer
    UNION ALL SELECT 'door', '', '', '', min(seq) FROM door
    UNION ALL SELECT 'instances', '', '', '', 1 WHERE EXISTS (SELECT 1 FROM lane l WHERE l.queue = '' AND l.ready = 1)
        OR EXISTS (SELECT 1 FROM ready r WHERE r.queue = '')
    UNION ALL SELECT 'maintenance', '', '', '', 1 FROM setting WHERE name = 'maintenance'
    UNION ALL SELECT 'paused', tenant, queue, '', 0 FROM queue_pause
        WHERE queue IN (SELECT value FROM each(?)) AND tenant = ''
    UNION ALL SELECT 'awaited', tenant, queue, '', 0 FROM queue_bound
        WHERE queue IN (SELECT value FROM each(?)) AND tenant = '' AND strategy = 'block'
    UNION ALL SELECT kind, tenant, name, '', id FROM gate
        WHERE kind = 'queue' AND tenant = '' AND name IN (SELECT value FROM each(?))
    UNION ALL SELECT 'pool', tenant, queue, '', gate FROM pool_queue
        WHERE gate IS NOT NULL AND tenant = '' AND queue IN (SELECT value FROM each(?))
    UNION ALL SELECT kind, tenant, name, '', id FROM gate WHERE kind = 'type' AND rules IS NOT NULL
    UNION ALL SELECT 'free', '', e.value, '', 0 FROM each(?) e
        WHERE EXISTS (SELECT 1 FROM ready r WHERE r.queue = e.value AND r.part = '')
    UNION ALL SELECT 'lanes', '', e.value, '', 0 FROM each(?) e
        WHERE EXISTS (SELECT 1 FROM lane l
            WHERE l.queue = e.value AND l.tenant = '' AND l.part = '' AND l.ready = 1)
    UNION ALL SELECT 'tenants', '', '', '', 0 FROM each(?) e
        WHERE EXISTS (SELECT 1 FROM lane l WHERE l.queue = e.value AND l.tenant > '' AND l.ready = 1)
    UNION ALL SELECT 'part',
        CASE WHEN EXISTS (SELECT 1 FROM ready r WHERE r.queue = p.queue AND r.part = p.part)
            THEN 'free ' ELSE '' END
        || CASE WHEN EXISTS (SELECT 1 FROM lane l
                WHERE l.queue = p.queue AND l.tenant = '' AND l.part = p.part AND l.ready = 1)
            THEN 'lanes' ELSE '' END,
        p.queue, p.task, p.known_at FROM task_part p WHERE p.queue IN (SELECT value FROM each(?))
"""
ASKED: Final = VIEW.count("?")
# Whether a claim has more to look at than jobs without limits: something is due or opens soon, or rules the queue, or
# has limits, or stands apart though the claim knows it.  A part that it knows is looked at now and then, which is
# written down.
SPECIAL: Final = f"""
    number IS NOT NULL AND CASE WHEN what = 'wake' THEN number <= at.now + {AHEAD}
        WHEN what IN {MOMENTS} THEN number <= at.now
        WHEN what = 'part' THEN (at.tasks IS NULL OR task = ANY(at.tasks))
            AND (tenant <> '' OR number <= at.now - {FRESH})
        ELSE what <> 'free' END
"""
# What rules the queues of tenants, and when each was served.
_TENANTS: Final = """
    WITH RECURSIVE found (queue, tenant) AS ({found})
    SELECT 'lanes', f.tenant, f.queue, '', 0 FROM found f
        WHERE EXISTS (SELECT 1 FROM lane l
            WHERE l.queue = f.queue AND l.tenant = f.tenant AND l.part = '' AND l.ready = 1)
    UNION ALL SELECT 'lanes', f.tenant, f.queue, p.task, 0 FROM found f JOIN task_part p ON p.queue = f.queue
        WHERE EXISTS (SELECT 1 FROM lane l
            WHERE l.queue = f.queue AND l.tenant = f.tenant AND l.part = p.part AND l.ready = 1)
    UNION ALL SELECT 'paused', p.tenant, p.queue, '', 0 FROM found f
        JOIN queue_pause p ON p.queue = f.queue AND p.tenant = f.tenant
    UNION ALL SELECT 'awaited', b.tenant, b.queue, '', 0 FROM found f
        JOIN queue_bound b ON b.queue = f.queue AND b.tenant = f.tenant AND b.strategy = 'block'
    UNION ALL SELECT g.kind, g.tenant, g.name, '', g.id FROM found f
        JOIN gate g ON g.kind = 'queue' AND g.tenant = f.tenant AND g.name = f.queue
    UNION ALL SELECT 'pool', p.tenant, p.queue, '', p.gate FROM found f
        JOIN pool_queue p ON p.queue = f.queue AND p.tenant = f.tenant AND p.gate IS NOT NULL
    UNION ALL SELECT 'served', s.tenant, '', '', s.number FROM found f
        JOIN served s ON s.queue IN (SELECT value FROM each(?)) AND s.tenant = f.tenant
    UNION ALL SELECT 'served', '', '', '', s.number FROM served s
        WHERE s.queue IN (SELECT value FROM each(?)) AND s.tenant = ''
    UNION ALL SELECT 'last', '', '', '', (SELECT max(s.number) FROM served s WHERE s.queue = e.value) FROM each(?) e
"""
# A step for each tenant that has ready lanes, however many lanes it has.
_ALL: Final = _TENANTS.format(
    found="""
    SELECT e.value, (SELECT min(l.tenant) FROM lane l WHERE l.ready = 1 AND l.queue = e.value AND l.tenant > '')
    FROM each(?) e
    UNION ALL
    SELECT f.queue,
        (SELECT min(l.tenant) FROM lane l WHERE l.ready = 1 AND l.queue = f.queue AND l.tenant > f.tenant)
    FROM found f WHERE f.tenant IS NOT NULL
"""
)
_ONE: Final = _TENANTS.format(found="SELECT e.value, ? FROM each(?) e")


def read_snapshot(db: Session, queues: list[str], tenant: str | None, known: Knowledge) -> ClaimSnapshot:
    """Look at the clock, and at these queues of one tenant, or of all, for a claim that knows these tasks."""
    rows = db.all(VIEW, *[queues] * ASKED)
    if tenant:
        rows = [
            ("part", "", *row[2:]) if row[0] == "part" else row
            for row in rows
            if row[0] not in ("free", "lanes")
        ]
        rows += db.all(_ONE, tenant, *[queues] * 4)
    elif tenant is None and any(what == "tenants" for what, *_ in rows):
        rows += db.all(_ALL, *[queues] * 4)
    return _read(rows, known)


def _read(rows: list[Row], known: Knowledge) -> ClaimSnapshot:
    found = ClaimSnapshot({}, set(), set(), set(), set(), set(), {}, {}, {}, {}, {})
    sets = {"paused": found.paused, "awaited": found.awaited}
    with_jobs = {"free": found.with_free, "lanes": found.with_lanes}
    gates = {"queue": found.queue_gates, "pool": found.pool_gates}
    last = 0
    for what, tenant, name, task, number in rows:
        if number is None or (task and task not in known):
            continue
        if what in MOMENTS:
            found.moments[what] = number
        elif what in sets:
            sets[what].add((tenant, name))
        elif what in with_jobs:
            with_jobs[what].add((tenant, name, part_of(task)))
        elif what == "part":
            found.parts[name, task] = number
            for kind in tenant.split():
                with_jobs[kind].add(("", name, part_of(task)))
        elif what in gates:
            gates[what].setdefault((tenant, name), []).append(number)
        elif what == "type":
            found.type_gates[name] = number
        elif what == "served":
            found.served[tenant] = max(found.served.get(tenant, 0), number)
        elif what == "last":
            last = max(last, number)
        else:
            found.flags.add(what)
    return found._replace(last_served=last) if last else found


def next_moment(db: Session, now: int) -> int | None:
    """Return the next moment at which the clock alone changes something."""
    row = db.one(
        """
        SELECT (SELECT min(at) FROM wake), (SELECT min(due) FROM scheduled), (SELECT min(lease) FROM running),
               (SELECT min(at) FROM expiry WHERE at > ?), (SELECT min(next_at) FROM schedule),
               (SELECT min(lease) FROM holder), (SELECT min(at) FROM instance_timer)
        """,
        now,
    )
    return min((at for at in row or () if at is not None), default=None)
