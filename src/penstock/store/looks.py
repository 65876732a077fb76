"""Statements for people who look: each reads a bounded number of rows, however large the store is.  Reads only."""

from penstock.store.session import Session


def ended(db: Session, tenant: str | None, since: int, most: int) -> list[tuple[str, int, int]]:
    """Return (state, looked at, jobs) of the jobs that ended last, after a moment: no more than *most* of all."""
    if tenant is None:  # few are instances, so that looking each up there costs little
        return db.all(
            """
            SELECT d.state, count(*), count(CASE WHEN i.seq IS NULL THEN 1 END) FROM (
                SELECT seq, state FROM done WHERE finished > ? ORDER BY finished DESC LIMIT ?
            ) AS d LEFT JOIN instance i ON i.seq = d.seq GROUP BY d.state
            """,
            since,
            most,
        )
    return db.all(
        """
        SELECT d.state, count(*), count(CASE WHEN j.queue <> '' AND j.tenant = ? THEN 1 END) FROM (
            SELECT seq, state FROM done WHERE finished > ? ORDER BY finished DESC LIMIT ?
        ) AS d JOIN job j ON j.seq = d.seq GROUP BY d.state
        """,
        tenant,
        since,
        most,
    )
