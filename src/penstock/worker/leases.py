"""Keep the leases of running attempts, and learn from the store what became of them.

Has its own thread, so that a blocked event loop or a busy pump loses no lease.
"""

from collections.abc import Callable, Collection
from typing import Final

from penstock.background.periodic import PeriodicThread
from penstock.clock import SECOND, since_boot
from penstock.errors import StoreError
from penstock.worker.attempt import Attempt
from penstock.worker.backend import Backend
from penstock.worker.job_log import warn

PROGRESS_EVERY: Final = SECOND // 2
# How soon after another a heartbeat may be that only asks whether a job shall be cancelled.
ASK_EVERY: Final = SECOND


class Leases:
    """Renews, three times per *lease*, every attempt of *running* that is not new.

    Does so earlier if the store has changed: perhaps a job shall be cancelled.
    """

    def __init__(
        self, engine: Backend, running: Collection[Attempt], lease: int, interrupt: Callable[[Attempt], None]
    ) -> None:
        self._engine = engine
        self._running = running
        self._lease = lease
        self._interrupt = interrupt
        self._pace = min(lease // 3, ASK_EVERY)
        self._next_ask = 0
        self._next_beat = 0
        self._revision = 0
        self._next_progress = 0
        self._moved: dict[Attempt, None] = {}
        self._spending: dict[Attempt, None] = {}
        self.thread = PeriodicThread("leases", self._round)

    def note_progress(self, attempt: Attempt) -> None:
        """Write the progress of *attempt* soon, but not too often."""
        if attempt not in self._moved:
            self._moved[attempt] = None
            self.thread.wake()

    def note_spending(self, attempt: Attempt) -> None:
        """Report what *attempt* used at once: others may wait for what it did not use."""
        if attempt not in self._spending:
            self._spending[attempt] = None
            self.thread.wake()

    def write_progress(self, attempt: Attempt) -> None:
        """Write the progress of *attempt* now, if there is any to write."""
        self._moved.pop(attempt, None)
        text = attempt.progress
        if text is None:
            return
        try:
            alive = self._engine.progress(attempt.claimed.seq, attempt.claimed.fence, text)
        except StoreError:
            self._moved[attempt] = None
            raise
        if attempt.progress is text:  # else the handler is further already
            attempt.progress = None
        if not alive:
            self.lose(attempt)

    def lose(self, attempt: Attempt) -> None:
        """Treat *attempt* as one that another worker may hold now."""
        if attempt.lost or attempt.ended:
            return
        attempt.lost = True
        self._interrupt(attempt)
        warn(attempt, "lost its lease while it ran: another worker may run it too")

    def _round(self) -> float:
        now = since_boot()
        if now >= self._next_beat or (now >= self._next_ask and self._revision != self._engine.revision()):
            # Read before the beat: a request to cancel that comes meanwhile is a change to the next one.
            revision = self._engine.revision()
            all_asked = self._beat(now)
            self._next_beat = now + self._lease // 3
            self._revision = revision if all_asked else -1
        if now >= self._next_ask:
            self._next_ask = now + self._pace
        if self._spending:
            self._report_spending()
        if self._moved and now >= self._next_progress:
            self._next_progress = now + PROGRESS_EVERY
            for attempt in list(self._moved):
                self.write_progress(attempt)
        until = min(self._next_ask, self._next_progress) if self._moved else self._next_ask
        return max(0, until - since_boot()) / SECOND

    def _report_spending(self) -> None:
        noted = list(self._spending)
        for attempt in noted:
            del self._spending[attempt]
        # Those that ended report it with their outcome.
        told = [
            (attempt, used) for attempt in noted if (used := attempt.used) is not None and not attempt.ended
        ]
        reports = [(attempt.claimed.seq, attempt.claimed.fence, used) for attempt, used in told]
        try:
            answers = self._engine.spend(reports)
        except StoreError:
            self._spending.update(dict.fromkeys(noted))
            raise
        for (attempt, used), alive in zip(told, answers, strict=True):
            if attempt.used is used:  # else the handler has reported more
                attempt.used = None
            if not alive:
                self.lose(attempt)

    def _beat(self, now: int) -> bool:
        """Renew what is not new; tell whether that was all."""
        running = list(self._running)
        old = [attempt for attempt in running if now - attempt.renewed >= self._pace // 2]
        kept = [attempt for attempt in old if not attempt.lost]
        if not kept:
            return not running
        beats = self._engine.heartbeat([(a.claimed.seq, a.claimed.fence) for a in kept], lease=self._lease)
        for attempt, beat in zip(kept, beats, strict=True):
            if not beat.alive:
                self.lose(attempt)
                continue
            # From before the call, so that the store never forgets a lease before the worker does.
            attempt.renewed = now
            attempt.lease_end = now + self._lease
            if beat.cancel_asked and not attempt.cancel_asked:
                attempt.cancel_asked = True
                self._interrupt(attempt)
        return len(old) == len(running)
