"""Statements about attempts: how they begin, run and are taken out again."""

from collections.abc import Collection, Iterable
from functools import lru_cache
from typing import Final, NamedTuple

from penstock.limits.costs import cost_at
from penstock.store.jobs import OWN_LEASE, WORKFLOW
from penstock.store.session import Session, StartedRow
from penstock.store.waiting import leave_ready


class AttemptRow(NamedTuple):
    """A running attempt as it is stored."""

    seq: int
    fence: int
    queue: str
    task: str
    worker: str
    lease: int
    started: int
    begin_by: int
    gates: str  # in which it holds a slot
    cost: int
    priority: int
    ord: int
    attempt: int
    lost: int
    cancel: int  # when it was asked to stop, or 0
    behind: int | None  # the gate in whose line its lane stood when it started
    costs: str | None
    resource: str | None  # the key of the one that it took of a group
    counted: str | None  # on which of its days the start counts there
    follows: int  # the job after whose attempt it begins, in a relay; 0 if it begins at once
    has_successor: int  # whether a later call of its key may wait for its end
    workflow: int | None
    instance: int | None  # whose step or pass it is

    @property
    def gate_ids(self) -> tuple[int, ...]:
        return gates_from_text(self.gates)

    def weights(self) -> list[tuple[int, int]]:
        """Return each of its gates, and what its start weighs there."""
        if self.costs is None:
            return [(gate, self.cost) for gate in self.gate_ids]
        return [(gate, cost_at(place, self.cost, self.costs)) for place, gate in enumerate(self.gate_ids)]


@lru_cache(maxsize=65_536)
def gates_from_text(text: str) -> tuple[int, ...]:
    """Read the gates in which an attempt holds a slot."""
    return tuple(int(gate) for gate in text.split(",")) if text else ()


# An attempt that begins: AttemptRow without its last three columns.
NewAttempt = tuple[
    int, int, str, str, str, int, int, int, str, int, int, int, int, int, int, int | None, str | None, str | None,
    str | None, int,
]  # fmt: skip


def run_ready(db: Session, seqs: list[int], fence: int, worker: str, lease: int, now: int) -> None:
    """Start jobs that wait without limits."""
    db.run(
        """
        INSERT INTO running (seq, fence, queue, task, worker, lease, started, begin_by, gates, cost,
            priority, ord, attempt, lost, cancel)
        SELECT r.seq, ?, r.queue, j.task, ?, ?, ?, 0, '', r.cost, r.priority, r.ord, r.attempt + 1, r.lost, 0
        FROM ready r JOIN job j ON j.seq = r.seq WHERE r.seq IN (SELECT value FROM each(?))
        """,
        fence,
        worker,
        lease,
        now,
        seqs,
    )
    leave_ready(db, seqs)


# What StartedRow has, after what it is sorted by, the best first.
STARTED: Final = """
    -priority, ord, seq, id, task, args, timeout, meta, tenant, enqueued, expires, own AS own_lease, workflow,
    attempt, lost
"""


def starting(condition: str = "true") -> str:
    """Return the part of a statement that starts jobs at `at.now`, and has what is STARTED in `known`.

    If one of those that come first is of none of `at.tasks` it starts none, and `strange.found` says so.

    Its values are a queue, how many jobs at most, their fence, their worker, and the length of the leases of jobs that
    have none of their own.
    """
    return f"""
        front AS MATERIALIZED (
            SELECT seq FROM ready WHERE {condition} AND queue = ? AND part = ''
            ORDER BY priority DESC, ord LIMIT ? FOR UPDATE SKIP LOCKED
        ), strange AS MATERIALIZED (
            SELECT EXISTS (SELECT 1 FROM at CROSS JOIN front f JOIN job j ON j.seq = f.seq
                WHERE at.tasks IS NOT NULL AND j.task <> ALL(at.tasks)) AS found
        ), taken AS (
            DELETE FROM ready WHERE NOT (SELECT found FROM strange) AND seq = ANY(ARRAY(SELECT seq FROM front))
            RETURNING seq, queue, cost, priority, ord, attempt, lost
        ), known AS (
            SELECT t.*, j.id, j.task, j.args, j.timeout, j.meta, j.tenant, j.enqueued, j.expires, {OWN_LEASE} AS own,
                {WORKFLOW} AS workflow
            FROM taken t JOIN job j ON j.seq = t.seq
        ), begun AS (
            INSERT INTO running (seq, fence, queue, task, worker, lease, started, begin_by, gates, cost,
                priority, ord, attempt, lost, cancel)
            SELECT seq, ?, queue, task, ?, at.now + coalesce(own, ?), at.now, 0, '', cost, priority, ord,
                attempt + 1, lost, 0
            FROM known CROSS JOIN at
        ), first_begun AS (
            UPDATE workflow_job SET started = at.now FROM known CROSS JOIN at
            WHERE known.workflow IS NOT NULL AND workflow_job.seq = known.seq AND workflow_job.started IS NULL
        )
    """


def start_first(
    db: Session, queue: str, most: int, fence: int, worker: str, lease: int, now: int, tasks: list[str] | None
) -> list[StartedRow] | None:
    """Start the first jobs of a queue, on PostgreSQL, where one statement may change several tables.

    Jobs that other transactions have locked are left out.  None if one of them is of none of these *tasks*, where
    those are named.
    """
    rows = db.all(
        f"""
        WITH at AS (SELECT CAST(? AS BIGINT) AS now, CASE WHEN CAST(? AS BIGINT) = 0
            THEN ARRAY(SELECT e.value FROM each(?) e) END AS tasks
        ), {starting()} SELECT strange.found, {STARTED} FROM strange LEFT JOIN known ON true
        """,
        now,
        int(tasks is None),
        tasks or [""],
        queue,
        most,
        fence,
        worker,
        lease,
    )
    if rows[0][0]:
        return None
    return [row[3:] for row in sorted(row for row in rows if row[3] is not None)]


def started(db: Session, fence: int) -> tuple[int, list[StartedRow]]:
    """Return when jobs began under this *fence*, and these jobs."""
    rows = db.all(
        f"""
        SELECT r.started, r.seq, j.id, j.task, j.args, j.timeout, j.meta, j.tenant, j.enqueued, j.expires,
            {OWN_LEASE}, {WORKFLOW}, r.attempt - 1, r.lost
        FROM running r JOIN job j ON j.seq = r.seq WHERE r.fence = ? ORDER BY r.priority DESC, r.ord
        """,
        fence,
    )
    return max((row[0] for row in rows), default=0), [row[1:] for row in rows]


_COLUMNS: Final = ", ".join(AttemptRow._fields[:20])  # of NewAttempt
_ATTEMPT: Final = f"""
    {_COLUMNS}, has_successor,
    CASE WHEN EXISTS (SELECT 1 FROM workflow_job)
        THEN (SELECT w.workflow FROM workflow_job w WHERE w.seq = running.seq) END,
    CASE WHEN EXISTS (SELECT 1 FROM instance_job)
        THEN (SELECT m.instance FROM instance_job m WHERE m.seq = running.seq) END
"""


def start(db: Session, rows: Iterable[NewAttempt]) -> None:
    """Add running attempts, when the transaction ends."""
    db.last(
        f"INSERT INTO running ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        rows,
    )


def locked(db: Session, seqs: list[int]) -> list[AttemptRow]:
    """Return the running attempts of these jobs, and lock them; an instance is no worker's to report on."""
    rows = db.all(
        f"""
        SELECT {_ATTEMPT} FROM running WHERE seq IN (SELECT value FROM each(?)) AND queue <> ''
        ORDER BY seq FOR UPDATE
        """,
        seqs,
    )
    return list(map(AttemptRow._make, rows))


def overdue(db: Session, now: int, most: int) -> list[AttemptRow]:
    """Return attempts whose lease ran out, and lock them; those that other transactions have locked are left out."""
    rows = db.all(
        f"SELECT {_ATTEMPT} FROM running WHERE lease <= ? ORDER BY lease LIMIT ? FOR UPDATE SKIP LOCKED",
        now,
        most,
    )
    return list(map(AttemptRow._make, rows))


def take(db: Session, pairs: Collection[tuple[int, int]]) -> list[AttemptRow]:
    """Delete and return the attempts of these (seq, fence) that are running; an instance is no worker's to settle."""
    rows = db.all(
        f"""
        DELETE FROM running WHERE seq IN (SELECT value FROM each(?)) AND fence IN (SELECT value FROM each(?))
        AND queue <> '' RETURNING {_ATTEMPT}
        """,
        sorted({seq for seq, _ in pairs}),
        sorted({fence for _, fence in pairs}),
    )
    taken = list(map(AttemptRow._make, rows))
    others = [attempt for attempt in taken if (attempt.seq, attempt.fence) not in pairs]
    if others:
        # A job whose lease was lost runs again, under the fence of another job of this batch.
        db.many(
            f"""
            INSERT INTO running ({_COLUMNS}, has_successor)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
            """,
            [attempt[:-2] for attempt in others],
        )
        taken = [attempt for attempt in taken if (attempt.seq, attempt.fence) in pairs]
    return taken


def take_all(db: Session, seqs: list[int]) -> list[AttemptRow]:
    """Delete and return the running attempts of these jobs, whatever their fences."""
    rows = db.all(f"DELETE FROM running WHERE seq IN (SELECT value FROM each(?)) RETURNING {_ATTEMPT}", seqs)
    return list(map(AttemptRow._make, rows))


def stop(db: Session, seqs: list[int]) -> None:
    """Delete attempts that ended."""
    db.run("DELETE FROM running WHERE seq IN (SELECT value FROM each(?))", seqs)


def set_begin_by(db: Session, seq: int, begin_by: int) -> None:
    """Set the moment at which the gates remember this attempt's start."""
    db.run("UPDATE running SET begin_by = ? WHERE seq = ?", begin_by, seq)


def set_costs(db: Session, seq: int, costs: str | None) -> None:
    """Set what this attempt's start weighs at each of its gates."""
    db.run("UPDATE running SET costs = ? WHERE seq = ?", costs, seq)


def of(db: Session, scope: str, tenant: str, name: str) -> list[tuple[int, str]]:
    """Return (seq, gates) of the running attempts of a queue, a type or a tenant, and lock them."""
    which, values = {
        "queue": ("r.queue = ? AND ? IN (j.tenant, '')", [name, tenant]),
        "type": ("r.task = ?", [name]),
        # An instance passes no gate of its tenant: its steps do.
        "tenant": ("j.tenant = ? AND r.queue <> ''", [tenant]),
    }[scope]
    return db.all(
        f"""
        SELECT r.seq, r.gates FROM running r JOIN job j ON j.seq = r.seq WHERE {which}
        ORDER BY r.seq FOR UPDATE OF r
        """,
        *values,
    )


def set_gates(db: Session, rows: Iterable[tuple[str, int]]) -> None:
    """Keep (gates, seq) of running attempts."""
    db.many("UPDATE running SET gates = ? WHERE seq = ?", rows)
