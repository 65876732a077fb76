"""Statements about jobs that wait: without limits, in lanes, at the door, and for their due time."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from penstock.job import Topic
from penstock.store.session import Session

ReadyRow = tuple[
    int, str, str, int, int, int, int, int
]  # seq, queue, part, priority, ord, cost, attempt, lost
FreeJob = tuple[int, int, int, int, int, int, str]  # seq, priority, ord, cost, attempt, lost, task
# seq, priority, ord, cost, costs, and the task if it was looked up
Head = tuple[int, int, int, int, str | None, str | None]
LaneJobRow = tuple[
    int, int, int, int, int, str | None, int, int, int, int
]  # seq, lane, priority, ord, cost, costs, attempt, lost, refused, told


class Following(NamedTuple):
    """A job among the first of a lane, that may start together with the one before it."""

    seq: int
    priority: int
    ord: int
    cost: int
    costs: str | None
    lost: int
    task: str
    retry: str  # its policy, as JSON text


class AtDoor(NamedTuple):
    """A job at the door."""

    seq: int
    attempt: int
    lost: int
    replaces: int | None
    due: int  # of one that replaces another; 0 for at once


# Without limits.


def get_ready(db: Session, rows: Iterable[ReadyRow]) -> None:
    """Add jobs without limits."""
    db.tell(Topic.WORK)
    db.many(
        """
        INSERT INTO ready (seq, queue, part, priority, ord, cost, attempt, lost) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
        """,
        rows,
    )


def first_ready(db: Session, queue: str, part: str, skip: int, most: int) -> list[FreeJob]:
    """Return the first jobs of a part, and lock them; those that other transactions have locked are left out."""
    return db.all(
        """
        SELECT seq, priority, ord, cost, attempt, lost, (SELECT j.task FROM job j WHERE j.seq = ready.seq)
        FROM ready WHERE queue = ? AND part = ?
        ORDER BY priority DESC, ord LIMIT ? OFFSET ? FOR UPDATE SKIP LOCKED
        """,
        queue,
        part,
        most,
        skip,
    )


def lock_ready(db: Session, seq: int) -> bool:
    """Lock a job that waits without limits; False if it just left."""
    return db.one("SELECT seq FROM ready WHERE seq = ? FOR UPDATE", seq) is not None


def leave_ready(db: Session, seqs: list[int]) -> None:
    """Delete jobs that no longer wait."""
    db.run("DELETE FROM ready WHERE seq IN (SELECT value FROM each(?))", seqs)


# With limits, in lanes.


def join_lanes(db: Session, rows: Iterable[LaneJobRow]) -> None:
    """Add jobs to lanes."""
    db.many(
        """
        INSERT INTO lane_job (seq, lane, priority, ord, cost, costs, attempt, lost, refused, told)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
        """,
        rows,
    )


def in_lane(db: Session, lane: int, skip: int, most: int) -> list[Head]:
    """Return the first jobs of a lane."""
    return db.all(
        """
        SELECT seq, priority, ord, cost, costs, (SELECT j.task FROM job j WHERE j.seq = lane_job.seq)
        FROM lane_job WHERE lane = ? ORDER BY priority DESC, ord LIMIT ? OFFSET ?
        """,
        lane,
        most,
        skip,
    )


def first_in(db: Session, lanes: list[int], most: int) -> dict[int, list[Following]]:
    """Return the first jobs of each lane, *most* at most, in order."""
    rows = db.all(
        """
        SELECT e.value, x.seq, x.priority, x.ord, x.cost, x.costs, x.lost,
            (SELECT j.task FROM job j WHERE j.seq = x.seq), (SELECT j.retry FROM job j WHERE j.seq = x.seq)
        FROM each(?) e CROSS JOIN lane_job x WHERE x.seq IN EVERY (
            SELECT y.seq FROM lane_job y WHERE y.lane = e.value ORDER BY y.priority DESC, y.ord LIMIT ?)
        """,
        lanes,
        most,
    )
    found: dict[int, list[Following]] = {}
    for lane, *job in sorted(rows, key=lambda row: (-row[2], row[3])):
        found.setdefault(lane, []).append(Following(*job))
    return found


def leave_lanes(db: Session, seqs: list[int]) -> list[tuple[int, int, int, int]]:
    """Delete jobs that no longer wait; return their (seq, attempt, lost, told)."""
    return db.all(
        "DELETE FROM lane_job WHERE seq IN (SELECT value FROM each(?)) RETURNING seq, attempt, lost, told",
        seqs,
    )


def told(db: Session, seqs: list[int]) -> list[tuple[int, int]]:
    """Return those of these jobs that stand in lanes, with the gate at which each was told to be blocked, or 0."""
    return db.all("SELECT seq, told FROM lane_job WHERE seq IN (SELECT value FROM each(?))", seqs)


def first_told(db: Session, lane: int, most: int) -> list[tuple[int, int]]:
    """Return the same of the first jobs of a lane."""
    return db.all(
        "SELECT seq, told FROM lane_job WHERE lane = ? ORDER BY priority DESC, ord LIMIT ?", lane, most
    )


def tell(db: Session, rows: Iterable[tuple[int, int]]) -> None:
    """Keep (told, seq) of jobs that were told to be blocked."""
    db.many("UPDATE lane_job SET told = ? WHERE seq = ?", rows)


def stand_in(db: Session, old: int, new: int, told: int) -> None:
    """Put a job that has made no attempt exactly where another one waits."""
    db.run("UPDATE lane_job SET seq = ?, attempt = 0, lost = 0, told = ? WHERE seq = ?", new, told, old)


def refuse(db: Session, seq: int) -> int:
    """Count a refusal; return how many there have been."""
    row = db.one("UPDATE lane_job SET refused = refused + 1 WHERE seq = ? RETURNING refused", seq)
    return int(row[0]) if row else 0


def forgive(db: Session, seq: int) -> None:
    """Forget the refusals of a job."""
    db.run("UPDATE lane_job SET refused = 0 WHERE seq = ?", seq)


def change_lane(db: Session, seq: int, lane: int) -> None:
    """Move a waiting job to another lane."""
    db.run("UPDATE lane_job SET lane = ?, refused = 0 WHERE seq = ?", lane, seq)


# With limits, at the door: they came while another transaction had the gates.


def to_door(db: Session, seqs: Iterable[int]) -> None:
    """Add new jobs that wait at the door."""
    db.tell(Topic.WORK)
    db.many("INSERT INTO door (seq, attempt, lost) VALUES (?, 0, 0)", [(seq,) for seq in seqs])


def replace_later(db: Session, seq: int, replaces: int, due: int) -> None:
    """Have a job take the place of another once it is let in; it is *due* then (0: at once)."""
    db.tell(Topic.WORK)
    db.run("INSERT INTO door (seq, attempt, lost, replaces, due) VALUES (?, 0, 0, ?, ?)", seq, replaces, due)


def at_door(db: Session, most: int) -> list[AtDoor]:
    """Take the jobs from the door that came first."""
    rows = db.all(
        """
        DELETE FROM door WHERE seq IN (SELECT seq FROM door ORDER BY seq LIMIT ? FOR UPDATE SKIP LOCKED)
        RETURNING seq, attempt, lost, replaces, due
        """,
        most,
    )
    return sorted(AtDoor(*row) for row in rows)


def is_at_door(db: Session, ids: list[str], tenant: str) -> bool:
    """Tell whether any of these jobs of a tenant is at the door."""
    return (
        db.one(
            """
            SELECT 1 FROM job j JOIN door d ON d.seq = j.seq
            WHERE j.id IN (SELECT value FROM each(?)) AND j.tenant = ? LIMIT 1
            """,
            ids,
            tenant,
        )
        is not None
    )


def from_door(db: Session, seq: int) -> list[AtDoor]:
    """Take the jobs from the door that have the unique key of this one."""
    rows = db.all(
        """
        DELETE FROM door WHERE seq IN EVERY (
            SELECT o.seq FROM uniqueness u JOIN uniqueness o ON o.key = u.key WHERE u.seq = ?)
        RETURNING seq, attempt, lost, replaces, due
        """,
        seq,
    )
    return sorted(AtDoor(*row) for row in rows)


# For their due time.


def schedule(db: Session, rows: Iterable[tuple[int, int, int, int]]) -> None:
    """Add (seq, due, attempt, lost)."""
    _schedule(db, "INSERT INTO scheduled (seq, due, attempt, lost) VALUES (?, ?, ?, ?)", list(rows))


def due_of(db: Session, seq: int) -> int | None:
    """Return when a job is due, if it is scheduled."""
    row = db.one("SELECT due FROM scheduled WHERE seq = ?", seq)
    return None if row is None else int(row[0])


def due_at_once(db: Session, table: str, seq: int) -> None:
    """Let a job that waits for another, or at the door, be due as soon as it stands in line."""
    db.run(f"UPDATE {table} SET due = 0 WHERE seq = ?", seq)


def put_off(db: Session, rows: Iterable[tuple[int, int, int, int, str | None]]) -> None:
    """Add (seq, due, attempt, lost, reason) of jobs that have begun before."""
    _schedule(
        db, "INSERT INTO scheduled (seq, due, attempt, lost, reason) VALUES (?, ?, ?, ?, ?)", list(rows)
    )


def _schedule(db: Session, adding: str, rows: Sequence[tuple[int, *tuple[object, ...]]]) -> None:
    db.tell(Topic.WORK)
    db.many(adding, rows)
    db.run(
        """
        UPDATE scheduled SET tenant = (SELECT j.tenant FROM job j WHERE j.seq = scheduled.seq), signature = (
            SELECT CASE WHEN length(j.limits) + length(j.tenant) > 500 THEN j.seq || ''
                ELSE j.limits || j.tenant END
            FROM job j WHERE j.seq = scheduled.seq AND j.limits <> '')
        WHERE seq IN (SELECT j.seq FROM job j
            WHERE (j.limits <> '' OR j.tenant <> '') AND j.seq IN (SELECT value FROM each(?)))
        """,
        [row[0] for row in rows],
    )


def due(db: Session, now: int, most: int) -> list[tuple[int, int, int]]:
    """Take the jobs that are due, as (seq, attempt, lost), earliest first."""
    rows: list[tuple[int, int, int]] = db.all(
        """
        SELECT seq, attempt, lost FROM scheduled WHERE due <= ? ORDER BY due, seq LIMIT ? FOR UPDATE SKIP LOCKED
        """,
        now,
        most,
    )
    db.many("DELETE FROM scheduled WHERE seq = ?", [(seq,) for seq, _, _ in rows])
    return rows
