"""Keep jobs flowing: settle what has ended, claim what can begin.

One thread does both, in one transaction.  While it is in flight outcomes gather and are settled
together in the next; when none is, they are settled at once.

Invariants: never more is claimed than can begin at once.  An attempt stays in `crew.running`, and its
lease is kept, until its settling was answered.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Final

from penstock.background.periodic import PeriodicThread
from penstock.clock import MILLISECOND, SECOND, pause, since_boot
from penstock.job import AHEAD, LEAD, Ahead, Claim, Claimed
from penstock.lifecycle.outcomes import HandedBack
from penstock.lifecycle.states import State
from penstock.names import one_line
from penstock.worker.attempt import Attempt, Shift
from penstock.worker.backend import Backend
from penstock.worker.crew import Crew
from penstock.worker.grace import Grace
from penstock.worker.handler import Handler
from penstock.worker.job_log import JobLog, fields, log
from penstock.worker.leases import Leases
from penstock.worker.queues import Choice
from penstock.worker.settlements import PendingSettlements
from penstock.worker.starter import Starter, UpperOffset
from penstock.worker.wakeups import Wakeups

# Look again after this long whatever the store said: the wall clock may have been set.
FALLBACK: Final = 5 * SECOND
# How long handlers have to begin before the pump asks which of them did.
BEGINNING: Final = 2 * MILLISECOND
LEAST_PAUSE: Final = 1 * MILLISECOND
# Where a transaction takes long, outcomes gather for a quarter of that before the next, but no longer than this.
LONGEST_MOMENT: Final = 2 * MILLISECOND
LEAST_MOMENT: Final = MILLISECOND // 2
SPARE: Final = 8  # of so many places one is not given to a start that is granted ahead
# A claim names the tasks that the worker knows.  A job of another task, as an older server may hand out, is left to
# others so long.
UNKNOWN_PAUSE: Final = 10 * SECOND


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
        self._worker = worker
        self._lease = lease
        self._idle = idle
        self._drained = drained
        self._pending = PendingSettlements(engine, crew.running, leases, ends)
        self._beginning: list[Attempt] = []
        self._grace = Grace()
        self._tasks = sorted(crew.handlers)
        self._look = True
        self._look_at: int | None = None
        self._looked = since_boot()
        self._lasted = 0  # how long the last transaction took
        self._latest = UpperOffset(engine.clock)
        self.thread = PeriodicThread("pump", self._round)
        self.wakeups = Wakeups(engine, self._changed)

    def _changed(self) -> None:
        self._look = True
        self.thread.wake()

    def _round(self) -> float:
        self._take_ended()
        if self._pending.waiting:
            # What is given back may let something else begin, so settling and claiming go together.
            self._look = True
            if self._shift.stopping or self._crew.capacity <= 0:
                self._pending.settle()
        rest = FALLBACK
        if not self._shift.stopping:
            rest = self._claim()
        elif not self._crew.running:
            self._drained()
        # A claim that comes soon tells of those that have begun.
        if self._beginning and rest > LEAD:
            self._tell_begun()
        return min(rest, self._until_begun()) / SECOND

    def _take_ended(self) -> None:
        """Take the attempts that have ended; others may have a moment to end too, and share the transaction."""
        # Into the list at once: what the crew has given up is settled, whatever raises from here on.
        ended = self._crew.ended()
        self._pending.waiting += ended
        moment = min(self._lasted // 4, LONGEST_MOMENT)
        if (
            ended
            and moment >= LEAST_MOMENT
            and len(ended) < len(self._crew.running)
            and not self._shift.stopping
        ):
            pause(moment / SECOND)
            late = self._crew.ended()
            self._pending.waiting += late
            ended += late
        self._grace.learn(ended)

    def _until_begun(self) -> int:
        """Return how long to wait until some of those that were claimed should have begun."""
        now = since_boot()
        planned = [max(0, attempt.begin_from - now) for attempt in self._beginning]
        return min(planned, default=FALLBACK) + BEGINNING

    def _tell_begun(self) -> None:
        begun = self._begun()
        if begun:
            self._engine.begun([_report(attempt) for attempt in begun])
            self._told(begun)

    def _begun(self) -> list[Attempt]:
        """Return the attempts that have begun and were not told of; settlements tell of those that have ended."""
        now = since_boot()
        self._beginning = [a for a in self._beginning if not a.ended and (a.began or now < a.begin_by)]
        return [attempt for attempt in self._beginning if attempt.begun()]

    def _told(self, begun: Collection[Attempt]) -> None:
        self._beginning = [attempt for attempt in self._beginning if attempt not in begun]

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
                claim = self._choice.claim(self._take, count)
            except BaseException:
                self._look = True
                raise
            # A claim that got all it asked for does not know what else there is.
            if claim.more or len(claim.jobs) >= count:
                self._look = True
            self._look_at = claim.next_at
            self._looked = since_boot()
            if self._pending.waiting:
                return 0
            if not self._hungry():
                self._rest(claim, revision)
        return self._pause()

    def _hungry(self) -> bool:
        return self._look and self._crew.capacity > 0

    def _take(self, queues: Sequence[str], count: int) -> Claim:
        """Claim from *queues*, settle in the same transaction what has ended, and begin what was claimed."""
        before = since_boot()
        offset = before - self._engine.clock.now()
        planned, begun = self._starter.ask(), self._begun()
        held = [_expected(attempt, at) for attempt, at in planned.items() if attempt not in begun]
        claim = self._pending.exchange(
            queues,
            count,
            worker=self._worker,
            lease=self._lease,
            grace=self._grace.span,
            tenant=self._choice.tenant,
            tasks=self._tasks,
            # Some places stay free for jobs that may begin at once.
            ahead=Ahead(AHEAD, count - max(1, count // SPARE), tuple(held), tuple(map(_report, begun))),
        )
        self._told(begun)
        self._lasted = since_boot() - before
        if claim.jobs:
            try:
                # If the wall clock was set meanwhile, the smaller offset makes everything seem later: that is safe.
                offset = min(offset, since_boot() - self._engine.clock.now())
                latest = self._latest.hear(max(job.started for job in claim.jobs))
                latest = max([latest, *(attempt.latest for attempt in planned)])
                self._begin(claim.jobs, offset, latest, before)
            except BaseException:
                self._hand_back(claim.jobs)
                raise
        self._pending.tell()
        return claim

    def _begin(self, jobs: Sequence[Claimed], offset: int, latest: int, renewed: int) -> None:
        handlers = self._crew.handlers
        attempts = [
            Attempt(
                job,
                handler,
                self._shift,
                offset=offset,
                renewed=renewed,
                lease=self._lease,
                latest=latest,
            )
            for job in jobs
            if (handler := handlers.get(job.task))
        ]
        self._crew.take(attempts)
        if any(attempt.begin_by for attempt in attempts):
            self._begin_paced(attempts)
        else:
            self._crew.send(attempts)
        if len(attempts) < len(jobs):
            self._pending.waiting += [self._unknown(job) for job in jobs if job.task not in handlers]

    def _begin_paced(self, attempts: Sequence[Attempt]) -> None:
        """Begin attempts some of which have their moment; the others begin at once."""
        paced = [attempt for attempt in attempts if attempt.begin_by]
        try:
            self._starter.plan(paced)
        except BaseException:
            self._crew.give_up(attempts)
            raise
        self._beginning += paced
        self._crew.send([attempt for attempt in attempts if not attempt.begin_by])
        self._starter.send_due()

    def _hand_back(self, jobs: Sequence[Claimed]) -> None:
        """Let others have those of *jobs* that were claimed and then got lost on their way to a handler."""
        known = {attempt.claimed.seq for attempt in (*self._crew.running, *self._pending.waiting)}
        self._pending.waiting += [self._left(job, HandedBack()) for job in jobs if job.seq not in known]

    def _left(self, job: Claimed, outcome: HandedBack) -> Attempt:
        attempt = Attempt(job, _NOBODY, self._shift, offset=0, renewed=since_boot(), lease=self._lease)
        attempt.end(outcome)
        return attempt

    def _unknown(self, job: Claimed) -> Attempt:
        """Return an attempt that is left to another worker, because this one has no handler for it."""
        known = ", ".join(sorted(self._crew.handlers)) or "none"
        log.error(
            "job %s: this worker has no task %r and leaves it to another for %d s; it knows: %s",
            one_line(job.id),
            job.task,
            UNKNOWN_PAUSE // SECOND,
            known,
            extra=fields(job) | {"outcome": "unknown"},
        )
        reason = f"worker {self._worker} does not know task {job.task!r}; start or deploy a worker that does"
        return self._left(job, HandedBack(after=UNKNOWN_PAUSE, reason=reason))

    def _rest(self, claim: Claim, revision: int) -> None:
        if self._crew.capacity > 0:
            self.wakeups.watch(revision, found=bool(claim.jobs))
        if self._idle is None or self._crew.running:
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


def _expected(attempt: Attempt, planned: int) -> tuple[int, int, int]:
    return attempt.claimed.seq, attempt.claimed.fence, attempt.expected_after(planned)


def _report(attempt: Attempt) -> tuple[int, int, int]:
    return attempt.claimed.seq, attempt.claimed.fence, attempt.began_after()


def _nobody() -> None:
    raise AssertionError("never called")


_NOBODY: Final = Handler(_nobody)
