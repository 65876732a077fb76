"""Keep the store tidy: rescue, expire and prune, every few seconds and not all workers at once."""

import random
from typing import Final

from penstock.worker.backend import Backend
from penstock.worker.routine import Routine

EVERY: Final = 4.0


class Upkeep:
    """Calls the engine's upkeep now and then."""

    def __init__(self, engine: Backend) -> None:
        self._engine = engine
        self._began = False
        self.routine = Routine("upkeep", self._turn)

    def _turn(self) -> float:
        if self._began:
            self._engine.upkeep()
        self._began = True
        return EVERY * random.uniform(0.5, 1.5)  # noqa: S311
