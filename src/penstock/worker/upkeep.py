"""Keep the store tidy: rescue, expire, fire and prune, every few seconds and not all processes at once."""

import random
from collections.abc import Callable
from logging import Logger
from typing import Final

from penstock.background.periodic import PeriodicThread, log
from penstock.clock import SECOND, monotonic
from penstock.worker.backend import Backend

EVERY: Final = 4.0
PRUNE_EVERY: Final = 4 * SECOND
# At most so many ended jobs are deleted at once, so that a long history is worked off in small steps.
PRUNE: Final = 5_000


class Upkeep:
    """Calls the engine's upkeep about *every* so many seconds; deletes jobs that ended *keep* ago (None: never).

    Calls *look*, if there is one, each time.
    """

    def __init__(
        self,
        engine: Backend,
        keep: int | None,
        every: float = EVERY,
        logger: Logger = log,
        look: Callable[[], None] | None = None,
    ) -> None:
        self._engine = engine
        self._look = look
        self._keep = keep
        self._every = every
        self._began = False
        self._pruned = 0
        self.thread = PeriodicThread("upkeep", self._round, logger)

    def _round(self) -> float:
        if self._began:
            self._engine.upkeep()
            if self._keep is not None and monotonic() - self._pruned >= PRUNE_EVERY:
                self._engine.prune(self._engine.clock.now() - self._keep, PRUNE)
                self._pruned = monotonic()
            if self._look is not None:
                self._look()
        self._began = True
        return self._every * random.uniform(0.5, 1.5)  # noqa: S311
