"""Exchange with the store: settle what has ended, claim what can begin, and begin it.

Invariants: what was claimed has begun, or is handed back, whatever raises.  A claim asks for places of the crew that
were reserved for it, so that two claims at once never get more than can begin at once.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from penstock.clock import SECOND, since_boot
from penstock.job import AHEAD, Ahead, Claim, Claimed
from penstock.lifecycle.outcomes import HandedBack
from penstock.names import one_line
from penstock.worker.attempt import Attempt, Shift
from penstock.worker.backend import Backend
from penstock.worker.beginnings import Beginnings, report
from penstock.worker.crew import Crew, Places
from penstock.worker.expected import Expected
from penstock.worker.grace import Grace
from penstock.worker.handler import Handler
from penstock.worker.job_log import JobLog, fields, log
from penstock.worker.leases import Leases
from penstock.worker.relay import in_relays
from penstock.worker.settlements import PendingSettlements
from penstock.worker.starter import Starter, UpperOffset

SPARE: Final = 8  # of so many places one is not given to a start that is granted ahead
# A claim names the tasks that the worker knows.  A job of another task, as an older server may hand out, is left to
# others so long.
UNKNOWN_PAUSE: Final = 10 * SECOND


class Exchanges:
    """The exchanges of one thread, one after the other; *pending* is what it took from the *crew* to settle."""

    def __init__(
        self,
        engine: Backend,
        crew: Crew,
        shift: Shift,
        leases: Leases,
        starter: Starter[Attempt],
        beginnings: Beginnings,
        grace: Grace,
        expected: Expected,
        *,
        ends: JobLog,
        worker: str,
        lease: int,
        tenant: str | None,
    ) -> None:
        self._engine = engine
        self._crew = crew
        self._shift = shift
        self._starter = starter
        self._beginnings = beginnings
        self._grace = grace
        self._expected = expected
        self._worker = worker
        self._lease = lease
        self._tenant = tenant
        self._tasks = sorted(crew.handlers)
        self._latest = UpperOffset(engine.clock)
        self.pending = PendingSettlements(engine, crew.running, leases, ends)
        self.lasted = 0  # how long the last transaction took

    def take_ended(self, most: int | None) -> list[Attempt]:
        """Take attempts that have ended from the crew, at most so many, to settle them."""
        # Into the list at once: what the crew has given up is settled, whatever raises from here on.
        ended = self._crew.ended(most)
        self.pending.waiting += ended
        self._grace.learn(ended)
        self._expected.learn(ended)
        return ended

    def cut_relays(self) -> None:
        """Hand back what has not begun of relays that have gone on for too long, and settle what has ended of them."""
        cut = self._crew.cut_late()
        self.pending.waiting += cut
        self._expected.learn(cut)

    def run(self, queues: Sequence[str], places: Places, *, ahead: bool, standby: int = 0) -> Claim:
        """Claim for *places*, settle in the same transaction what is pending, and begin what was claimed.

        Only one thread may claim *ahead*: it tells which starts are held for later, and may be granted more of them.
        """
        try:
            claim = self._run(queues, places, standby, ahead=ahead)
        finally:
            self._crew.release(places)
        self.pending.tell()
        return claim

    def _run(self, queues: Sequence[str], places: Places, standby: int, *, ahead: bool) -> Claim:
        before = since_boot()
        offset = before - self._engine.clock.now()
        planned = self._starter.ask() if ahead else {}
        begun = self._beginnings.begun() if ahead else []
        claim = self.pending.exchange(
            queues,
            places.count,
            worker=self._worker,
            lease=self._lease,
            grace=self._grace.span,
            tenant=self._tenant,
            tasks=self._tasks,
            ahead=_ahead(places.count, planned, begun) if ahead else None,
            relay=self._expected.short(),
            standby=standby,
        )
        self._beginnings.told(begun)
        self.lasted = since_boot() - before
        if claim.jobs:
            try:
                # If the wall clock was set meanwhile, the smaller offset makes everything seem later: that is safe.
                offset = min(offset, since_boot() - self._engine.clock.now())
                latest = self._latest.hear(max(job.started for job in claim.jobs))
                latest = max([latest, *(attempt.latest for attempt in planned)])
                self._begin(claim.jobs, places, offset, latest, before)
            except BaseException:
                self._hand_back(claim.jobs)
                raise
        return claim

    def _begin(self, jobs: Sequence[Claimed], places: Places, offset: int, latest: int, renewed: int) -> None:
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
        known = len(attempts)
        if any(job.after for job in jobs):
            attempts = in_relays(attempts)
        begin = self._crew.take(attempts, places)
        if any(attempt.begin_by for attempt in begin):
            self._begin_paced(begin)
        else:
            self._crew.send(begin)
        if known < len(jobs):
            self.pending.waiting += [self._unknown(job) for job in jobs if job.task not in handlers]

    def _begin_paced(self, attempts: Sequence[Attempt]) -> None:
        """Begin attempts some of which have their moment; the others begin at once."""
        paced = [attempt for attempt in attempts if attempt.begin_by]
        try:
            self._starter.plan(paced)
        except BaseException:
            self._crew.give_up(attempts)
            raise
        self._beginnings.add(paced)
        self._crew.send([attempt for attempt in attempts if not attempt.begin_by])
        self._starter.send_due()

    def _hand_back(self, jobs: Sequence[Claimed]) -> None:
        """Let others have those of *jobs* that were claimed and then got lost on their way to a handler."""
        known = {attempt.claimed.seq for attempt in (*list(self._crew.running), *self.pending.waiting)}
        self.pending.waiting += [self._left(job, HandedBack()) for job in jobs if job.seq not in known]

    def _left(self, job: Claimed, outcome: HandedBack) -> Attempt:
        attempt = Attempt(job, _NOBODY, self._shift, offset=0, renewed=since_boot(), lease=self._lease)
        attempt.end(outcome)
        return attempt

    def _unknown(self, job: Claimed) -> Attempt:
        """Return an attempt that is left to another worker, because this one has no handler for it."""
        known = ", ".join(self._tasks) or "none"
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


def _ahead(count: int, planned: Mapping[Attempt, int], begun: Iterable[Attempt]) -> Ahead:
    held = [_expected(attempt, at) for attempt, at in planned.items() if attempt not in begun]
    # Some places stay free for jobs that may begin at once.
    return Ahead(AHEAD, max(0, count - max(1, count // SPARE)), tuple(held), tuple(map(report, begun)))


def _expected(attempt: Attempt, planned: int) -> tuple[int, int, int]:
    return attempt.claimed.seq, attempt.claimed.fence, attempt.expected_after(planned)


def _nobody() -> None:
    raise AssertionError("never called")


_NOBODY: Final = Handler(_nobody)
