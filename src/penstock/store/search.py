"""Statements that search for jobs.  They look first where the fewest are."""

from collections.abc import Collection

from penstock.job import JobFilter
from penstock.store.session import Session
from penstock.store.views import DUE, JOB, WAITING, JobViewRow

_AMONG = {  # by the time, but for those that run
    "scheduled": "SELECT seq FROM scheduled WHERE due > ? AND attempt = lost",
    "retrying": "SELECT seq FROM scheduled WHERE due > ? AND attempt > lost",
    "waiting": f"{WAITING} UNION ALL {DUE}",
    "running": "SELECT seq FROM running",
}


def search(db: Session, now: int, wanted: JobFilter, offset: int, most: int) -> list[JobViewRow]:
    """Return the jobs that fit, newest first."""
    where, values = _where(now, wanted)
    rows = db.all(f"{JOB} WHERE {where} ORDER BY j.seq DESC LIMIT ? OFFSET ?", *values, most, offset)
    return [JobViewRow(*row) for row in rows]


def ids(db: Session, now: int, wanted: JobFilter, most: int) -> list[str]:
    """Return the ids of the jobs that fit, oldest first."""
    where, values = _where(now, wanted)
    rows = db.all(f"SELECT j.id FROM job j WHERE {where} ORDER BY j.seq LIMIT ?", *values, most)
    return [id_ for (id_,) in rows]


def total(db: Session, now: int, wanted: JobFilter) -> int:
    """Return how many jobs fit."""
    where, values = _where(now, wanted)
    row = db.one(f"SELECT count(*) FROM job j WHERE {where}", *values)
    return int(row[0]) if row else 0


def _where(now: int, wanted: JobFilter) -> tuple[str, list[object]]:
    where, values = ["1 = 1"], list[object]()
    if wanted.states is not None:
        where.append(_of_states(now, wanted.states, values))
    if wanted.queues is not None:
        where.append("j.queue IN (SELECT value FROM each(?))")
        values.append(sorted(wanted.queues))
    for column, value in (("task", wanted.task), ("tenant", wanted.tenant)):
        if value is not None:
            where.append(f"j.{column} = ?")
            values.append(value)
    if wanted.task_prefix is not None:
        where.append("j.task LIKE ? ESCAPE '!'")
        values.append(beginning(wanted.task_prefix))
    for sign, moment in ((">=", wanted.since), ("<", wanted.until)):
        if moment is not None:
            where.append(f"j.enqueued {sign} ?")
            values.append(moment)
    if wanted.ended_before is not None:
        where.append("j.seq IN (SELECT seq FROM done WHERE finished < ?)")
        values.append(wanted.ended_before)
    return " AND ".join(where), values


def _of_states(now: int, states: Collection[str], values: list[object]) -> str:
    # The few that have not ended are looked up; the many that have are looked at, newest first, until a page is full.
    live = [_AMONG[state] for state in sorted(states) if state in _AMONG]
    values += [now for state in sorted(states) if state in _AMONG and state != "running"]
    ended = [state for state in sorted(states) if state not in _AMONG]
    either = [f"j.seq IN ({' UNION ALL '.join(live)})"] if live else []
    if ended:
        marks = ", ".join("?" for _ in ended)
        either.append(f"EXISTS (SELECT 1 FROM done d WHERE d.seq = j.seq AND d.state IN ({marks}))")
        values += ended
    return f"({' OR '.join(either) or '1 = 0'})"


def beginning(prefix: str) -> str:
    """Return a pattern for what begins with *prefix*; ! takes away the meaning of what follows."""
    return prefix.replace("!", "!!").replace("%", "!%").replace("_", "!_") + "%"
