"""How many there are of each thing, beside the names of the pages: counted now and then, for all pages together."""

import threading
from collections import OrderedDict
from typing import Final

from penstock.clock import SECOND, monotonic
from penstock.engine import Engine
from penstock.job import Count, Tally

EVERY: Final = 5 * SECOND  # between two counts
TENANTS: Final = 100  # so many are remembered


class Tallies:
    """What was counted last, of all tenants and of each."""

    def __init__(self) -> None:
        self._known = OrderedDict[str | None, tuple[int, Tally | None]]()
        self._lock = threading.Lock()

    def refresh(self, engine: Engine, tenant: str | None) -> None:
        """Count again unless that was done a moment ago; while one counts, others do not."""
        now = monotonic()
        with self._lock:
            at, known = self._known.get(tenant, (now - EVERY, None))
            if now < at + EVERY:
                return
            self._note(tenant, now, known)
        tally = engine.all_counted(tenant)
        with self._lock:
            self._note(tenant, now, tally)

    def counts(self, tenant: str | None) -> dict[str, Count]:
        """Return what was counted last, by the path of its page."""
        with self._lock:
            _, tally = self._known.get(tenant, (0, None))
        if tally is None:
            return {}
        return {
            "/gates": tally.gates,
            "/jobs": tally.jobs,
            "/queues": tally.queues,
            "/workers": tally.workers,
            "/schedules": tally.schedules,
            "/workflows": tally.workflows,
        }

    def _note(self, tenant: str | None, at: int, tally: Tally | None) -> None:
        self._known[tenant] = (at, tally)
        self._known.move_to_end(tenant)
        if len(self._known) > TENANTS:
            self._known.popitem(last=False)
