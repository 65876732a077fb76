"""Outcomes on their way to the store.

Invariants: an attempt stays in *waiting*, and in *running*, until its settling was answered, whatever raises.  What
was claimed along with it has begun, and its leases are kept, before the log is written: that may block.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar

from penstock.errors import StoreError
from penstock.job import Settled, Settlement
from penstock.worker.attempt import Attempt
from penstock.worker.backend import Backend
from penstock.worker.failure import failure
from penstock.worker.job_log import JobLog
from penstock.worker.leases import Leases

log = logging.getLogger("penstock.worker")

T = TypeVar("T")


class PendingSettlements:
    """Settles what is *waiting* and takes it out of *running*; `tell` has *ends* tell of it."""

    def __init__(self, engine: Backend, running: set[Attempt], leases: Leases, ends: JobLog) -> None:
        self.waiting: list[Attempt] = []
        self._engine = engine
        self._running = running
        self._leases = leases
        self._ends = ends
        self._untold: list[tuple[Attempt, Settled]] = []

    def settle(self) -> None:
        """Settle what is waiting, and tell of it."""
        self.together(lambda reports: (self._engine.settle(reports), None))
        self.tell()

    def tell(self) -> None:
        """Write down how the attempts ended that were settled since the last call."""
        if not self._untold:
            return
        untold, self._untold = self._untold, []
        try:
            self._ends.tell([attempt for attempt, _ in untold], [answer for _, answer in untold])
        except Exception:
            with suppress(Exception):
                log.exception("could not tell how %d attempts ended", len(untold))

    def together(self, settle: Callable[[list[Settlement]], tuple[list[Settled], T]]) -> T | None:
        """Settle all at once, by means of *settle*; None if that failed, so that each was settled by itself."""
        try:
            answers, rest = settle(self._settlements())
        except StoreError:
            raise
        except Exception:
            with suppress(Exception):  # a filter of the user's may raise
                log.exception("could not settle %d attempts together", len(self.waiting))
            self._each()
            return None
        settled, self.waiting = self.waiting, []
        self._settled(settled, answers)
        return rest

    def _settlements(self) -> list[Settlement]:
        for attempt in self.waiting:
            if attempt.progress is not None:
                self._leases.write_progress(attempt)
        return [attempt.settlement() for attempt in self.waiting]

    def _each(self) -> None:
        """Settle one by one, so that an attempt the engine chokes on takes no other with it."""
        while self.waiting:
            attempt = self.waiting[-1]
            try:
                (answer,) = self._engine.settle([attempt.settlement()])
            except StoreError:
                raise
            except Exception as error:  # noqa: BLE001
                attempt.outcome, attempt.error = failure(error), error
                answer = self._as_failed(attempt)
            # Only now: an outcome that the store could not take is offered again.
            self.waiting.pop()
            self._settled([attempt], [answer])

    def _as_failed(self, attempt: Attempt) -> Settled:
        """Settle *attempt* as failed; if the engine chokes on that too its lease runs out, and is not renewed."""
        try:
            return self._engine.settle([attempt.settlement()])[0]
        except StoreError:
            raise
        except Exception:
            with suppress(Exception):
                log.exception("could not settle job %s at all", attempt.claimed.id)
            return False

    def _settled(self, attempts: Sequence[Attempt], answers: Sequence[Settled]) -> None:
        self._running.difference_update(attempts)
        self._untold += zip(attempts, answers, strict=False)  # what was claimed must not fall with it
