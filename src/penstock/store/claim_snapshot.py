"""What a claim must know before it looks at any job, read in one statement."""

from typing import Final, NamedTuple

from penstock.store.session import Session


class ClaimSnapshot(NamedTuple):
    """What is due by the clock, what rules the queues, and which of them have jobs that may start."""

    moments: dict[str, int]  # when a gate opens, a lease ends, a job is due or expires, a schedule fires
    at_door: bool
    paused: set[str]
    queue_gates: dict[str, int]
    pool_gates: dict[str, list[int]]  # of the pools that a queue belongs to and that have a number of slots
    type_gates: dict[str, int]  # only types that have rules
    with_free: set[str]  # queues that have jobs without limits
    with_lanes: set[str]  # queues that have ready lanes

    def is_due(self, now: int) -> bool:
        """Tell whether something is due that must happen before any job starts."""
        return self.at_door or any(at <= now for at in self.moments.values())


MOMENTS: Final = ("wake", "due", "lease", "loan", "expiry", "schedule")
# Its values are the queues, ASKED times.
VIEW: Final = """
        SELECT 'wake' AS what, '' AS name, min(at) AS number FROM wake
        UNION ALL SELECT 'due', '', min(due) FROM scheduled
        UNION ALL SELECT 'lease', '', min(lease) FROM running
        UNION ALL SELECT 'loan', '', min(lease) FROM holder
        UNION ALL SELECT 'expiry', '', min(at) FROM expiry
        UNION ALL SELECT 'schedule', '', min(next_at) FROM schedule
        UNION ALL SELECT 'door', '', min(seq) FROM door
        UNION ALL SELECT 'paused', queue, 0 FROM paused WHERE queue IN (SELECT value FROM each(?))
        UNION ALL SELECT kind, name, id FROM gate
            WHERE kind = 'queue' AND tenant = '' AND name IN (SELECT value FROM each(?))
        UNION ALL SELECT 'pool', queue, gate FROM pool_queue
            WHERE gate IS NOT NULL AND queue IN (SELECT value FROM each(?))
        UNION ALL SELECT kind, name, id FROM gate WHERE kind = 'type' AND rules IS NOT NULL
        UNION ALL SELECT 'free', e.value, 0 FROM each(?) e WHERE EXISTS (SELECT 1 FROM ready r WHERE r.queue = e.value)
        UNION ALL SELECT 'lanes', e.value, 0 FROM each(?) e
            WHERE EXISTS (SELECT 1 FROM lane l WHERE l.queue = e.value AND l.ready = 1)
"""
ASKED: Final = VIEW.count("?")
# Whether a claim has more to look at than jobs without limits: something is due, or rules the queue, or has limits.
SPECIAL: Final = f"""
    number IS NOT NULL AND CASE WHEN what IN {MOMENTS} THEN number <= at.now ELSE what <> 'free' END
"""


def read_snapshot(db: Session, queues: list[str]) -> ClaimSnapshot:
    """Return what is due, and what there is in these queues."""
    rows = db.all(VIEW, *[queues] * ASKED)
    found = ClaimSnapshot(
        {},
        at_door=False,
        paused=set(),
        queue_gates={},
        pool_gates={},
        type_gates={},
        with_free=set(),
        with_lanes=set(),
    )
    at_door = False
    for what, name, number in rows:
        match what:
            case _ if what in MOMENTS:
                if number is not None:
                    found.moments[what] = number
            case "door":
                at_door = number is not None
            case "paused":
                found.paused.add(name)
            case "queue":
                found.queue_gates[name] = number
            case "pool":
                found.pool_gates.setdefault(name, []).append(number)
            case "type":
                found.type_gates[name] = number
            case "free":
                found.with_free.add(name)
            case _:
                found.with_lanes.add(name)
    return found._replace(at_door=at_door)


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
