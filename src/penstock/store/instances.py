"""Statements about instances: the memo, and what moves each one on."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from penstock.job import StepJob, Topic, WaitView
from penstock.store.session import Session
from penstock.store.statements import literally


class InstanceRow(NamedTuple):
    """An instance with what is known of its job."""

    seq: int
    workflow: str
    sequence: int | None
    queue: str
    context: str  # or its arguments
    paused: int
    ending: str | None
    version: int
    pass_seq: int | None
    pass_version: int
    parent: int | None
    id: str
    tenant: str
    priority: int
    meta: str
    started: int | None  # None while it does not run


class StepRow(NamedTuple):
    """One entry of a memo."""

    instance: int
    key: str
    kind: str
    state: str
    job: str | None  # the id of its job or child
    result: str | None
    error: str | None
    frame: str | None
    began: int
    ended: int | None


class EndOf(NamedTuple):
    """To what a job belongs that has ended: a step of a workflow, or of an instance; or it is an instance itself.

    Without a *step* and a *key* it is the instance; with an empty key it is a pass.
    """

    seq: int
    of: int
    step: int | None
    key: str | None


class LiveJob(NamedTuple):
    """A job, a pass or a child of an instance that has not ended."""

    seq: int
    instance: int
    key: str
    child: int
    frozen: int | None


_STEP: Final = ", ".join(f"s.{name}" for name in StepRow._fields)
_INSTANCE: Final = """
    i.seq, i.workflow, i.sequence, i.queue, coalesce(i.context, j.args), i.paused, i.ending, i.version, i.pass,
    i.pass_version, i.parent, j.id, j.tenant, j.priority, j.meta, r.started
"""


def add(db: Session, rows: Iterable[tuple[int, str, int | None, str, int | None]]) -> None:
    """Add instances, as (seq, workflow, sequence, queue, parent)."""
    db.many("INSERT INTO instance (seq, workflow, sequence, queue, parent) VALUES (?, ?, ?, ?, ?)", rows)


def locked(db: Session, seqs: list[int]) -> list[InstanceRow]:
    """Return instances, and lock them."""
    rows = db.all(
        f"""
        SELECT {_INSTANCE} FROM instance i JOIN job j ON j.seq = i.seq LEFT JOIN running r ON r.seq = i.seq
        WHERE i.seq IN (SELECT value FROM each(?)) ORDER BY i.seq FOR UPDATE OF i
        """,
        seqs,
    )
    return [InstanceRow(*row) for row in rows]


def save(db: Session, rows: Iterable[tuple[str | None, int, str | None, int, int | None, int, int]]) -> None:
    """Keep (context, paused, ending, version, pass, pass_version, seq)."""
    db.many(
        """
        UPDATE instance SET context = ?, paused = ?, ending = ?, version = ?, pass = ?, pass_version = ? WHERE seq = ?
        """,
        rows,
    )


def of_ends(db: Session, seqs: list[int]) -> list[EndOf]:
    """Return to what these jobs belong, if to anything."""
    rows = db.all(
        """
        SELECT seq, workflow, step, NULL FROM workflow_job WHERE seq IN (SELECT value FROM each(?))
        UNION ALL SELECT seq, instance, NULL, key FROM instance_job WHERE seq IN (SELECT value FROM each(?))
        UNION ALL SELECT seq, seq, NULL, NULL FROM instance WHERE seq IN (SELECT value FROM each(?))
        """,
        *[seqs] * 3,
    )
    return sorted((EndOf(*row) for row in rows), key=lambda end: end.seq)


# The memo.


def steps_of(db: Session, seqs: list[int], instances: list[int], key: str) -> list[StepRow]:
    """Return the steps whose jobs or children these are, and those of these instances at *key*."""
    rows = db.all(
        f"""
        SELECT {_STEP} FROM instance_job m JOIN instance_step s ON s.instance = m.instance AND s.key = m.key
        WHERE m.seq IN (SELECT value FROM each(?))
        UNION ALL
        SELECT {_STEP} FROM instance_step s WHERE s.instance IN (SELECT value FROM each(?)) AND s.key = ?
        """,
        seqs,
        instances,
        key,
    )
    return [StepRow(*row) for row in rows]


def step(db: Session, instance: int, key: str) -> StepRow | None:
    """Return one step."""
    row = db.one(f"SELECT {_STEP} FROM instance_step s WHERE s.instance = ? AND s.key = ?", instance, key)
    return None if row is None else StepRow(*row)


def steps(db: Session, instance: int) -> list[StepRow]:
    """Return the whole memo, in the order in which steps began."""
    rows = db.all(
        f"SELECT {_STEP} FROM instance_step s WHERE s.instance = ? ORDER BY s.began, s.key", instance
    )
    return [StepRow(*row) for row in rows]


def save_steps(db: Session, rows: Iterable[StepRow]) -> None:
    """Keep steps as they are, each once."""
    db.many(
        """
        INSERT INTO instance_step (instance, key, kind, state, job, result, error, frame, began, ended)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
        ON CONFLICT (instance, key) DO UPDATE SET kind = excluded.kind, state = excluded.state, job = excluded.job,
            result = excluded.result, error = excluded.error, frame = excluded.frame, began = excluded.began,
            ended = excluded.ended
        """,
        rows,
    )


def forget_steps(db: Session, rows: Iterable[tuple[int, str]]) -> None:
    """Delete steps, by (instance, key)."""
    db.many("DELETE FROM instance_step WHERE instance = ? AND key = ?", rows)


def mark_steps(db: Session, instance: int, since: int, frame: str) -> None:
    """Set the frame of the steps that began *since* then."""
    db.run("UPDATE instance_step SET frame = ? WHERE instance = ? AND began >= ?", frame, instance, since)


# What moves an instance on.


def add_jobs(db: Session, rows: Iterable[tuple[int, int, str, int]]) -> None:
    """Add jobs that move instances on, as (seq, instance, key, whether it is a child)."""
    db.many("INSERT INTO instance_job (seq, instance, key, child) VALUES (?, ?, ?, ?)", rows)


def forget_jobs(db: Session, seqs: list[int]) -> None:
    """Forget jobs that have ended."""
    db.run("DELETE FROM instance_job WHERE seq IN (SELECT value FROM each(?))", seqs)


def jobs(db: Session, instances: list[int]) -> list[LiveJob]:
    """Return what has not ended of these instances."""
    rows = db.all(
        """
        SELECT seq, instance, key, child, frozen FROM instance_job
        WHERE instance IN (SELECT value FROM each(?)) ORDER BY seq
        """,
        instances,
    )
    return [LiveJob(*row) for row in rows]


def job_at(db: Session, instance: int, key: str) -> LiveJob | None:
    """Return the job or the child at a key, if it has not ended."""
    row = db.one(
        "SELECT seq, instance, key, child, frozen FROM instance_job WHERE instance = ? AND key = ?",
        instance,
        key,
    )
    return None if row is None else LiveJob(*row)


def disown(db: Session, instance: int) -> None:
    """Let the jobs of an instance belong to none of its steps; it still waits for their ends before its own."""
    db.run("UPDATE instance_job SET key = ? WHERE instance = ?", DISOWNED, instance)


DISOWNED: Final = "\x1f"  # no step has such a key


def paused(db: Session, seqs: list[int]) -> list[int]:
    """Return those of these jobs whose instance is paused."""
    rows = db.all(
        """
        SELECT m.seq FROM instance_job m JOIN instance i ON i.seq = m.instance
        WHERE m.seq IN (SELECT value FROM each(?)) AND i.paused = 1 ORDER BY m.seq
        """,
        seqs,
    )
    return [seq for (seq,) in rows]


def set_paused(db: Session, seq: int, paused: int) -> None:
    """Pause an instance, or let it go on."""
    db.run("UPDATE instance SET paused = ? WHERE seq = ?", paused, seq)


def set_ending(db: Session, rows: Iterable[tuple[str | None, int]]) -> None:
    """Keep (ending, seq) of instances."""
    db.many("UPDATE instance SET ending = ? WHERE seq = ?", rows)


def begin_again(db: Session, seq: int) -> None:
    """Let an instance that is retried be to end no more; that it was, its version tells."""
    db.run("UPDATE instance SET ending = NULL, version = version + 1 WHERE seq = ?", seq)


def freeze(db: Session, rows: Iterable[tuple[int | None, int]]) -> None:
    """Keep (frozen, seq) of jobs."""
    db.many("UPDATE instance_job SET frozen = ? WHERE seq = ?", rows)


def live(db: Session, instances: list[int]) -> list[tuple[int, str, str, int | None]]:
    """Return all that is live of instances, as (instance, key, kind, seq of a job or None)."""
    return db.all(
        """
        SELECT instance, key, CASE child WHEN 1 THEN 'child' ELSE 'job' END, seq FROM instance_job
            WHERE instance IN (SELECT value FROM each(?))
        UNION ALL SELECT instance, key, kind, NULL FROM instance_step
            WHERE instance IN (SELECT value FROM each(?)) AND state = 'live' AND kind NOT IN ('job', 'child')
        """,
        instances,
        instances,
    )


def stuck(db: Session, instances: list[int]) -> list[int]:
    """Return those of these running instances that have neither a pass nor a live step that will end."""
    rows = db.all(
        f"SELECT i.seq FROM instance i WHERE i.seq IN (SELECT value FROM each(?)) AND {IS_STUCK}", instances
    )
    return [seq for (seq,) in rows]


IS_STUCK: Final = """
    i.pass IS NULL AND NOT EXISTS (
        SELECT 1 FROM instance_step s WHERE s.instance = i.seq AND s.state = 'live' AND s.kind <> 'frame')
"""


def set_timers(db: Session, rows: Iterable[tuple[int, str, int]]) -> None:
    """Set timers, as (instance, key, at)."""
    db.tell(Topic.WORK)  # the next moment at which a claim should look may come earlier
    db.many("INSERT INTO instance_timer (instance, key, at) VALUES (?, ?, ?)", rows)


def due_timers(db: Session, now: int, most: int) -> list[tuple[int, str]]:
    """Take the timers that are over, as (instance, key), earliest first."""
    rows: list[tuple[int, str]] = db.all(
        """
        SELECT instance, key FROM instance_timer WHERE at <= ?
        ORDER BY at, instance, key LIMIT ? FOR UPDATE SKIP LOCKED
        """,
        now,
        most,
    )
    forget_timers(db, rows)
    return rows


def forget_timers(db: Session, rows: Iterable[tuple[int, str]]) -> None:
    """Delete timers, by (instance, key)."""
    db.many("DELETE FROM instance_timer WHERE instance = ? AND key = ?", rows)


def add_waits(db: Session, rows: Iterable[tuple[int, str, str, int]]) -> None:
    """Wait for signals, as (instance, key, name, place)."""
    db.many("INSERT INTO instance_wait (instance, key, name, place) VALUES (?, ?, ?, ?)", rows)


def forget_waits(db: Session, rows: Iterable[tuple[int, str]]) -> None:
    """Wait for signals no more, by (instance, key)."""
    db.many("DELETE FROM instance_wait WHERE instance = ? AND key = ?", rows)


def waits_for(db: Session, instance: int, name: str) -> list[str]:
    """Return the keys that wait for a signal of that name, the one that has waited longest first."""
    rows = db.all(
        "SELECT key FROM instance_wait WHERE instance = ? AND name = ? ORDER BY place", instance, name
    )
    return [key for (key,) in rows]


def add_signal(db: Session, row: tuple[int, str, int, str, str, int]) -> None:
    """Keep a signal, as (number, id, instance, name, payload, at)."""
    db.run("INSERT INTO signal (number, id, instance, name, payload, at) VALUES (?, ?, ?, ?, ?, ?)", *row)


def take_signal(db: Session, instance: int, name: str) -> str | None:
    """Take the first signal of that name; return its payload."""
    row = db.one(
        """
        DELETE FROM signal WHERE number IN (
            SELECT number FROM signal WHERE instance = ? AND name = ? ORDER BY number LIMIT 1)
        RETURNING payload
        """,
        instance,
        name,
    )
    return None if row is None else str(row[0])


def forget_all(db: Session, instance: int) -> None:
    """Empty a memo, with its timers and waits; signals that nothing has waited for stay."""
    for table in ("instance_step", "instance_timer", "instance_wait"):
        db.run(f"DELETE FROM {table} WHERE instance = ?", instance)


def stop_waiting(db: Session, instances: list[int], now: int) -> None:
    """Cancel the timers, waits and frames of instances that are about to end."""
    for table in ("instance_timer", "instance_wait"):
        db.run(f"DELETE FROM {table} WHERE instance IN (SELECT value FROM each(?))", instances)
    db.run(
        """
        UPDATE instance_step SET state = 'cancelled', ended = ?
        WHERE instance IN (SELECT value FROM each(?)) AND state = 'live' AND kind NOT IN ('job', 'child')
        """,
        now,
        instances,
    )


def is_any_ready(db: Session) -> bool:
    """Tell whether an instance could be admitted that no transaction has admitted yet."""
    row = db.one(f"SELECT 1 WHERE {READY}")
    return row is not None


READY: Final = """
    EXISTS (SELECT 1 FROM lane l WHERE l.queue = '' AND l.ready = 1)
    OR EXISTS (SELECT 1 FROM ready r WHERE r.queue = '')
"""

# How instances are seen.

SHOWN: Final = """
    SELECT j.id, i.seq, i.workflow, q.version, i.sequence, j.tenant, i.queue, i.paused, i.ending,
        coalesce(i.context, j.args), j.meta, j.limits, j.enqueued, s.due, r.started, d.state, d.started, d.finished,
        d.result, d.error, d.reason, (SELECT p.id FROM job p WHERE p.seq = i.parent), i.version,
        j.priority, q.id, q.namespace
    FROM instance i JOIN job j ON j.seq = i.seq LEFT JOIN sequence q ON q.number = i.sequence
    LEFT JOIN scheduled s ON s.seq = i.seq LEFT JOIN running r ON r.seq = i.seq LEFT JOIN done d ON d.seq = i.seq
"""


class ShownInstance(NamedTuple):
    """An instance with all that is known of it but its steps."""

    id: str
    seq: int
    workflow: str
    version: int | None
    sequence: int | None
    tenant: str
    queue: str
    paused: int
    ending: str | None
    context: str
    meta: str
    limits: str
    created: int
    due: int | None
    running_since: int | None
    state: str | None  # of one that has ended
    started: int | None  # of one that has ended
    ended: int | None
    result: str | None
    error: str | None
    reason: str | None
    parent: str | None
    memo_version: int
    priority: int
    sequence_id: str | None
    namespace: str | None


class Standing(NamedTuple):
    """Where an instance stands."""

    seq: int
    paused: int
    due: int | None
    running_since: int | None
    state: str | None  # of one that has ended


def standing(db: Session, seqs: list[int]) -> dict[int, Standing]:
    """Return where instances stand."""
    rows = db.all(
        """
        SELECT i.seq, i.paused, s.due, r.started, d.state FROM instance i LEFT JOIN scheduled s ON s.seq = i.seq
        LEFT JOIN running r ON r.seq = i.seq LEFT JOIN done d ON d.seq = i.seq
        WHERE i.seq IN (SELECT value FROM each(?))
        """,
        seqs,
    )
    return {row[0]: Standing(*row) for row in rows}


def of_id(db: Session, id_: str, tenant: str | None, most: int) -> list[ShownInstance]:
    """Return the instance of a tenant that has this id; or of any tenant, at most *most*."""
    which, values = ("", []) if tenant is None else ("AND j.tenant = ?", [tenant])
    rows = db.all(f"{SHOWN} WHERE j.id = ? {which} ORDER BY j.tenant LIMIT ?", id_, *values, most)
    return [ShownInstance(*row) for row in rows]


def shown(db: Session, seqs: list[int]) -> dict[int, ShownInstance]:
    """Return these instances."""
    rows = db.all(f"{SHOWN} WHERE i.seq IN (SELECT value FROM each(?))", seqs)
    return {row[1]: ShownInstance(*row) for row in rows}


_WHERE: Final = {  # where the job of an instance stands, by its state
    "scheduled": "i.paused = 0 AND i.seq IN (SELECT seq FROM scheduled)",
    "deferred": "i.paused = 0 AND NOT EXISTS (SELECT 1 FROM scheduled x WHERE x.seq = i.seq)"
    " AND NOT EXISTS (SELECT 1 FROM running x WHERE x.seq = i.seq)"
    " AND NOT EXISTS (SELECT 1 FROM done x WHERE x.seq = i.seq)",
    "running": "i.paused = 0 AND i.seq IN (SELECT seq FROM running WHERE queue = '')",
    "paused": "i.paused = 1 AND NOT EXISTS (SELECT 1 FROM done x WHERE x.seq = i.seq)",
}


_ENDED: Final = "EXISTS (SELECT 1 FROM done x WHERE x.seq = i.seq AND x.state IN (SELECT value FROM each(?)))"


class WantedInstances(NamedTuple):
    """Which instances are meant: all that is given must fit, and one of *states*."""

    tenant: str | None = None
    workflow: str | None = None
    states: tuple[str, ...] | None = None
    sequence: str | None = None  # the id of one
    namespace: str | None = None


def page(db: Session, wanted: WantedInstances, offset: int, most: int) -> list[ShownInstance]:
    """Return instances, newest first."""
    where, values = _chosen(wanted)
    rows = db.all(
        f"{SHOWN} WHERE {' AND '.join(where)} ORDER BY i.seq DESC LIMIT ? OFFSET ?", *values, most, offset
    )
    return [ShownInstance(*row) for row in rows]


def total(db: Session, wanted: WantedInstances) -> int:
    """Return how many instances there are."""
    where, values = _chosen(wanted)
    row = db.one(
        f"""
        SELECT count(*) FROM instance i JOIN job j ON j.seq = i.seq LEFT JOIN sequence q ON q.number = i.sequence
        WHERE {" AND ".join(where)}
        """,
        *values,
    )
    return int(row[0]) if row else 0


def _chosen(wanted: WantedInstances) -> tuple[list[str], list[object]]:
    where, values = ["1 = 1"], list[object]()
    columns = {"j.tenant": wanted.tenant, "i.workflow": wanted.workflow, "q.id": wanted.sequence,
               "q.namespace": wanted.namespace}  # fmt: skip
    for column, value in columns.items():
        if value is not None:
            where.append(f"{column} = ?")
            values.append(value)
    if wanted.states is not None:
        ended = [state for state in wanted.states if state not in _WHERE]
        any_of = [f"({_WHERE[state]})" for state in wanted.states if state in _WHERE]
        if ended:
            any_of.append(_ENDED)
            values.append(ended)
        where.append(f"({' OR '.join(any_of) or '1 = 0'})")
    return where, values


def timers_of(db: Session, queues: list[str], tenant: str | None) -> int:
    """Return how many timers are set for instances whose passes stand in these queues."""
    row = db.one(
        """
        SELECT count(*) FROM instance_timer t JOIN instance i ON i.seq = t.instance JOIN job j ON j.seq = i.seq
        WHERE i.queue IN (SELECT value FROM each(?)) AND j.tenant = coalesce(?, j.tenant)
        """,
        queues,
        tenant,
    )
    return int(row[0]) if row else 0


def timers(db: Session, instance: int) -> dict[str, int]:
    """Return when the timers of an instance are over, by key."""
    return dict(db.all("SELECT key, at FROM instance_timer WHERE instance = ?", instance))


def waits(db: Session, instance: int) -> dict[str, str]:
    """Return which signals an instance waits for, by key."""
    return dict(db.all("SELECT key, name FROM instance_wait WHERE instance = ?", instance))


def live_steps(db: Session, instance: int, most: int) -> list[StepRow]:
    """Return steps that have not ended, the first to begin first."""
    rows = db.all(
        f"""
        SELECT {_STEP} FROM instance_step s WHERE s.instance = ? AND s.state = 'live' ORDER BY s.began, s.key LIMIT ?
        """,
        instance,
        most,
    )
    return [StepRow(*row) for row in rows]


def step_jobs(db: Session, seqs: list[int]) -> list[StepJob]:
    """Return to which steps these jobs belong, as far as they have not ended."""
    rows = db.all(
        """
        SELECT m.seq, j.id, j.tenant, m.key, i.workflow, coalesce(i.context, j.args)
        FROM instance_job m JOIN instance i ON i.seq = m.instance JOIN job j ON j.seq = m.instance
        WHERE m.seq IN (SELECT value FROM each(?)) AND m.child = 0
        """,
        seqs,
    )
    return [StepJob(*row) for row in rows]


_WAITS: Final = """
    FROM instance_wait w JOIN instance i ON i.seq = w.instance JOIN job j ON j.seq = w.instance
    JOIN instance_step s ON s.instance = w.instance AND s.key = w.key
    LEFT JOIN instance_timer t ON t.instance = w.instance AND t.key = w.key
    WHERE w.name LIKE ? ESCAPE '!'
"""


def waits_page(
    db: Session, prefix: str, tenant: str | None, offset: int, most: int, namespace: str | None
) -> list[WaitView]:
    """Return waits for signals whose names begin so, oldest first."""
    which, values = _waits_of(tenant, namespace)
    rows = db.all(
        f"""
        SELECT j.id, j.tenant, i.workflow, i.sequence, j.meta, w.key, w.name, s.began, t.at {_WAITS} {which}
        ORDER BY w.place LIMIT ? OFFSET ?
        """,
        f"{literally(prefix)}%",
        *values,
        most,
        offset,
    )
    return [WaitView(*row) for row in rows]


def waits_total(db: Session, prefix: str, tenant: str | None, namespace: str | None) -> int:
    """Return how many waits there are for signals whose names begin so."""
    which, values = _waits_of(tenant, namespace)
    row = db.one(f"SELECT count(*) {_WAITS} {which}", f"{literally(prefix)}%", *values)
    return int(row[0]) if row else 0


def _waits_of(tenant: str | None, namespace: str | None) -> tuple[str, list[str]]:
    wanted = {
        "AND j.tenant = ?": tenant,
        "AND i.sequence IN (SELECT number FROM sequence WHERE namespace = ?)": namespace,
    }
    given = {which: value for which, value in wanted.items() if value is not None}
    return " ".join(given), list(given.values())


def waiting_for(
    db: Session, name: str, tenant: str, after: int, before: int, most: int
) -> list[tuple[int, str, int]]:
    """Return which steps of a tenant's instances wait for a signal, as (instance, key, place), between these places."""
    return db.all(
        """
        SELECT w.instance, w.key, w.place FROM instance_wait w JOIN job j ON j.seq = w.instance
        WHERE w.name = ? AND j.tenant = ? AND w.place > ? AND w.place < ? ORDER BY w.place LIMIT ?
        """,
        name,
        tenant,
        after,
        before,
        most,
    )
