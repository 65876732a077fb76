"""How long a claimed handler may take to begin, where its gate remembers the start: as long as it needs here.

A start is remembered at the last moment it may begin.  A short time keeps gates open for others; but on a
slow disk, or behind slow listeners, handlers would come too late and be handed back for ever.
"""

import logging
from collections.abc import Iterable
from typing import Final

from penstock.clock import MILLISECOND, SECOND
from penstock.worker.attempt import Attempt

SHORTEST: Final = 50 * MILLISECOND
LONGEST: Final = 5 * SECOND

log = logging.getLogger("penstock.worker")


class Grace:
    """Doubles when handlers come too late, and shrinks again while they begin in time."""

    def __init__(self) -> None:
        self.span = SHORTEST

    def learn(self, ended: Iterable[Attempt]) -> None:
        """Take into account how attempts that ended had begun."""
        rated = [attempt for attempt in ended if attempt.begin_by]
        if any(attempt.late for attempt in rated):
            self.span = min(2 * self.span, LONGEST)
            log.warning("handlers begin late; claims give them %d ms from now on", self.span // MILLISECOND)
        elif rated:
            self.span = max(self.span - self.span // 16, SHORTEST)
