"""Keep the store up to date while the server runs, whether or not anybody fetches."""

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from penstock.clock import SECOND, monotonic
from penstock.engine import Engine
from penstock.errors import PenstockError, StoreBrokenError

EVERY: Final = 0.4  # seconds: a lease that ran out or a moment that came shows this soon
PRUNE_EVERY: Final = 5 * SECOND
PRUNE: Final = 5_000

log = logging.getLogger("penstock.server")


class Upkeep:
    """A thread that rescues, expires, fires and prunes; jobs that ended *keep* microseconds ago are forgotten.

    If the store is broken it ends, and *broken* is told.
    """

    def __init__(self, engine: Engine, keep: int | None, broken: Callable[[StoreBrokenError], None]) -> None:
        self._engine = engine
        self._keep = keep
        self._broken = broken
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, name="penstock-upkeep", daemon=True)
        self._well = True

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, and wait for what is under way."""
        self._over.set()
        self._thread.join(5)

    def _work(self) -> None:
        pruned = monotonic()
        while not self._over.wait(EVERY):
            try:
                self._engine.upkeep()
                if self._keep is not None and monotonic() - pruned > PRUNE_EVERY:
                    self._engine.prune(self._engine.clock.now() - self._keep, PRUNE)
                    pruned = monotonic()
                if not self._well:
                    log.warning("the store can be reached again")
                self._well = True
            except StoreBrokenError as error:
                self._broken(error)
                return
            except Exception as error:
                if self._well:
                    known = isinstance(error, PenstockError)
                    with suppress(Exception):  # a filter of the user's may raise
                        log.warning(
                            "the store cannot be kept up to date, trying again: %s",
                            error,
                            exc_info=None if known else error,
                        )
                self._well = False
                self._over.wait(1)
