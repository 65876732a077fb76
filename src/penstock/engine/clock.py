"""The engine's time: the store's own clock if it has one, else its anchor for this machine.

Followed in every transaction, so a machine whose clock is wrong does no harm.
"""

from typing import Final

from penstock.clock import SECOND, Clock, SteadyClock, SystemClock, boot_name, since_boot
from penstock.store import clock as clock_rows
from penstock.store.session import Moment, Session

STEP: Final = SECOND  # a clock this far off was set; less is drift, which the machine mends by itself


class EngineClock:
    """Tells the time inside a transaction; it never runs backwards, but for the anchor."""

    def __init__(self, clock: Clock | None) -> None:
        self.clock: Clock = SteadyClock() if clock is None else clock
        self._boot = boot_name()
        self._last = 0

    @property
    def is_stores(self) -> bool:
        """Whether the store's time is followed."""
        return isinstance(self.clock, SteadyClock)

    def now(self, db: Session) -> int:
        """Return the present moment, as every process of this machine sees it."""
        if isinstance(self.clock, SteadyClock):
            moment = db.moment()
            if moment is not None:
                self.heed(moment)
                return moment.now
            found = clock_rows.anchor(db)
            if found is None or found[0] != self._boot:
                clock_rows.set_anchor(db, self._boot, SystemClock().now() - since_boot())
                return self.now(db)
            self.clock.set(found[1], found[1])
        return self.seen()

    def heed(self, moment: Moment) -> None:
        """Go by the store's own clock, if its time is followed at all."""
        if isinstance(self.clock, SteadyClock):
            self.clock.set(moment.offset, moment.least)

    def seen(self) -> int:
        """Return the present moment as it was last agreed on: good enough to look, not to decide."""
        if isinstance(self.clock, SteadyClock):
            return self.clock.now()
        # A clock may step back; what the gates remember and what callers were told may not.
        self._last = max(self._last, self.clock.now())
        return self._last

    def follow(self, db: Session) -> int:
        """Follow the machine's clock if it was set; return by how much."""
        if not isinstance(self.clock, SteadyClock) or db.moment() is not None:
            return 0
        off = SystemClock().now() - self.clock.now()
        if abs(off) < STEP:
            return 0
        clock_rows.move_anchor(db, off)
        self.clock.set(self.clock.offset + off, self.clock.least + off)
        return off
