"""Outcomes on their way to the store.

Invariants: an attempt stays in *waiting*, and in *running*, until its settling was answered, whatever raises.  What
was claimed along with it has begun, and its leases are kept, before the log is written: that may block.
"""

import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from penstock.errors import StoreError
from penstock.job import Ahead, Claim, Settled, Settlement
from penstock.lifecycle.outcomes import Done, Failed, Outcome
from penstock.worker.attempt import Attempt
from penstock.worker.backend import Backend
from penstock.worker.failure import failure
from penstock.worker.job_log import JobLog
from penstock.worker.leases import Leases

log = logging.getLogger("penstock.worker")

# How many attempts are settled in one transaction, and how many characters of outcomes: a request to a server holds
# both, if each takes four bytes.
MOST: Final = 5_000
MOST_CHARACTERS: Final = 2 * 2**20


class PendingSettlements:
    """Settles what is *waiting* and takes it out of *running*; `tell` writes it to *ends*, the log."""

    def __init__(self, engine: Backend, running: set[Attempt], leases: Leases, ends: JobLog) -> None:
        self.waiting: list[Attempt] = []
        self._engine = engine
        self._running = running
        self._leases = leases
        self._ends = ends
        self._untold: list[tuple[Attempt, Settled]] = []

    def settle(self) -> None:
        """Settle what is waiting, and write it to the log."""
        while piece := self._piece():
            try:
                answers = self._engine.settle(self._settlements(piece))
            except StoreError:
                raise
            except Exception as error:  # noqa: BLE001 - it is logged there
                self._one_by_one(piece, error)
            else:
                self._settled(piece, answers)
        self.tell()

    def exchange(
        self,
        queues: Sequence[str],
        count: int,
        *,
        worker: str,
        lease: int,
        grace: int,
        tenant: str | None = None,
        tasks: Sequence[str] | None = None,
        ahead: Ahead | None = None,
        relay: Sequence[tuple[str, int]] = (),
        standby: int = 0,
    ) -> Claim:
        """Claim, and settle in the same transaction what is waiting, or as much of it as one takes."""
        if piece := self._piece():
            try:
                answers, claim = self._engine.exchange(
                    self._settlements(piece), queues, count, worker=worker, lease=lease, grace=grace, tenant=tenant,
                    tasks=tasks, ahead=ahead, relay=relay, standby=standby,
                )  # fmt: skip
            except StoreError:
                raise
            except Exception as error:  # noqa: BLE001 - it is logged there
                self._one_by_one(piece, error)
            else:
                self._settled(piece, answers)
                return claim
        return self._engine.claim(
            queues, count, worker=worker, lease=lease, grace=grace, tenant=tenant, tasks=tasks, ahead=ahead,
            relay=relay, standby=standby,
        )  # fmt: skip

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

    def _piece(self) -> list[Attempt]:
        """Return the first of those that wait, as many as are settled in one transaction."""
        size = 0
        for count, attempt in enumerate(self.waiting[:MOST]):
            size += _size(attempt.outcome)
            if count and size > MOST_CHARACTERS:
                return self.waiting[:count]
        return self.waiting[:MOST]

    def _settlements(self, piece: Sequence[Attempt]) -> list[Settlement]:
        for attempt in piece:
            if attempt.progress is not None:
                self._leases.write_progress(attempt)
        return [attempt.settlement() for attempt in piece]

    def _one_by_one(self, piece: Sequence[Attempt], error: Exception) -> None:
        """Settle each alone after *error*, so that an attempt the engine fails on takes no other with it."""
        with suppress(Exception):  # a filter of the user's may raise
            log.error("could not settle %d attempts together", len(piece), exc_info=error)
        for attempt in piece:
            try:
                (answer,) = self._engine.settle([attempt.settlement()])
            except StoreError:
                raise
            except Exception as own:  # noqa: BLE001
                attempt.outcome, attempt.error = failure(own), own
                answer = self._as_failed(attempt)
            self._settled([attempt], [answer])

    def _as_failed(self, attempt: Attempt) -> Settled:
        """Settle *attempt* as failed; if the engine fails on that too, its lease runs out and is not renewed."""
        try:
            return self._engine.settle([attempt.settlement()])[0]
        except StoreError:
            raise
        except Exception:
            with suppress(Exception):
                log.exception("could not settle job %s at all", attempt.claimed.id)
            return False

    def _settled(self, attempts: Sequence[Attempt], answers: Sequence[Settled]) -> None:
        """Take the first of those that wait, which were answered, out of all lists."""
        # Only now: an outcome that the store could not take is offered again.
        del self.waiting[: len(attempts)]
        self._running.difference_update(attempts)
        self._untold += zip(attempts, answers, strict=False)  # what was claimed must not fall with it


def _size(outcome: Outcome | None) -> int:
    match outcome:
        case Done():
            return len(outcome.result)
        case Failed():
            return len(outcome.message) + len(outcome.traceback) + len(outcome.details)
        case _:
            return 0
