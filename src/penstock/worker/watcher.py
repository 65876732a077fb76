"""Tell the pump that the store has changed, without asking while nobody wants to know."""

from collections.abc import Callable
from typing import Final

from penstock.worker.backend import Backend
from penstock.worker.routine import Routine

# How long one wait in the store lasts, and so how long stopping may take.
SLICE: Final = 0.1


class Watcher:
    """Calls *changed* once when the store is no longer as it was at the token given to `watch`."""

    def __init__(self, engine: Backend, changed: Callable[[], None]) -> None:
        self._engine = engine
        self._changed = changed
        self._token: int | None = None
        self.routine = Routine("watcher", self._look)

    def watch(self, token: int) -> None:
        """Wait for a change after *token* from now on."""
        self._token = token
        self.routine.wake()

    def _look(self) -> float | None:
        token = self._token
        if token is None:
            return None
        if self._engine.wait(token, SLICE) != token and self._token == token:
            self._token = None
            self._changed()
        return 0
