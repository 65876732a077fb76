"""Statements about the leases of running attempts."""

from collections.abc import Sequence

from penstock.job import Beat
from penstock.store.session import Session, Topic


def renew(db: Session, attempts: Sequence[tuple[int, int]], now: int, lease: int) -> list[Beat]:
    """Lengthen the leases of (seq, fence); tell of each whether it still stands and whether it should stop."""
    found = {
        seq: (fence, cancel)
        for seq, fence, cancel in db.all(
            """
            SELECT seq, fence, cancel FROM running WHERE seq IN (SELECT value FROM each(?)) ORDER BY seq FOR UPDATE
            """,
            [seq for seq, _ in attempts],
        )
    }
    beats = []
    for seq, fence in attempts:
        held, cancel = found.get(seq, (None, 0))
        beats.append(Beat(seq, alive=held == fence, cancel_asked=held == fence and bool(cancel)))
    db.many(
        "UPDATE running SET lease = ? WHERE seq = ?",
        [(now + lease, beat.seq) for beat in beats if beat.alive],
    )
    return beats


def progress(db: Session, seq: int, fence: int, value: str, now: int) -> bool:
    """Keep how far an attempt is; False if it is not running under this fence."""
    if db.one("SELECT 1 FROM running WHERE seq = ? AND fence = ?", seq, fence) is None:
        return False
    db.run(
        """
        INSERT INTO progress (seq, value, at) VALUES (?, ?, ?)
        ON CONFLICT (seq) DO UPDATE SET value = excluded.value, at = excluded.at
        """,
        seq,
        value,
        now,
    )
    return True


def ask_to_cancel(db: Session, seq: int) -> bool:
    """Ask the worker of a running attempt to stop; False if none runs."""
    db.tell(Topic.WORK)
    return db.run("UPDATE running SET cancel = 1 WHERE seq = ?", seq) > 0
