"""Statements that recompute what is stored, for `doctor`.  Reads only."""

from penstock.store.session import Session


def places(db: Session) -> list[tuple[str, int]]:
    """Return (id, number of places) of the jobs that do not stand in exactly one."""
    return db.all(
        """
        SELECT j.id, count(p.seq) FROM job j LEFT JOIN (
            SELECT seq FROM scheduled UNION ALL SELECT seq FROM ready UNION ALL SELECT seq FROM lane_job
            UNION ALL SELECT seq FROM running UNION ALL SELECT seq FROM done UNION ALL SELECT seq FROM door
            UNION ALL SELECT seq FROM successor
        ) AS p ON p.seq = j.seq GROUP BY j.seq, j.id HAVING count(p.seq) <> 1 LIMIT 100
        """
    )


def running_gates(db: Session) -> list[tuple[str]]:
    """Return the gates, as text, of every running attempt that holds slots."""
    return db.all("SELECT gates FROM running WHERE gates <> ''")


def gate_running(db: Session) -> list[tuple[int, int]]:
    """Return (id, running) of the gates that count any attempt as running."""
    return db.all("SELECT id, running FROM gate WHERE running <> 0")


def gate_name(db: Session, gate: int) -> str:
    """Return a gate's name."""
    row = db.one("SELECT name FROM gate WHERE id = ?", gate)
    return str(row[0]) if row else f"number {gate} (which does not exist)"


def lane_counts(db: Session) -> list[tuple[int, int, int]]:
    """Return (gate, stored, true) where the number of lanes behind a gate is wrong."""
    return db.all(
        """
        SELECT g.id, g.lanes, count(l.id) FROM gate g LEFT JOIN lane l ON l.behind = g.id
        GROUP BY g.id, g.lanes HAVING g.lanes <> count(l.id) LIMIT 100
        """
    )


def lane_heads(db: Session) -> list[tuple[int, int | None, int | None]]:
    """Return (lane, stored, true) where a lane's first job is wrong."""
    return db.all(
        """
        SELECT id, head, first FROM (
            SELECT l.id, l.head,
                (SELECT j.seq FROM lane_job j WHERE j.lane = l.id ORDER BY j.priority DESC, j.ord LIMIT 1) AS first
            FROM lane l
        ) AS lanes WHERE coalesce(head, -1) <> coalesce(first, -1) LIMIT 100
        """
    )


def dormant_firsts(db: Session, now: int) -> list[tuple[int, int]]:
    """Return (gate, first lane) of the lines whose first lane is not ready and whose gate has no wake due."""
    return db.all(
        """
        SELECT l.behind, l.id FROM lane l WHERE l.line IS NOT NULL AND l.ready = 0
        AND NOT EXISTS (SELECT 1 FROM wake w WHERE w.gate = l.behind AND w.at <= ?)
        AND l.id = (SELECT x.id FROM lane x WHERE x.line = l.line ORDER BY x.priority DESC, x.ord LIMIT 1)
        """,
        now,
    )


def lost_lanes(db: Session) -> list[tuple[int]]:
    """Return the lanes that have jobs but are neither ready nor parked."""
    return db.all("SELECT id FROM lane WHERE head IS NOT NULL AND ready = 0 AND behind IS NULL LIMIT 100")
