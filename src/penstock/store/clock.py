"""Statements about the anchor: how the time since this machine was started becomes time since the epoch.

The machine's clock may be set while jobs run.  Windows and leases are spans, so they are measured from
the machine's start, which cannot be set.  Due times and expiries are dates, so the anchor follows when
the clock was set, and every remembered span moves along with it in the same transaction.
"""

import json
from typing import Final

from penstock.limits.gate import Starts
from penstock.store import tenants as tenant_rows
from penstock.store.session import Session

_PAUSING: Final = "seq IN (SELECT u.seq FROM uniqueness u WHERE u.since IS NOT NULL)"


def anchor(db: Session) -> tuple[str, int] | None:
    """Return (boot, offset)."""
    row = db.one("SELECT boot, since_epoch FROM anchor")
    return None if row is None else (row[0], row[1])


def set_anchor(db: Session, boot: str, offset: int) -> None:
    """Set the anchor: the machine was started, or the store is new."""
    db.run("DELETE FROM anchor")
    db.run("INSERT INTO anchor (boot, since_epoch) VALUES (?, ?)", boot, offset)


def move_anchor(db: Session, by: int) -> None:
    """Follow a clock that was set: move the anchor, and with it every span that is remembered as two dates."""
    db.run("UPDATE anchor SET since_epoch = since_epoch + ?", by)
    db.run("UPDATE running SET started = started + ?", by)
    db.run("UPDATE running SET lease = lease + ? WHERE queue <> ''", by)  # an instance's has no end
    db.run("UPDATE running SET cancel = cancel + ? WHERE cancel > 0", by)
    db.run("UPDATE deadline SET at = at + ?", by)
    db.run("UPDATE running SET begin_by = begin_by + ? WHERE begin_by > 0", by)
    db.run("UPDATE turn SET until = until + ? WHERE until IS NOT NULL", by)
    db.run("UPDATE floating SET next_at = next_at + ?", by)
    db.run("UPDATE holder SET lease = lease + ?", by)
    # A pause in the calls is a span too; a retry is not waiting for one any more.
    db.run(f"UPDATE scheduled SET due = due + ? WHERE attempt = 0 AND {_PAUSING}", by)
    db.run(f"UPDATE successor SET due = due + ? WHERE {_PAUSING}", by)
    db.run("UPDATE uniqueness SET since = since + ? WHERE since IS NOT NULL", by)
    for gate, text in db.all("SELECT id, rules FROM gate WHERE rules IS NOT NULL"):
        rules = {
            k: v + by if k in ("shut_until", "override_until") else v for k, v in json.loads(text).items()
        }
        db.run("UPDATE gate SET rules = ? WHERE id = ?", json.dumps(rules), gate)
    # Too early does no harm: a wake looks again and sets the next one.
    db.run("UPDATE wake SET at = 0")
    rows = db.all("SELECT gate, span, starts FROM gate_memory")
    moved = [(gate, Starts.unpack(span, packed)) for gate, span, packed in rows]
    for _, starts in moved:
        starts.times = [at + by for at in starts.times]
    db.many("UPDATE gate_memory SET starts = ? WHERE gate = ?", [(s.pack(), gate) for gate, s in moved])
    db.run("UPDATE gate_memory SET kept_until = kept_until + ?", by)
    db.run("UPDATE gate_memory SET folded_at = folded_at + ?, due = due + ? WHERE due > 0", by, by)
    tenant_rows.shift_arrivals(db, by)
