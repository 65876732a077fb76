"""Statements that look at all jobs and keys of one tenant, a page at a time.  Reads only.

A page is so many jobs of any tenant, because only that bounds what a statement reads.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from penstock.store.lanes import IS_RESCHEDULED, RESCHEDULED
from penstock.store.session import Session

_WAITING_IN: Final = ("scheduled", "ready", "lane_job", "door", "successor")


def _page_of(table: str) -> str:
    return f"SELECT seq FROM {table} WHERE seq < ? ORDER BY seq DESC LIMIT ?"


# Where to look for jobs.  Of each table no more is read than the page may have.
_PAGES: Final = {
    "anywhere": _page_of("job"),
    "running": _page_of("running"),
    "ended": _page_of("done"),
    "pending": " UNION ALL ".join(f"SELECT seq FROM ({_page_of(table)}) AS p" for table in _WAITING_IN),
}
_BY_PLACE: Final = {
    "running": "SELECT seq, 'running' AS state FROM running",
    "ended": "SELECT seq, state FROM done",
    "pending": f"""
        SELECT seq, 'waiting' AS state FROM ready
        UNION ALL SELECT seq, CASE WHEN lane IN ({RESCHEDULED}) THEN 'scheduled' ELSE 'waiting' END FROM lane_job
        UNION ALL SELECT seq, 'waiting' FROM door UNION ALL SELECT seq, 'waiting' FROM successor
        UNION ALL SELECT seq, CASE WHEN due > ? THEN 'scheduled' ELSE 'waiting' END FROM scheduled
    """,
}
_STATES: Final = {**_BY_PLACE, "anywhere": " UNION ALL ".join(_BY_PLACE.values())}
PLACES: Final = tuple(_PAGES)
TEXTS: Final = ("args", "meta", "limits")
Texts: TypeAlias = tuple[str | None, str | None, str | None]


class SurveyedJob(NamedTuple):
    """A job; its longer texts are None, unless they were asked for."""

    seq: int
    id: str
    queue: str
    priority: int
    enqueued: int
    state: str
    changed: int  # when it came into its state, as far as is known
    due: int | None
    fence: int | None  # of the attempt that runs
    made: int  # attempts that a job has made which waits
    parked: int  # whether a limit keeps its lane
    # The longer texts, in the order of TEXTS.
    args: str | None
    meta: str | None
    limits: str | None

    def with_texts(self, texts: Texts) -> "SurveyedJob":
        """Return the same job with its longer texts."""
        return SurveyedJob._make(self[: -len(texts)] + texts)


class SurveyedKey(NamedTuple):
    """The gate of a key: what was decided about it, and what its jobs bring."""

    gate: int
    name: str
    running: int
    rules: str | None
    own: str | None  # the numbers that a lane brought which was deleted
    gates: str | None  # of the newest lane that passes it
    waiting: int
    floats: int


_JOB: Final = f"""
    SELECT j.seq, j.id, j.queue, j.priority, j.enqueued,
        CASE WHEN d.seq IS NOT NULL THEN d.state WHEN r.seq IS NOT NULL THEN 'running'
            WHEN s.due > ? OR EXISTS (SELECT 1 FROM lane n WHERE n.id = l.lane AND {IS_RESCHEDULED})
            THEN 'scheduled' ELSE 'waiting' END,
        coalesce(d.finished, r.started, (SELECT max(a.ended) FROM attempt a WHERE a.seq = j.seq), j.enqueued),
        s.due, r.fence,
        CASE WHEN d.seq IS NULL THEN coalesce((SELECT max(a.number) FROM attempt a WHERE a.seq = j.seq), 0) ELSE 0 END,
        CASE WHEN l.lane IS NULL THEN 0 ELSE (
            SELECT count(*) FROM lane n WHERE n.id = l.lane AND ready = 0 AND behind IS NOT NULL) END,
        NULL, NULL, NULL
    FROM job j LEFT JOIN done d ON d.seq = j.seq LEFT JOIN running r ON r.seq = j.seq
    LEFT JOIN scheduled s ON s.seq = j.seq LEFT JOIN lane_job l ON l.seq = j.seq
    WHERE j.tenant = ? AND j.queue <> ''
"""


def page(db: Session, place: str, before: int, most: int) -> list[int]:
    """Return the numbers of jobs in a place, newest first."""
    sql = _PAGES[place]
    rows = db.all(
        f"SELECT seq FROM ({sql}) AS pages ORDER BY seq DESC LIMIT ?",
        *[before, most] * (sql.count("?") // 2),
        most,
    )
    return [seq for (seq,) in rows]


def jobs(db: Session, seqs: Sequence[int], tenant: str, now: int) -> list[SurveyedJob]:
    """Return those of these jobs that are a tenant's, newest first."""
    rows = db.all(
        f"{_JOB} AND j.seq IN (SELECT value FROM each(?)) ORDER BY j.seq DESC", now, tenant, list(seqs)
    )
    return list(map(SurveyedJob._make, rows))


def jobs_between(
    db: Session, first: int, last: int, tenant: str, now: int, *, ended: bool
) -> list[SurveyedJob]:
    """Return a tenant's jobs of these numbers, newest first: all, or those that have ended."""
    rows = db.all(
        f"{_JOB} AND j.seq >= ? AND j.seq <= ? AND (? = 0 OR d.seq IS NOT NULL) ORDER BY j.seq DESC",
        now,
        tenant,
        first,
        last,
        int(ended),
    )
    return list(map(SurveyedJob._make, rows))


def sizes(db: Session, names: Sequence[str], seqs: Sequence[int]) -> list[tuple[int, int]]:
    """Return (seq, length) of the longer texts of these jobs."""
    length = " + ".join(f"length({name})" for name in names)
    return db.all(f"SELECT seq, {length} FROM job WHERE seq IN (SELECT value FROM each(?))", list(seqs))


def texts(db: Session, names: Sequence[str], seqs: Sequence[int]) -> list[tuple[int, *Texts]]:
    """Return the seq and all longer texts of these jobs, None for those that are not named."""
    columns = ", ".join(name if name in names else "NULL" for name in TEXTS)
    return db.all(f"SELECT seq, {columns} FROM job WHERE seq IN (SELECT value FROM each(?))", list(seqs))


def census(
    db: Session, place: str, first: int, last: int, tenant: str, now: int
) -> list[tuple[str, int, str, int]]:
    """Return (queue, priority, state, how many) of a tenant's jobs in a place that have these numbers."""
    sql = _STATES[place]
    return db.all(
        f"""
        SELECT j.queue, j.priority, t.state, count(*) FROM ({sql}) AS t JOIN job j ON j.seq = t.seq
        WHERE t.seq >= ? AND t.seq <= ? AND j.tenant = ? AND j.queue <> '' GROUP BY j.queue, j.priority, t.state
        ORDER BY j.queue, j.priority, t.state
        """,
        *[now] * sql.count("?"),
        first,
        last,
        tenant,
    )


def keys(db: Session, tenant: str, name: str | None, after: str, most: int) -> list[SurveyedKey]:
    """Return the keys of a tenant, by name: all that come after one, or the one of this name."""
    rows = db.all(
        f"""
        SELECT g.id, g.name, g.running, g.rules, g.own,
            (SELECT l.gates FROM lane_gate p JOIN lane l ON l.id = p.lane WHERE p.gate = g.id
                ORDER BY p.lane DESC LIMIT 1),
            (SELECT count(*) FROM lane_gate p JOIN lane_job w ON w.lane = p.lane
                WHERE p.gate = g.id AND p.lane NOT IN ({RESCHEDULED})),
            (SELECT count(*) FROM floating f WHERE f.gate = g.id)
        FROM gate g WHERE g.kind = 'key' AND g.tenant = ? AND g.name > ? AND (? = 1 OR g.name = ?)
        ORDER BY g.name LIMIT ?
        """,
        tenant,
        after,
        int(name is None),
        name or "",
        most,
    )
    return list(map(SurveyedKey._make, rows))


def at_door(db: Session, tenant: str, now: int) -> list[tuple[str, int]]:
    """Return (limits, how many) of a tenant's jobs that have not come to their gates yet though they wait."""
    return db.all(
        """
        SELECT j.limits, count(*) FROM (
                SELECT seq FROM door UNION ALL SELECT seq FROM successor
                UNION ALL SELECT seq FROM scheduled WHERE due <= ?) AS d
            JOIN job j ON j.seq = d.seq WHERE j.tenant = ? AND j.limits <> '' GROUP BY j.limits
        """,
        now,
        tenant,
    )
