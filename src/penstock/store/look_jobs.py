"""Statements for people who look for jobs: each looks at no more than so many.  Reads only."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from penstock.job import JobQuery
from penstock.lifecycle.states import LIVE, State
from penstock.store.lanes import IS_RESCHEDULED
from penstock.store.session import Session
from penstock.store.views import JOB, LAST, JobViewRow, naming


def _page_of(table: str) -> str:
    return f"SELECT seq FROM (SELECT seq FROM {table} WHERE seq < ? ORDER BY seq DESC LIMIT ?) AS p"


_PAGES: Final = {  # where to look for jobs, newest first; of each table no more is read than is asked for
    State.RUNNING: _page_of("running"),
    State.WAITING: " UNION ALL ".join(
        _page_of(table) for table in ("ready", "lane_job", "door", "successor", "scheduled")
    ),
    State.SCHEDULED: " UNION ALL ".join(_page_of(table) for table in ("scheduled", "lane_job")),
}
_ENDED: Final = _page_of("done")
_ANYWHERE: Final = _page_of("job")
_IS_RESCHEDULED: Final = f"""
    EXISTS (SELECT 1 FROM lane_job l JOIN lane n ON n.id = l.lane WHERE l.seq = j.seq AND {IS_RESCHEDULED})
"""
_OF_STATE: Final = {
    State.WAITING: f"""
        NOT {_IS_RESCHEDULED} AND NOT EXISTS (SELECT 1 FROM scheduled s WHERE s.seq = j.seq AND s.due > ?)
    """,
    State.SCHEDULED: f"({_IS_RESCHEDULED} OR EXISTS (SELECT 1 FROM scheduled s WHERE s.seq = j.seq AND s.due > ?))",
}


class Looked(NamedTuple):
    """How far a look went: the number of the last job, and how many there were."""

    reached: int | None
    jobs: int


def _place(wanted: JobQuery, before: int, looked_at: int) -> tuple[str, list[object]]:
    state = wanted.state
    sql = _ANYWHERE if state is None else _PAGES.get(state, _ENDED)
    values: list[object] = [before, looked_at]
    sql_values = values * sql.count("LIMIT")
    return f"SELECT seq FROM ({sql}) AS pages ORDER BY seq DESC LIMIT ?", [*sql_values, looked_at]


def looked(db: Session, wanted: JobQuery, before: int, looked_at: int) -> Looked:
    """Return how far a look at so many jobs goes."""
    place, values = _place(wanted, before, looked_at)
    row = db.one(f"SELECT min(seq), count(*) FROM ({place}) AS c", *values)
    return Looked(*row) if row else Looked(None, 0)


def found(db: Session, wanted: JobQuery, now: int, before: int, looked_at: int, most: int) -> list[int]:
    """Return the numbers of the jobs that fit, newest first, among so many."""
    place, values = _place(wanted, before, looked_at)
    where, given = _where(wanted, now)
    rows = db.all(
        f"""
        SELECT c.seq FROM ({place}) AS c JOIN job j ON j.seq = c.seq
        LEFT JOIN done d ON d.seq = j.seq LEFT JOIN running r ON r.seq = j.seq
        WHERE {where} ORDER BY c.seq DESC LIMIT ?
        """,
        *values,
        *given,
        most,
    )
    return [seq for (seq,) in rows]


def of_ids_like(db: Session, begins: str, tenant: str | None, most: int) -> list[int]:
    """Return the numbers of the jobs whose ids begin so, of one tenant or of all."""
    rows = db.all(
        """
        SELECT seq FROM job WHERE id >= ? AND id < ? AND queue <> '' AND (tenant = ? OR ? = 0)
        ORDER BY id LIMIT ?
        """,
        begins,
        begins + LAST,
        tenant or "",
        int(tenant is not None),
        most,
    )
    return [seq for (seq,) in rows]


def rows(db: Session, seqs: Sequence[int]) -> list[JobViewRow]:
    """Return all that is known of these jobs, newest first."""
    shown = db.all(f"{JOB} WHERE j.seq IN (SELECT value FROM each(?)) ORDER BY j.seq DESC", list(seqs))
    return [JobViewRow(*row) for row in shown]


def _where(wanted: JobQuery, now: int) -> tuple[str, list[object]]:
    where, values = ["j.queue <> ''"], list[object]()

    def say(condition: str, *given: object) -> None:
        where.append(condition)
        values.extend(given)

    if wanted.state in _OF_STATE:
        say(_OF_STATE[wanted.state], now)
    elif wanted.state is not None and wanted.state not in LIVE:
        say("d.state = ?", wanted.state.value)
    if wanted.key is not None:
        say("replace(j.limits, ?, '') <> j.limits", naming(wanted.key))
    if wanted.unmarked is not None:
        say("replace(j.meta, ?, '') = j.meta", f'"{wanted.unmarked}"')
    for condition, value in (
        ("j.queue = ?", wanted.queue),
        ("j.task = ?", wanted.task),
        ("j.tenant = ?", wanted.tenant),
        ("coalesce(r.worker, d.worker) = ?", wanted.worker),
        ("replace(j.args, ?, '') <> j.args", wanted.words),
        ("replace(d.error, ?, '') <> d.error", wanted.error),
        ("j.enqueued >= ?", wanted.since),
        ("j.enqueued < ?", wanted.until),
    ):
        if value is not None:
            say(condition, value)
    return " AND ".join(where), values
