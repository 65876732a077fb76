"""Keep jobs flowing: settle what has ended, claim what can begin.

One thread does both, in one transaction.  While it is in flight outcomes gather and are settled
together in the next; when none is, they are settled at once.  Where many wait, and transactions do not hold up each
other, a second one of the `SecondPump` is in flight meanwhile.

Invariants: never more is claimed than can begin at once, in both together.  An attempt stays in `crew.running`, and its
lease is kept, until its settling was answered.  While starts have their moment only one claim is in flight.
"""

from collections.abc import Callable, Sequence
from typing import Final

from penstock.background.periodic import PeriodicThread
from penstock.clock import MILLISECOND, SECOND, pause, since_boot
from penstock.job import LEAD, Claim
from penstock.lifecycle.states import State
from penstock.worker.attempt import Attempt, Shift
from penstock.worker.backend import Backend
from penstock.worker.beginnings import Beginnings, report
from penstock.worker.crew import Crew
from penstock.worker.exchanges import Exchanges
from penstock.worker.expected import Expected
from penstock.worker.grace import Grace
from penstock.worker.job_log import JobLog
from penstock.worker.leases import Leases
from penstock.worker.queues import Choice
from penstock.worker.second_pump import SecondPump
from penstock.worker.starter import Starter
from penstock.worker.wakeups import Wakeups

# Look again after this long whatever the store said: the wall clock may have been set.
FALLBACK: Final = 5 * SECOND
LEAST_PAUSE: Final = 1 * MILLISECOND
# Where a transaction takes long, outcomes gather for a quarter of that before the next, but no longer than this.
LONGEST_MOMENT: Final = 2 * MILLISECOND
LEAST_MOMENT: Final = MILLISECOND // 2
# Exchanges of fewer attempts are not parted in two: what each costs by itself would count for more than is won.
LEAST_SHARE: Final = 100
# So long what has ended gathers while enough attempts stand by.
GATHER: Final = 20 * MILLISECOND


class Pump:
    """Moves attempts between the store and the *crew*; calls *idle* or *drained* when it finds itself so."""

    def __init__(
        self,
        engine: Backend,
        crew: Crew,
        shift: Shift,
        leases: Leases,
        choice: Choice,
        starter: Starter[Attempt],
        *,
        ends: JobLog,
        worker: str,
        lease: int,
        idle: Callable[[], None] | None,
        drained: Callable[[], None],
    ) -> None:
        self._engine = engine
        self._crew = crew
        self._shift = shift
        self._starter = starter
        self._choice = choice
        self._idle = idle
        self._drained = drained
        self._beginnings = Beginnings()
        self._tasks = sorted(crew.handlers)
        self._look = True
        self._look_at: int | None = None
        self._looked = since_boot()
        self._plenty = False  # the last claim got all it asked for
        self._gathers = False  # what ends is settled later: enough attempts stand by
        grace, expected = Grace(), Expected(crew.handlers)
        self._expected = expected
        self._exchanges, others = (
            Exchanges(
                engine,
                crew,
                shift,
                leases,
                starter,
                self._beginnings,
                grace,
                expected,
                ends=ends,
                worker=worker,
                lease=lease,
                tenant=choice.tenant,
            )
            for _ in range(2)
        )
        self.second = SecondPump(others, crew, choice.queues, self._may_overlap, self._changed)
        self.thread = PeriodicThread("pump", self._round)
        self.wakeups = Wakeups(engine, self._changed)

    def ring(self) -> None:
        """Look at what has ended."""
        if self._gathers and self._crew.standby.is_ample and not self._crew.frees:
            return
        self.thread.wake()
        self.second.ring()

    def look(self) -> None:
        """Look for jobs again."""
        self._changed()

    def _changed(self) -> None:
        self._look = True
        self.thread.wake()

    def _round(self) -> float:
        self._gathers = False
        self._take_ended()
        self._exchanges.cut_relays()
        self._crew.fill()
        if self._exchanges.pending.waiting:
            # What is given back may let something else begin, so settling and claiming go together.
            self._look = True
            if not self._shift.claims or (self._crew.capacity <= 0 and not self._standby()):
                self._exchanges.pending.settle()
        rest = FALLBACK
        if not self._shift.stopping:
            rest = self._claim()
        elif not self._crew.running and not self.second.busy:
            self._drained()
        # A claim that comes soon tells of those that have begun.
        if rest > LEAD and self._beginnings.are_due:
            self._tell_begun()
        # What was left to the second pump may still be there.
        rest = min(rest, self._beginnings.until(FALLBACK), self._crew.until_late(FALLBACK) + LEAST_PAUSE)
        self._gathers = len(self._crew.standby) > 0
        if self._gathers and self._crew.standby.is_ample and not self._crew.frees:
            return min(rest, GATHER) / SECOND
        return 0 if self._crew.left else rest / SECOND

    def _standby(self) -> int:
        """Return how many more attempts should stand by.

        None unless more waits than there are hands, and what ends pays for the exchange: then other workers have had
        the time to claim for their hands.
        """
        # What is handed back unbegun pays for nothing: it would be claimed again at once, and kept from others.
        pays = any(attempt.began for attempt in self._exchanges.pending.waiting)
        may = self._plenty and self._choice.alike and pays and not self._is_pacing()
        return self._crew.standby.room(self._expected) if may else 0

    def _take_ended(self) -> None:
        """Take the attempts that have ended; others may have a moment to end too, and share the transaction."""
        share = self._share()
        most = share or None
        ended = len(self._exchanges.take_ended(most))
        moment = min(self._exchanges.lasted // 4, LONGEST_MOMENT)
        if (
            ended
            and not len(self._crew.standby)
            and ended != most
            and moment >= LEAST_MOMENT
            and ended < len(self._crew.running)
            and not self._shift.stopping
        ):
            pause(moment / SECOND)
            self._exchanges.take_ended(most and most - ended)

    def _tell_begun(self) -> None:
        begun = self._beginnings.begun()
        if begun:
            self._engine.begun([report(attempt) for attempt in begun])
            self._beginnings.told(begun)

    def _claim(self) -> int:
        """Claim while there is something to begin; return how long to pause then."""
        if self._overdue():
            self._look = True
        while self._hungry():
            # Read before the claim, so that a change during it is a change to the wake-ups.
            revision = self._engine.revision()
            count = self._crew.capacity
            self._look = False
            try:
                with self.second.beside(self._share()):
                    claim = self._choice.claim(self._take, count)
            except BaseException:
                self._look = True
                raise
            # A claim that got all it asked for does not know what else there is.
            self._plenty = claim.at_once >= count
            if claim.more or self._plenty:
                self._look = True
            self._look_at = claim.next_at
            self._looked = since_boot()
            if self._exchanges.pending.waiting:
                return 0
            if len(self._crew.standby):
                break
            if not self._hungry():
                self._rest(claim, revision)
        return self._pause()

    def _hungry(self) -> bool:
        # Starts that have their moment are told of, and granted, by one claim at a time.
        willing = self._look and self._shift.claims and (self._crew.capacity > 0 or self._standby() > 0)
        return willing and not (self.second.busy and self._is_pacing())

    def _take(self, queues: Sequence[str], count: int) -> Claim:
        standby = self._standby()
        claim = self._exchanges.run(queues, self._crew.reserve(count), ahead=True, standby=standby)
        if standby and (claim.jobs or not claim.more):
            self._crew.standby.got(claim.at_once - count)
        return claim

    def _share(self) -> int:
        """Return how many attempts each of two exchanges at once may settle; 0 if there may be only one.

        Two are worth it while there is more to begin than places, and while exchanges are large.
        """
        share = self._crew.size // 2
        return share if share >= LEAST_SHARE and self._plenty and self._may_overlap() else 0

    def _may_overlap(self) -> bool:
        """Tell whether two exchanges may be under way: with starts that have their moment there is only one."""
        return self._choice.alike and self._engine.overlaps and self._shift.claims and not self._is_pacing()

    def _is_pacing(self) -> bool:
        return bool(self._beginnings) or self._starter.holds_any

    def _rest(self, claim: Claim, revision: int) -> None:
        if self._crew.capacity > 0:
            self.wakeups.watch(revision, found=bool(claim.jobs))
        # Jobs that the second pump claims now are seen nowhere yet; once it is no longer busy, it lets look again.
        if self._idle is None or self._crew.running or self.second.busy or self._look:
            return
        # If something has changed since the claim, the watcher lets it be asked again.
        if self._is_idle(claim.next_at) and self._engine.revision() == revision:
            self._idle()

    def _is_idle(self, next_at: int | None) -> bool:
        """Tell whether nothing will begin by itself any more; *next_at* is when the store changes by itself."""
        # A job that runs elsewhere may let one of ours begin when it ends.
        everywhere = self._engine.count()
        if everywhere.get(State.RUNNING):
            return False
        if self._engine.timers(self._choice.queues, self._choice.tenant):
            return False
        if State.WAITING not in everywhere and State.SCHEDULED not in everywhere:
            return True
        if next_at is None:
            # They wait for nothing but a person, as in a paused queue, and would keep the worker for ever.
            return True
        # It does not help to wait for jobs of tasks that this worker does not know.
        counts = [
            self._engine.count(queue=queue, tenant=self._choice.tenant, tasks=self._tasks)
            for queue in self._choice.queues
        ]
        if any(count.get(State.SCHEDULED) for count in counts):
            return False
        return not any(count.get(State.WAITING) for count in counts)

    def _overdue(self) -> bool:
        if self._look_at is not None and self._engine.clock.now() >= self._look_at:
            return True
        return since_boot() - self._looked >= FALLBACK

    def _pause(self) -> int:
        if self._look_at is None or self._crew.capacity <= 0:
            return FALLBACK
        return min(max(self._look_at - self._engine.clock.now(), LEAST_PAUSE), FALLBACK)
