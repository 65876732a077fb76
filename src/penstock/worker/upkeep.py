"""Keep the store tidy: rescue, expire and prune, every few seconds and not all workers at once."""

import random
from typing import Final

from penstock.background.periodic import PeriodicThread
from penstock.worker.backend import Backend

EVERY: Final = 4.0
# At most so many ended jobs are forgotten in one turn, so that a long history is worked off in small steps.
PRUNE: Final = 5_000


class Upkeep:
    """Calls the engine's upkeep now and then; forgets jobs that ended *keep* microseconds ago (None: never)."""

    def __init__(self, engine: Backend, keep: int | None) -> None:
        self._engine = engine
        self._keep = keep
        self._began = False
        self.thread = PeriodicThread("upkeep", self._round)

    def _round(self) -> float:
        if self._began:
            self._engine.upkeep()
            if self._keep is not None:
                self._engine.prune(self._engine.clock.now() - self._keep, PRUNE)
        self._began = True
        return EVERY * random.uniform(0.5, 1.5)  # noqa: S311
