"""Statements about tenants: how many of their jobs may wait, how many may come in which time, and when some came."""

from penstock.limits.gate import Starts
from penstock.store.session import Row, Session

_COLUMNS = "name, max_waiting, max_scheduled, rate_limit, rate_period"


def of(db: Session, names: list[str]) -> list[Row]:
    """Return (name, max_waiting, max_scheduled, rate_limit, rate_period) of the tenants that have any."""
    return db.all(
        f"SELECT {_COLUMNS} FROM tenant WHERE name IN (SELECT value FROM each(?)) ORDER BY name", names
    )


def every(db: Session) -> list[Row]:
    """Return the same of all of them."""
    return db.all(f"SELECT {_COLUMNS} FROM tenant ORDER BY name")


def put(db: Session, row: Row) -> None:
    """Keep what a tenant may have, in the order of `of`."""
    db.run(
        f"""
        INSERT INTO tenant ({_COLUMNS}) VALUES (?, ?, ?, ?, ?)
        ON CONFLICT (name) DO UPDATE SET max_waiting = excluded.max_waiting, max_scheduled = excluded.max_scheduled,
            rate_limit = excluded.rate_limit, rate_period = excluded.rate_period
        """,
        *row,
    )


def remove(db: Session, name: str) -> None:
    """Let a tenant have as much as it wants."""
    db.run("DELETE FROM tenant WHERE name = ?", name)


def waiting(db: Session, tenant: str) -> int:
    """Return how many jobs of a tenant wait; those that are scheduled are not among them."""
    row = db.one(
        """
        SELECT (SELECT count(*) FROM lane l JOIN lane_job j ON j.lane = l.id WHERE l.tenant = ? AND l.tenant <> '')
            + (SELECT count(*) FROM (SELECT seq FROM door UNION ALL SELECT seq FROM successor) AS d
                JOIN job j ON j.seq = d.seq WHERE j.tenant = ?)
        """,
        tenant,
        tenant,
    )
    return int(row[0]) if row else 0


def scheduled(db: Session, tenant: str) -> int:
    """Return how many jobs of a tenant are scheduled."""
    row = db.one("SELECT count(*) FROM scheduled WHERE tenant = ? AND tenant <> ''", tenant)
    return int(row[0]) if row else 0


def arrivals(db: Session, tenant: str) -> Starts | None:
    """Return when jobs of a tenant came, as far back as its rate looks."""
    row = db.one("SELECT span, starts FROM tenant_arrivals WHERE tenant = ?", tenant)
    return None if row is None else Starts.unpack(*row)


def save_arrivals(db: Session, tenant: str, arrivals: Starts) -> None:
    """Keep when jobs of a tenant came."""
    db.run(
        """
        INSERT INTO tenant_arrivals (tenant, span, starts) VALUES (?, ?, ?)
        ON CONFLICT (tenant) DO UPDATE SET span = excluded.span, starts = excluded.starts
        """,
        tenant,
        arrivals.span,
        arrivals.pack(),
    )


def forget_arrivals(db: Session, tenant: str) -> None:
    """Forget when jobs of a tenant came."""
    db.run("DELETE FROM tenant_arrivals WHERE tenant = ?", tenant)


def shift_arrivals(db: Session, by: int) -> None:
    """Move every arrival along with a clock that was set."""
    for tenant, span, packed in db.all("SELECT tenant, span, starts FROM tenant_arrivals"):
        arrivals = Starts.unpack(span, packed)
        arrivals.times = [at + by for at in arrivals.times]
        save_arrivals(db, tenant, arrivals)
