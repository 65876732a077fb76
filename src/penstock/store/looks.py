"""Statements for people who look: each reads a bounded number of rows, however large the store is.  Reads only."""

from typing import Final

from penstock.store.lanes import IS_RESCHEDULED
from penstock.store.session import Session

_STATES: Final = {  # of the jobs in each table that have not ended
    "running": "'running'",
    "ready": "'waiting'",
    "lane_job": f"""
        CASE WHEN EXISTS (SELECT 1 FROM lane n WHERE n.id = t.lane AND {IS_RESCHEDULED})
        THEN 'scheduled' ELSE 'waiting' END
    """,
    "door": "'waiting'",
    "successor": "'waiting'",
    "scheduled": "CASE WHEN t.due <= ? THEN 'waiting' ELSE 'scheduled' END",
}


def live(db: Session, tenant: str | None, now: int, most: int) -> list[tuple[str, int, bool]]:
    """Return (state, jobs, more) for each table of jobs that have not ended, of the first *most* in it."""
    told_apart = tenant is not None or db.one("SELECT 1 FROM instance LIMIT 1") is not None
    own = "j.queue <> ''" if tenant is None else "j.queue <> '' AND j.tenant = ?"
    own_values: list[object] = [] if tenant is None else [tenant]
    found = []
    for table, state in _STATES.items():
        counted = f"SELECT t.*, {state} AS state FROM {table} t LIMIT ?"
        values: list[object] = [*[now] * state.count("?"), most]
        if told_apart:
            sql = f"""
                SELECT l.state, count(*), sum(CASE WHEN {own} THEN 1 ELSE 0 END) FROM ({counted}) AS l
                JOIN job j ON j.seq = l.seq GROUP BY l.state
            """
            values = [*own_values, *values]
        else:
            sql = f"SELECT l.state, count(*), count(*) FROM ({counted}) AS l GROUP BY l.state"
        rows = db.all(sql, *values)
        more = sum(looked for _, looked, _ in rows) >= most
        found += [(state, int(jobs), more) for state, _, jobs in rows]
    return found


def ended(db: Session, tenant: str | None, since: int, most: int) -> list[tuple[str, int, int]]:
    """Return (state, looked at, jobs) of the jobs that ended last, after a moment: no more than *most* of all."""
    return db.all(
        """
        SELECT d.state, count(*), count(CASE WHEN j.queue <> '' AND (j.tenant = ? OR ? = 0) THEN 1 END) FROM (
            SELECT seq, state FROM done WHERE finished > ? ORDER BY finished DESC LIMIT ?
        ) AS d JOIN job j ON j.seq = d.seq GROUP BY d.state
        """,
        tenant or "",
        int(tenant is not None),
        since,
        most,
    )
