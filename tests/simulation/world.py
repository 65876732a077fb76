"""The engine on a virtual machine, the model beside it, workers, and a referee who watches the workers.

What happens is told by plain tuples that name jobs, so that a history can be replayed with some of it
left out.  What makes no sense any more does nothing.
"""

import random
from collections.abc import Callable, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from msgspec.structs import replace

from penstock.engine import Engine
from penstock.errors import DuplicateJobError, GateShutError, NotFoundError, WrongStateError
from penstock.job import (
    RELAY,
    Ahead,
    Claim,
    Claimed,
    ClaimFor,
    JobFilter,
    NewJob,
    Order,
    Refresh,
    Schedule,
    Settlement,
)
from penstock.lifecycle.outcomes import Again, Cancelled, Done, Failed, HandedBack, Limited, Outcome
from penstock.lifecycle.overlap import Overlap
from penstock.lifecycle.retry import Backoff, Exhausted, RetryPolicy
from penstock.lifecycle.states import ENDED as ENDS
from penstock.lifecycle.states import State
from penstock.lifecycle.unique import OnDuplicate, Unique
from penstock.limits.rules import Floating, Limit, OnLimit, numbers_from_text
from tests.simulation.machine import BEGINNING, UPTIME, gates_taken, machine
from tests.simulation.model import (
    AFTER,
    ANY,
    GRACE,
    LIVE,
    RUNNING,
    WAITING,
    Gate,
    Job,
    Mismatch,
    Model,
    Name,
    knows,
)
from tests.simulation.referee import Attempt, Pass, Referee

T = TypeVar("T")
Operation = tuple[Any, ...]

LEASE = 15_000_000
BEGIN_WITHIN = 45_000
STEP = 1_000_000  # a clock that is off by this was set
EXAMINED = 8  # operations between two examinations of all that is stored
SHOWN = (State.SCHEDULED, State.WAITING, State.RUNNING)
OVER = {"job.started", *(f"job.{state}" for state in ENDS)}
OPEN = Gate()  # nothing was decided about it
PATIENCE = 600  # rounds until all must be at rest

PLACES = """
    SELECT j.id, p.place FROM (
        SELECT seq, 'scheduled' AS place FROM scheduled UNION ALL SELECT seq, 'waiting' FROM ready
        UNION ALL SELECT seq, 'waiting' FROM lane_job UNION ALL SELECT seq, 'waiting' FROM door
        UNION ALL SELECT seq, 'running' FROM running UNION ALL SELECT seq, 'after' FROM successor
    ) AS p JOIN job j ON j.seq = p.seq
    """
ENDED = (
    "SELECT j.id, d.state FROM done d JOIN job j ON j.seq = d.seq WHERE j.id IN (SELECT value FROM each(?))"
)
SERVED = "SELECT queue, tenant, number FROM served"
SLOTS = "SELECT kind, tenant, name, running FROM gate WHERE running <> 0 AND kind = 'key'"
GATES = "SELECT kind, tenant, name FROM gate"
TO_COME = "SELECT count(*) FROM scheduled"
APART = "SELECT 1 FROM task_part WHERE queue = ? AND task = ?"
# The lanes of some jobs, each with its line if it is parked.
LANES = """
    SELECT DISTINCT l.id, l.line FROM job j JOIN lane_job i ON i.seq = j.seq JOIN lane l ON l.id = i.lane
    WHERE j.id IN (SELECT value FROM each(?))
    """
IN_USE = "SELECT name FROM gate WHERE running <> 0 OR lanes <> 0"
TURNS = """
    SELECT kind, gate.tenant, name, job.id FROM turn
    JOIN gate ON gate.id = turn.gate JOIN job ON job.seq = turn.seq WHERE until IS NULL OR until > ?
    """


class Undone(Exception):
    """The process died before anything was committed."""


@dataclass
class Hand:
    """An attempt in a worker's hands; its handler begins at *begins* unless the worker dies before."""

    claimed: Claimed
    attempt: Attempt
    worker: str
    begins: int | None
    planned: int | None = None  # for which moment it was granted, if its worker keeps distances

    def after(self, began: int | None) -> int | None:
        """Return how long after its claim the handler began."""
        return None if began is None else began - self.attempt.claimed

    def settlement(self, outcome: Operation, began: int | None, used: dict[str, int]) -> Settlement:
        seq, fence = self.claimed.seq, self.claimed.fence
        return Settlement(seq, fence, outcome_of(*outcome), self.after(began), used=used or None)


# Numbers that jobs bring in `press`: those with the small ones are passed by the others, unless they get the turn.
FLOWING = {"F": "t10/100000", "G": "r4/100000", "H": "t10/100000/3"}
SMALL = {"S": "c1", "T": "r1/300000", "U": "t1/300000"}
LARGE = {"S": "c3", "T": "r20/300000", "U": "t20/300000"}


class World:
    """Everything there is.  Mode A: turns off, costs 1, every answer is foretold.  B: costs.  C: turns.

    With a *url* the store is a PostgreSQL database.  *by_door* has every enqueue there find the gates taken,
    so that its jobs are let in later.
    """

    def __init__(self, mode: str = "A", url: str | None = None, *, by_door: bool = False) -> None:
        self.mode = mode
        self._by_door = by_door
        self._open = ExitStack()
        if by_door:
            self._open.enter_context(gates_taken())
        self.machine = self._open.enter_context(machine(url, turns=mode == "C"))
        self.offset = BEGINNING - UPTIME
        self.model = Model(self.now)
        self.model.name_of = lambda schedule: self.engine.schedule(schedule.name).last_job or ""
        self.referee = Referee()
        self.hands: dict[str, Hand] = {}
        self.former: dict[str, list[Hand]] = {}
        self.lent: dict[Name, list[Refresh]] = {}
        self.blocked: set[object] = set()  # jobs that were told to be, and have neither started nor ended
        self.released: set[object] = set()  # those of them that were told to start
        self.trace: list[str] = []
        self._foretold: dict[str, tuple[int, int]] = {}
        self._changes = 0  # what may bring a job forward
        self._ended = 0
        self._done = 0
        self._crash: int | None = None
        self._silent = False

    @property
    def engine(self) -> Engine:
        return self.machine.engine

    @property
    def now(self) -> int:
        """The engine's time."""
        return self.machine.since_start + self.offset

    def do(self, operation: Operation) -> None:
        """Let something happen, and see that all is well."""
        verb, *rest = operation
        self.machine.counts[verb] += 1
        self.model.now = self.now
        with suppress(Undone):
            getattr(self, f"_{verb}")(*rest)
        self._begin_handlers()
        self._hear()
        self._compare()
        self._done += 1
        if self._done % EXAMINED == 0:
            self._examine()
        if complaints := self.referee.look(self.machine.since_start):
            raise Mismatch(complaints[0])
        self.trace.append(f"{operation!r} {self._summary()}")

    def close(self) -> None:
        self._open.close()

    # What users do.

    def _enqueue(self, asks: Sequence[dict[str, Any]]) -> None:
        if self._by_door:
            self._upkeep()  # so that the next upkeep does nothing but let these in
        jobs = [new_job(ask, self.now) for ask in asks]
        try:
            answers = self._ask(lambda engine: engine.enqueue(jobs))
        except DuplicateJobError:
            answers = None
        told = self.model.enqueue(asks)
        same("enqueued", told, None if answers is None else [(a.id, a.reused) for a in answers])
        self._changes += any("unique" in ask for ask in asks)
        if self._by_door:
            self._upkeep()

    def _cancel(self, name: str) -> None:
        if name in self.model.jobs:
            self._changes += 1
            answer = refused(lambda: self._ask(lambda engine: engine.cancel(name)).value)
            same(f"cancelling {name}", self.model.cancel(name), answer)

    def _retry(self, name: str) -> None:
        if name in self.model.jobs:
            answer = refused(lambda: self._ask(lambda engine: engine.retry(name)) or True)
            same(f"retrying {name}", self.model.retry(name), bool(answer))

    def _expedite(self, name: str) -> None:
        if name in self.model.jobs:
            self._changes += 1
            answer = refused(lambda: self._ask(lambda engine: engine.expedite(name)).value)
            same(f"expediting {name}", self.model.expedite(name), answer)

    def _claim_one(self, name: str, lag: int | None = 0, worker: str = "w1") -> None:
        """Take one job by its id; its handler begins so long after that, or never."""
        if name not in self.model.jobs:
            return
        self._upkeep()  # what is due happens in any case: a refused claim leaves nothing of it
        self._changes += 1
        turns = self._turns()
        claimed = refused(
            lambda: self._ask(lambda engine: engine.claim_one(name, worker=worker, lease=LEASE))
        )
        job = self.model.take(name, LEASE, turns, taken=claimed is not None)
        if claimed is not None:
            self.machine.counts["taken by its id"] += 1
            self._take(job, claimed, worker, lag)

    def _configure(self, scope: str, name: str, text: str | None, tenant: str = "") -> None:
        self._changes += 1
        told = None if text is None else numbers_from_text(text)
        self._ask(lambda engine: engine.configure(scope, name, told, tenant=tenant))
        self.model.configure((scope, tenant, name), text)

    def _override(self, key: str, text: str, span: int | None, tenant: str = "") -> None:
        self._changes += 1
        until = None if span is None else self.now + span
        self._ask(lambda engine: engine.override(key, numbers_from_text(text), until=until, tenant=tenant))
        self.model.override(("key", tenant, key), text, until)

    def _clear_override(self, key: str, tenant: str = "") -> None:
        self._changes += 1
        with suppress(NotFoundError):  # no job has named the key yet
            self._ask(lambda engine: engine.clear_override(key, tenant=tenant))
        self.model.clear_override(("key", tenant, key))

    def _shut(self, key: str, span: int, tenant: str = "") -> None:
        until = self.now + span
        self._ask(lambda engine: engine.shut(key, until, tenant=tenant))
        self.model.shut(("key", tenant, key), until)

    def _pause(self, queue: str) -> None:
        self._ask(lambda engine: engine.pause(queue))
        self.model.pause(queue, paused=True)

    def _resume(self, queue: str) -> None:
        self._changes += 1
        self._ask(lambda engine: engine.resume(queue))
        self.model.pause(queue, paused=False)

    def _schedule(self, name: str, minutes: int, ask: dict[str, Any], overlap: str) -> None:
        job = new_job({"name": None, **ask}, self.now)
        wanted = Schedule(name, f"*/{minutes} * * * *", job, overlap=Overlap(overlap))
        self._ask(lambda engine: engine.set_schedule(wanted))
        self.model.set_schedule(name, minutes, ask, overlap)

    def _enable_schedule(self, name: str, enabled: bool) -> None:
        if name in self.model.schedules:
            verb = Engine.resume_schedule if enabled else Engine.pause_schedule
            self._ask(lambda engine: verb(engine, name))
            self.model.enable_schedule(name, enabled=enabled)

    def _why(self, name: str) -> None:
        """Ask why a job waits: every shut gate must be named, and what is foretold must come true."""
        job = self.model.jobs.get(name)
        if job is None:
            return
        why, view = self.engine.why(name), self.engine.job(name)
        known = "scheduled" if view.rescheduled else job.shown
        same(f"state of {name}", known, why.state.value)
        same(f"state of {name} in its view", view.state, why.state)
        same(
            f"whether {name} is listed so",
            view.rescheduled,
            job.state == WAITING and name in self._scheduled(),
        )
        if job.earlier is not None and job.state == AFTER:
            same(f"why of {name}", f"waits for job {job.earlier.name} to end", why.sentence.partition(";")[0])
        if job.state != WAITING:
            return
        gates = self.model.shut_gates(job)
        shut = {f"queue {gate}" if scope == "queue" else gate for scope, _, gate in gates}
        if not shut <= {reason.gate for reason in why.reasons}:
            raise Mismatch(f"{name} waits for {shut}, but why says {why.sentence}")
        self._foretell(job, why.place, why.earliest)

    # What workers do.

    def _claim(
        self,
        queues: Sequence[str],
        count: int,
        lease: int = LEASE,
        lags: Sequence[int | None] = (0,),
        worker: str = "w1",
        tasks: Sequence[str] | None = None,
        relay: Sequence[tuple[str, int]] = (),
        standby: int = 0,
    ) -> None:
        """Take jobs, of *tasks* if they are named; their handlers begin so long after that, one by one, or never."""
        self._claims([(queues, count, lease, worker, tasks)], lags, relay=relay, standby=standby)

    def _claims(
        self,
        requests: Sequence[tuple[Any, ...]],
        lags: Sequence[int | None] = (0,),
        order: str = "priority",
        relay: Sequence[tuple[str, int]] = (),
        standby: int = 0,
    ) -> None:
        """Take jobs for several workers in one transaction, as if for one after the other."""
        wanted = [
            ClaimFor(
                tuple(queues),
                count,
                worker,
                lease,
                GRACE,
                order=Order(order),
                tasks=(*tasks, None)[0],
                relay=tuple(relay),
                standby=standby,
            )
            for queues, count, lease, worker, *tasks in requests
        ]
        # What is recorded of a tenant that was served is known at the end of a transaction, not of each claim in it.
        alone = any(job.tenant for job in self.model.live.values())
        for together in [[one] for one in wanted] if alone else [wanted]:
            self.model.served = self._served()
            claims = self._ask(lambda engine, asked=together: engine.claims(asked))
            self._note_served()
            for claim, one in zip(claims, together, strict=True):
                self._given(claim, one, lags)

    def _claim_ahead(
        self,
        queues: Sequence[str],
        count: int,
        lags: Sequence[int] = (0,),
        worker: str = "w1",
        tasks: Sequence[str] | None = None,
    ) -> None:
        """Take jobs, also some that the clock lets start soon; each begins so long after its moment.

        What follows one that is late begins by as much later.
        """
        true, mine = self.machine.since_start, self._held_by(worker)
        held = [(h.claimed.seq, h.claimed.fence, at - h.attempt.claimed) for h, at in mine]
        wanted = ClaimFor(
            tuple(queues), count, worker, LEASE, GRACE, tasks=tasks, ahead=Ahead(most=count, held=tuple(held))
        )
        self.model.served = self._served()
        (claim,) = self._ask(lambda engine: engine.claims([wanted]))
        self._note_served()
        jobs = list(claim.jobs)
        with self.model.expecting({h.attempt.job: self.now - true + at for h, at in mine}):
            while claim.more and len(jobs) < count:
                (claim,) = self.engine.claims([replace(wanted, count=count - len(jobs))])
                jobs += claim.jobs
            at_once = [job for job in jobs if not job.begin_from]
            started = self._started(at_once, queues, len(at_once), wanted)
            for granted in jobs:
                if granted.begin_from:
                    self.machine.counts["granted ahead"] += 1
                    started.append(
                        self.model.start_later(granted.id, queues, granted.begin_from, LEASE, tasks)
                    )
            expected = self.model.may_start(queues, self._turns(), tasks)
        if len(jobs) < count:
            # A turn may stand by what the caller expects of its starts, and not by what all see of them.
            seen = self.model.may_start(queues, self._turns(), tasks)
            self.model.none_left(name for name in seen if name in expected)
        ahead = [job for job in jobs if job.begin_from]
        for number, (job, claimed) in enumerate(zip(started, at_once + ahead, strict=True)):
            planned = true + (claimed.begin_from - self.now if claimed.begin_from else 0)
            late = [
                hand.begins - at
                for hand, at in self._held_by(worker)
                if hand.begins is not None and at < planned
            ]
            lag = max(late, default=0) + lags[number % len(lags)]
            self._take(job, claimed, worker, None if lag > BEGIN_WITHIN else lag, planned)

    def _held_by(self, worker: str) -> list[tuple[Hand, int]]:
        """Return what a worker that keeps distances holds, and when each began or should begin."""
        return [
            (hand, hand.planned if hand.attempt.began is None else hand.attempt.began)
            for hand in self.hands.values()
            if hand.worker == worker and hand.planned is not None and hand.begins is not None
        ]

    def _exchange(
        self,
        reports: Sequence[tuple[str, Operation, bool]],
        queues: Sequence[str],
        count: int,
        lease: int = LEASE,
        lags: Sequence[int | None] = (0,),
        worker: str = "w1",
        tasks: Sequence[str] | None = None,
        relay: Sequence[tuple[str, int]] = (),
        standby: int = 0,
    ) -> None:
        """Settle and take jobs in one transaction."""
        told, settlements = self._settlements(reports)
        self.model.served = self._served()
        accepted, claim = self._ask(
            lambda engine: engine.exchange(
                settlements,
                queues,
                count,
                worker=worker,
                lease=lease,
                tasks=tasks,
                relay=relay,
                standby=standby,
            )
        )
        self._note_served()
        self._settled(told, accepted)
        wanted = ClaimFor(
            tuple(queues), count, worker, lease, GRACE, tasks=tasks, relay=tuple(relay), standby=standby
        )
        self._given(claim, wanted, lags)

    def _given(self, claim: Claim, wanted: ClaimFor, lags: Sequence[int | None]) -> None:
        """Compare what a worker was given, asking on for as long as there is more."""
        jobs, following = _parted(claim)
        while claim.more and len(jobs) < wanted.count:
            self.machine.counts["asked again"] += 1
            (claim,) = self.engine.claims([replace(wanted, count=wanted.count - len(jobs))])
            same("handed on by a claim that knows of more", [], following)
            more, following = _parted(claim)
            jobs += more
        self.model.tick()  # what is due comes about, also if no job starts
        jobs, standing = jobs[: wanted.count], jobs[wanted.count :]
        # Strictly one queue after the other is a claim on each, as long as there is room.
        strict = wanted.order is Order.STRICT
        left, started = jobs, []
        for queues in [[queue] for queue in wanted.queues] if strict else [wanted.queues]:
            mine = [job for job in left if job.queue in queues]
            same("first of the queues", mine, left[: len(mine)])
            left = left[len(mine) :]
            started += self._started(mine, queues, wanted.count - len(started), wanted)
        same("of other queues", [], left)
        for number, (job, claimed) in enumerate(zip(started, jobs, strict=True)):
            self._take(job, claimed, wanted.worker, lags[number % len(lags)])
        self._handed_on(jobs, following, wanted)
        if standing:
            same("handed on where jobs stand by", [], following)
            same("when to look again though jobs stand by", (False, self.now), (claim.more, claim.next_at))
            self._stand_by(standing, wanted, lags)
        if len(jobs) < wanted.count:
            self._see_rescheduled(wanted)
        if len(jobs) < wanted.count and self.mode == "A":
            live = self.model.live.values()
            coming = [job for job in live if job.queue in wanted.queues and knows(wanted.tasks, job)]
            opening = self.model.opening(coming, before=claim.next_at, lapse=True)
            if opening is not None:
                raise Mismatch(f"a claim on {wanted.queues} finds a job at {opening}, not at {claim.next_at}")

    def _handed_on(self, jobs: Sequence[Claimed], following: Sequence[Claimed], wanted: ClaimFor) -> None:
        """Have the model start the same after others; each begins when the one before has ended."""
        names = {job.seq: job.id for job in (*jobs, *following)}
        left = self.model.may_start(wanted.queues, self._turns(), wanted.tasks) if following else ()
        expected = dict(wanted.relay)
        spans = {job.seq: expected.get(job.task, 0) for job in jobs}
        for claimed in following:
            self.machine.counts["handed on"] += 1
            spans[claimed.seq] = spans[claimed.after] + expected[claimed.task]
            if spans[claimed.seq] > RELAY:
                raise Mismatch(f"the relay that ends with {claimed.id} takes {spans[claimed.seq]} us")
            earlier = names[claimed.after]
            job = self.model.start_after(claimed.id, earlier, wanted.lease, left, wanted.tasks)
            self._take(
                job, claimed, wanted.worker, None, after=self.hands.get(earlier) or self.former[earlier][-1]
            )

    def _stand_by(self, jobs: Sequence[Claimed], wanted: ClaimFor, lags: Sequence[int | None]) -> None:
        """Have the model start the same beyond the count, in order, if they may stand by."""
        if len(jobs) > wanted.standby:
            raise Mismatch(f"{len(jobs)} stand by, at most {wanted.standby} were asked for")
        short = dict(wanted.relay)
        for number, claimed in enumerate(jobs):
            self.machine.counts["stood by"] += 1
            job = self.model.stand_by(
                claimed.id, wanted.queues, wanted.lease, wanted.tasks, short, ordered=self.mode != "C"
            )
            self._take(job, claimed, wanted.worker, lags[number % len(lags)])

    def _see_rescheduled(self, wanted: ClaimFor) -> None:
        """See that all which a claim has left behind, though their queue is open, are scheduled if they may be."""
        free = {queue for queue in wanted.queues if self.model.gates.get(("queue", "", queue), OPEN) == OPEN}
        known = [job for job in self.model.waiting(free) if knows(wanted.tasks, job)]
        left = {job.name for job in known if job.can_be_rescheduled}
        if left:
            self.machine.counts["rescheduled"] += len(left)
            same("left behind and not scheduled", set(), left - self._scheduled())
        self._hear()
        # Behind a job of a task that the claim does not know, one that came while the gate was open is told of later.
        first = {job.kind: job for job in reversed(self.model.waiting(free)) if job.names_key}
        refused = {job.name for job in first.values() if knows(wanted.tasks, job) and not job.drops}
        same("refused and not told of", set(), refused - self.blocked)

    def _hear(self) -> None:
        """See that each job that a limit keeps from starting is told of once, and its release if it starts."""
        events = self.machine.events[:]
        self.machine.events.clear()
        for event in events:
            job = event.facts.get("job")
            if event.name == "limit.exceeded":
                same(f"whether {job} was told to be blocked", False, job in self.blocked)
                self.machine.counts["blocked"] += 1
                self.blocked.add(job)
            elif event.name == "limit.released":
                same(f"whether {job} was blocked", True, job in self.blocked)
                self.released.add(job)
            elif event.name == "job.started":
                same(f"whether {job} was released", job in self.blocked, job in self.released)
            if event.name in OVER:
                self.blocked.discard(job)
                self.released.discard(job)

    def _see_called(self) -> None:
        """See that no job is scheduled whose gates are open, if no other wants them."""
        waiting = self.model.waiting()
        able = {
            job.name
            for job in waiting
            if job.can_be_rescheduled
            and not self.model.shut_gates(job)
            and not any(other.names & job.names for other in waiting if other is not job)
        }
        if able:
            same("scheduled at open gates", set(), able & self._scheduled())

    def _scheduled(self) -> set[str]:
        """Return the jobs that the engine lists as scheduled."""
        found, _ = self.engine.matching(JobFilter(states=frozenset({"scheduled"})), 1_000_000)
        return {name for name, _ in found}

    def _started(
        self, jobs: Sequence[Claimed], queues: Sequence[str], count: int, wanted: ClaimFor
    ) -> list[Job]:
        """Have the model start the same, or explain it."""
        names = [job.id for job in jobs]
        if self.mode != "A":
            ordered = self.mode == "B"
            return self.model.follow(
                queues, count, wanted.lease, names, self._turns(), ordered=ordered, tasks=wanted.tasks
            )
        started = self.model.claim(queues, count, wanted.lease, wanted.queues, wanted.tasks) if count else []
        same("started", [job.name for job in started], names)
        return started

    def _take(
        self,
        job: Job,
        claimed: Claimed,
        worker: str,
        lag: int | None,
        planned: int | None = None,
        after: Hand | None = None,
    ) -> None:
        same(f"attempt of {job.name}", job.attempt, claimed.attempt)
        same(f"lease of {job.name}", job.lease, claimed.lease)
        passes = self._passes(job)
        # A gate may have forgotten that it remembered once, if no rule asks for it any more.
        if claimed.begin_by or any(passed.rate or passed.throttle for passed in passes):
            same(f"begin_by of {job.name}", (claimed.begin_from or self.now) + 50_000, claimed.begin_by)
        if job.name in self._foretold:
            earliest, changes = self._foretold.pop(job.name)
            if changes == self._changes and (claimed.begin_from or self.now) < earliest:
                raise Mismatch(f"{job.name} started at {self.now}, but why said not before {earliest}")
        job.fence = claimed.fence
        true = self.machine.since_start
        ends = claimed.lease - self.offset
        earlier = None if after is None else after.attempt
        attempt = self.referee.claimed(job.name, claimed.fence, true, ends, passes, earlier)
        begins = None if lag is None or self._silent else (true if planned is None else planned) + lag
        self._let_go(job.name)
        self.hands[job.name] = Hand(claimed, attempt, worker, begins, planned)
        if self._silent:
            self._let_go(job.name)  # its worker died before it heard of it

    def _settle(self, reports: Sequence[tuple[str, Operation, bool]]) -> None:
        """Settle attempts, given (job, outcome, whether to tell when it began) and perhaps what it used of each key."""
        told, settlements = self._settlements(reports)
        self._settled(told, self._ask(lambda engine: engine.settle(settlements)))

    def _settlements(
        self, reports: Sequence[tuple[str, Operation, bool]]
    ) -> tuple[list[tuple[str, Operation, int | None, dict[str, int]]], list[Settlement]]:
        """Return the reports that are about attempts in hand, and as the engine takes them."""
        told = []
        for name, outcome, tell, *used in reports:
            if name in self.hands:
                told.append((name, *self._report(name, outcome, tell), used[0] if used else {}))
        return told, [self.hands[name].settlement(*facts) for name, *facts in told]

    def _settled(
        self, told: Sequence[tuple[str, Operation, int | None, dict[str, int]]], accepted: Sequence[object]
    ) -> None:
        """Compare what the engine answered to settlements, and let their jobs go."""
        hands = {name: self.hands[name] for name, *_ in told}
        reports = []
        for name, outcome, began, used in told:
            at = None if began is None else began + self.offset
            reports.append((name, hands[name].claimed.fence, outcome, at, used))
        expected = self.model.settle(reports)
        same("settled", expected, [bool(answer) for answer in accepted])
        self._changes += 1
        for (name, outcome, _, used), answer in zip(told, expected, strict=True):
            self._note_spent(hands[name], used, accepted=answer)
            self.referee.ended(
                hands[name].attempt, self.machine.since_start, accepted=answer, done=outcome[0] == "done"
            )
            self._let_go(name)

    def _report(self, name: str, outcome: Operation, tell: bool) -> tuple[Operation, int | None]:
        """Return how the attempt ended and when it began, as an honest worker tells it."""
        hand = self.hands[name]
        if hand.attempt.began is None and (hand.planned is not None or self._is_too_late(hand)):
            outcome = ("handed back",)
        if hand.attempt.began is None and self._is_behind(hand):
            outcome = ("handed back",)
        if outcome[0] == "handed back":
            outcome = ("handed back", hand.attempt.began is not None)
        elif hand.attempt.began is None:
            self.referee.began(hand.attempt, self.machine.since_start)
        if outcome[0] == "limited":
            outcome = ("limited", self.now + outcome[1], outcome[2])
        began = hand.attempt.began
        return outcome, began if tell else None

    def _is_too_late(self, hand: Hand) -> bool:
        """Tell whether a handler may not begin any more, less what a worker keeps in reserve."""
        return hand.claimed.begin_by > 0 and self.machine.since_start > hand.attempt.claimed + BEGIN_WITHIN

    def _is_behind(self, hand: Hand) -> bool:
        """Tell whether the attempt that it follows may not have ended."""
        earlier = hand.attempt.after
        return earlier is not None and self.referee.holds(earlier, self.machine.since_start)

    def _settle_late(self, name: str) -> None:
        """Settle attempts that others have settled or lost."""
        for hand in self.former.get(name, ()):
            settlement = hand.settlement(("done",), None, {})
            accepted = self._ask(lambda engine, late=settlement: engine.settle([late]))
            expected = self.model.settle([(name, hand.claimed.fence, ("done",), None, {})])
            same("settled late", expected, accepted)
            if accepted == [True]:
                self._changes += 1
                self.referee.ended(hand.attempt, self.machine.since_start, accepted=True, done=True)

    def _begun(self, name: str) -> None:
        """Tell when a handler began."""
        hand = self.hands.get(name)
        if hand is None or hand.attempt.began is None:
            return
        after = hand.after(hand.attempt.began)
        self._ask(lambda engine: engine.begun([(hand.claimed.seq, hand.claimed.fence, after)]))
        self.model.begun(name, hand.claimed.fence, hand.attempt.began + self.offset)
        self._changes += 1

    def _spend(self, name: str, used: dict[str, int], late: bool = False) -> None:
        """Tell what an attempt used of each key; a *late* one has been settled or lost."""
        hand = self.hands.get(name)
        if late:
            hand = next(iter(self.former.get(name, ())), None)
        if hand is None:
            return
        carried = {limit[0] for limit in self.model.jobs[name].ask.get("limits", ())}
        used = {key: amount for key, amount in used.items() if key in carried}
        report = (hand.claimed.seq, hand.claimed.fence, used)
        (accepted,) = self._ask(lambda engine: engine.spend([report]))
        same("spent", self.model.spend(name, hand.claimed.fence, used), accepted)
        self._note_spent(hand, used, accepted=accepted)
        self._changes += 1

    def _note_spent(self, hand: Hand, used: dict[str, int], *, accepted: bool) -> None:
        for passed in hand.attempt.passes if accepted else ():
            if passed.gate[0] == "key" and passed.gate[2] in used:
                self.referee.spent(hand.attempt, passed.gate, used[passed.gate[2]])

    def _beat(self, name: str, lease: int = LEASE) -> None:
        if (hand := self.hands.get(name)) is None:
            return
        running = [(hand.claimed.seq, hand.claimed.fence)]
        (beat,) = self._ask(lambda engine: engine.heartbeat(running, lease=lease))
        same("beat", self.model.heartbeat(name, hand.claimed.fence, lease), (beat.alive, beat.cancel_asked))
        if beat.alive:
            self.referee.renewed(hand.attempt, self.machine.since_start + lease)

    def _die(self, worker: str) -> None:
        """A worker is killed: what it had is not settled."""
        for name in [name for name, hand in self.hands.items() if hand.worker == worker]:
            self._let_go(name)

    def _refreshes(self, worker: str, lease: int = LEASE) -> None:
        lent = self._ask(lambda engine: engine.refreshes(["h"], 100, worker=worker, lease=lease))
        fences = {("key", refresh.tenant, refresh.key): refresh.fence for refresh in lent}
        same("lent", self.model.refreshes(fences, lease), set(fences))
        self.machine.counts["refresh lent"] += len(lent)
        if not self._silent:
            for refresh in lent:
                self.lent.setdefault(("key", refresh.tenant, refresh.key), []).append(refresh)

    def _refreshed(self, key: str, tenant: str, value: int | None, old: bool = False) -> None:
        """Bring a value, or an error, for a refresh that was lent: the latest, or an *old* one."""
        name = ("key", tenant, key)
        if not (lent := self.lent.get(name)):
            return
        refresh = lent[0 if old else -1]
        error = "" if value is not None else "no"
        accepted = self._ask(lambda engine: engine.refreshed(refresh, value=value, error=error))
        same("refreshed", self.model.refreshed(name, refresh.fence, value), accepted)
        self.machine.counts["refresh taken" if accepted else "refresh refused"] += 1
        self._changes += 1

    def _renew_refresh(self, key: str, tenant: str, lease: int, old: bool = False) -> None:
        """Renew a refresh that was lent: the latest, or an *old* one."""
        name = ("key", tenant, key)
        if lent := self.lent.get(name):
            refresh = lent[0 if old else -1]
            asked = [(refresh.gate, refresh.fence)]
            (renewed,) = self._ask(lambda engine: engine.renew_refreshes(asked, lease=lease))
            same("renewed", self.model.renew_refresh(name, refresh.fence, lease), renewed)
            self.machine.counts["refresh renewed"] += renewed

    # What fate does.

    def _advance(self, span: int) -> None:
        self.machine.wait(span)
        self.model.now = self.now

    def _set_clock(self, by: int) -> None:
        self.machine.set_clock(by)

    def _restart(self) -> None:
        self.machine.restart()

    def _upkeep(self) -> None:
        off = self.machine.wall - self.now
        done = self._ask(lambda engine: engine.upkeep())
        self.machine.counts["let in at the door"] += done["let_in"]
        self.model.forget_pace(set(self.machine.store.read(lambda db: db.all(GATES))))
        if abs(off) >= STEP:
            self.machine.counts["clock followed"] += 1
            self.offset += off
            self.model.move(off)
            self._foretold.clear()
        self.model.tick()
        if self.mode == "A":
            self._see_called()

    def _crash_in(self, statements: int, operation: Operation) -> None:
        """Let something happen in a process that dies on the way, or before it answers."""
        self._crash, self._silent = statements, True
        try:
            verb, *rest = operation
            getattr(self, f"_{verb}")(*rest)
        finally:
            self._crash, self._silent = None, False

    # In the end.

    def _rest(self) -> None:
        """Open whatever is shut, work until nothing is left, and see that nothing is."""
        self._open_all()
        for _ in range(PATIENCE):
            if not self.model.live:
                break
            self._round(list(self.model.live.values()))
        if self.model.live:
            job = next(iter(self.model.live.values()))
            raise Mismatch(f"{job.name} is {job.state} for ever: {self.engine.why(job.name).sentence}")
        self.machine.counts.update(job.state for job in self.model.jobs.values())
        self._upkeep()
        self._examine()
        same("gates in use", [], self.machine.store.read(lambda db: db.all(IN_USE)))
        views = {(view.id, view.state.value, view.attempt) for view in self.engine.jobs(limit=1_000_000)}
        jobs = {(job.name, job.state, job.attempt) for job in self.model.jobs.values()}
        same("jobs", jobs - views, views - jobs)
        for job in self.model.jobs.values():
            past = [(each.number, each.attempt, each.outcome.value) for each in self.engine.history(job.name)]
            same(f"attempts at {job.name}", [(n, *each) for n, each in enumerate(job.past, 1)], past)
        if complaints := self.referee.finish():
            raise Mismatch(complaints[0])

    def _press(self, rounds: int) -> None:
        """Have more jobs at some keys than they let through: those that others pass must get their turn (I5).

        Such are jobs that need two keys at once, and jobs that bring smaller numbers than the others at their key.
        """
        self._open_all()
        for name in list(self.hands):
            self._let_go(name)
        self._advance(4 * LEASE)
        passed = [self._stream(f"{a}{b}", a, b) for a, b in ("PQ", "QR", "RP")]
        passed += [self._stream(f"small{key}", key, number=number) for key, number in SMALL.items()]
        for number in range(rounds):
            waiting = [job.name[-1] for job in self.model.waiting() if job.name.startswith("stream")]
            streams = {"P": "c1", "Q": "c1", "R": "c1", **LARGE}
            self._enqueue(
                [
                    self._stream(f"{number}{key}", key, number=numbers_)
                    for key, numbers_ in streams.items()
                    if waiting.count(key) < 4
                ]
            )
            if number == 3:
                self._enqueue(passed)
            self._claim(["press"], 20)
            running = {name[-1]: name for name in reversed(self.hands) if name.startswith("stream")}
            self._settle([(name, ("done",), True) for name in running.values()])
            self._advance(10_000)
        left = [ask["name"] for ask in passed if self.model.jobs[ask["name"]].state == WAITING]
        if left:
            raise Mismatch(f"{left} were overtaken for {rounds} rounds and never had their turn")

    def _flow(self, number: int, rounds: int) -> None:
        """Have throttles and rates with a backlog, and workers that are granted starts ahead and begin some late."""
        chance = random.Random(number)
        self._open_all()
        for name in list(self.hands):
            self._let_go(name)
        self._advance(4 * LEASE)
        count = 0
        for _ in range(rounds):
            waiting = sum(job.queue == "flow" for job in self.model.waiting())
            asks = []
            while waiting + len(asks) < 6:
                keys = chance.choice((("F",), ("F",), ("G",), ("H",), ("F", "G"), ("F", "H"), ("G", "H")))
                limits = tuple((key, FLOWING[key], "wait") for key in keys)
                asks.append({"name": f"flow-{count}", "queue": "flow", "limits": limits})
                count += 1
            if asks:
                self._enqueue(asks)
            lags = tuple(chance.choice((0, 0, 300, 1_000, 8_000)) for _ in range(3))
            self._claim_ahead(["flow"], chance.randint(1, 6), lags, chance.choice(("w1", "w1", "w2")))
            self._advance(chance.choice((1_000, 5_000, 10_000, 25_000, 40_000)))
            self._begin_handlers()
            begun = [name for name, hand in self.hands.items() if hand.attempt.began is not None]
            for name in begun:
                if chance.random() < 0.5:
                    self._begun(name)
            ended = [name for name in begun if chance.random() < 0.6]
            self._settle([(name, ("done",), chance.random() < 0.8) for name in ended])
            late = [n for n, h in self.hands.items() if h.attempt.began is None and self._is_over(h)]
            self._settle([(name, ("handed back",), False) for name in late])

    def _is_over(self, hand: Hand) -> bool:
        """Tell whether a handler that has not begun will not any more."""
        return hand.begins is None or self.machine.since_start > hand.begins

    @staticmethod
    def _stream(name: str, *keys: str, number: str = "c1") -> dict[str, Any]:
        limits = tuple((key, number, "wait") for key in keys)
        return {"name": f"stream-{name}", "queue": "press", "limits": limits}

    def _open_all(self) -> None:
        self._upkeep()
        for name in list(self.model.schedules):
            self._enable_schedule(name, False)
        for (scope, tenant, name), gate in list(self.model.gates.items()):
            if gate.paused:
                self._resume(name)
            if gate.configured != ANY:
                self._configure(scope, name, None, tenant)
            if scope == "key":
                self._clear_override(name, tenant)
            if gate.floating is not None:
                self.engine.set_floating(name, value=1, tenant=tenant)
                gate.floating.value = 1

    def _round(self, live: list[Job]) -> None:
        queues = sorted({job.queue for job in live})
        self._claim(queues, 50)
        if self.hands:
            self._settle([(name, ("done",), True) for name in self.hands])
        elif self.model.live:
            # No worker acts, so the clock brings what is next; turns that were not used lapse after a second.
            claim = self.engine.claim(queues, 1, worker="w1", lease=LEASE)
            same("claimed right after", [], claim.jobs)
            moment = self.now + STEP if claim.next_at is None else claim.next_at
            self._advance(max(moment - self.now, 1))
            self._upkeep()

    # Comparisons.

    def _compare(self) -> None:
        """See that every job stands where it should, and that every slot that is taken belongs to an attempt."""
        new, self._ended = self.model.ended[self._ended :], len(self.model.ended)
        ended = {job.name: job.state for job in new if job.state not in LIVE}

        def look(db: Any) -> tuple[Any, ...]:
            return db.all(PLACES), db.all(ENDED, list(ended)) if ended else [], db.all(SLOTS)

        places, states, slots = self.machine.store.read(look)
        live = {job.name: job.state for job in self.model.live.values()}
        if live != dict(places):
            difference = sorted(set(live.items()) ^ set(places))
            raise Mismatch(f"jobs stand elsewhere than they should: {difference}")
        same("ended", ended, dict(states))
        taken: dict[Name, int] = {}
        for job in self.model.live.values():
            if job.state == RUNNING:
                for name in job.names:
                    if name[0] == "key":
                        taken[name] = taken.get(name, 0) + 1
        same("slots", taken, {(scope, tenant, name): running for scope, tenant, name, running in slots})

    def _examine(self) -> None:
        """See that the store is consistent, and that users are shown what is so."""
        same("doctor", [], self.engine.doctor())
        if self._done % (4 * EXAMINED) == 0:
            self._count()
        views, total = self.engine.gates(limit=1_000)
        same("gates", len(views), total)
        waiting = [job for job in self.model.live.values() if job.shown == WAITING]
        for view in views:
            name = ("key", view.tenant, view.key)
            same(f"running at {name}", self.model.shown_running(name, view.numbers.slots), view.running)
            same(f"waiting at {name}", sum(name in job.names for job in waiting), view.waiting)

    def _count(self) -> None:
        """See that jobs are listed and counted alike."""
        counted = {"scheduled": 0, "retrying": 0, "waiting": 0, "running": 0}
        for tally in self.engine.tally():
            counted = {state: number + tally.counts.get(state, 0) for state, number in counted.items()}
        live = self.engine.count()
        same("live jobs", sum(counted.values()), sum(live.get(state, 0) for state in SHOWN))
        for state, number in counted.items():
            found = self.engine.matching(JobFilter(states=frozenset({state})), 1)[1]
            same(f"how many are {state}", found, number)
        rescheduled = sum(
            view.rescheduled for view in self.engine.jobs(state=State.SCHEDULED, limit=1_000_000)
        )
        to_come = self.machine.store.read(lambda db: db.all(TO_COME))[0][0]
        same("rescheduled jobs", rescheduled, live.get(State.SCHEDULED, 0) - to_come)

    def _foretell(self, job: Job, place: int | None, earliest: int | None) -> None:
        """See whether it is right about a job that no other is ahead of; else remember it until the job starts."""
        if self.machine.store.read(lambda db: db.one(APART, job.queue, job.task)):
            return  # some of those ahead of it may stand in another part of the queue
        gates = [self.model.gate(name) for name in job.names]
        if self.mode != "A" or any((gate.override_until or 0) > self.now or gate.floating for gate in gates):
            return  # the rules change by themselves, so that the start cannot be foretold
        ruled = {
            name
            for name, own, _ in job.gates
            if self.model.gate(name).paused
            or any(n is not None for n in self.model.in_force(name, own, self.now))
        }
        rivals = [other for other in self.model.waiting() if other is not job and other.names & ruled]
        if not rivals and job.expires is None:
            same(f"earliest start of {job.name}", self.model.opening([job]), earliest)
        elif rivals and all(rival.kind == job.kind and rival.task == job.task for rival in rivals):
            ahead = sum(rival.rank < job.rank for rival in rivals)
            names = [job.name, *(rival.name for rival in rivals)]
            lanes = self.machine.store.read(lambda db: db.all(LANES, names))
            if len(lanes) > 1 and any(line is None for _, line in lanes):
                return  # those that came while their type was limited stand in a lane of their own, and are not in line
            if any(scope == "key" for scope, *_ in job.names):
                same(f"place of {job.name}", ahead, place)
            ((name, own),) = [gate[:2] for gate in job.gates if gate[0] in ruled][:1]
            if len(ruled) == 1 and name[0] == "key":
                same(f"earliest start of {job.name}", self.model.earliest_behind(name, own, ahead), earliest)
            if earliest is not None:
                self._foretold[job.name] = (earliest, self._changes)

    def _served(self) -> dict[tuple[str, str], int]:
        rows = self.machine.store.read(lambda db: db.all(SERVED))
        return {(queue, tenant): number for queue, tenant, number in rows}

    def _note_served(self) -> None:
        before = self.model.served
        self.model.recorded = frozenset(key for key, at in self._served().items() if at != before.get(key))

    def _turns(self) -> dict[Name, str]:
        if self.mode != "C":
            return {}
        rows = self.machine.store.read(lambda db: db.all(TURNS, self.now))
        return {(scope, tenant, name): holder for scope, tenant, name, holder in rows}

    def _summary(self) -> str:
        live = ",".join(f"{job.name}:{job.state[0]}{job.attempt}" for job in self.model.live.values())
        return f"-> {self.now} {live} ended {len(self.model.ended)}"

    # Small things.

    def _ask(self, call: Callable[[Engine], T]) -> T:
        """Ask the engine; if the process is to die on the way, see what is left of it."""
        if self._crash is None:
            return call(self.engine)
        statements, self._crash = self._crash, None
        committed, answer = self.machine.until_crash(statements, lambda: call(self.engine))
        if not committed:
            raise Undone
        return answer  # type: ignore[return-value]

    def _begin_handlers(self) -> None:
        true = self.machine.since_start
        for hand in self.hands.values():
            if hand.begins is not None and hand.begins <= true and hand.attempt.began is None:
                self.referee.began(hand.attempt, hand.begins)

    def _let_go(self, name: str) -> None:
        if (hand := self.hands.pop(name, None)) is not None:
            self.former.setdefault(name, []).append(hand)

    def _passes(self, job: Job) -> list[Pass]:
        model, now = self.model, self.now
        return [
            Pass(
                name,
                *model.in_force(name, own, now),
                gate.remembers,
                job.cost_at(name),
                gate.paced,
                gate.bucket is not None,
            )
            for name, own, _ in job.gates
            if (gate := model.gates.get(name)) is not None
        ]


def new_job(ask: dict[str, Any], now: int) -> NewJob:
    """Return the job that is asked for."""
    limits = tuple(
        Limit(
            key, numbers_from_text(text), OnLimit(on_limit),
            Floating("h", every[0]) if every else None, shared=key.startswith("*"),
            cost=ask.get("costs", {}).get(key),
        )
        for key, text, on_limit, *every in ask.get("limits", ())
    )  # fmt: skip
    retry = RetryPolicy(
        attempts=ask.get("attempts", 1),
        backoff=Backoff.FIXED,
        delay=ask.get("delay", 0),
        jitter=False,
        exhausted=Exhausted.DISCARD if ask.get("discard") else Exhausted.KEEP,
        lost_counts=ask.get("lost_counts", False),
    )
    unique = None
    if "unique" in ask:
        key, states, window, on_duplicate, *pause = ask["unique"]
        known = frozenset(State(s) for s in states.split(","))
        unique = Unique(key, known, window, OnDuplicate(on_duplicate), *(pause[0] if pause else ()))
    moments = {name: now + ask[name] for name in ("due", "expires") if name in ask}
    return NewJob(
        id=ask["name"], task=ask.get("task", "t1"), queue=ask["queue"], tenant=ask.get("tenant", ""),
        priority=ask.get("priority", 0), cost=ask.get("cost", 1), limits=limits, retry=retry,
        unique=unique, **moments,
    )  # fmt: skip


def _parted(claim: Claim) -> tuple[list[Claimed], list[Claimed]]:
    """Return the jobs of a claim that begin at once, and those that follow them."""
    return [job for job in claim.jobs if not job.after], [job for job in claim.jobs if job.after]


def outcome_of(kind: str, *facts: Any) -> Outcome:
    """Return how an attempt ended."""
    match kind:
        case "done":
            return Done()
        case "failed":
            return Failed("ValueError", "no")
        case "again":
            return Again(*facts)
        case "cancelled":
            return Cancelled()
        case "limited":
            return Limited(*facts)
        case _:
            return HandedBack(*facts)


def same(what: str, expected: object, actual: object) -> None:
    """Raise unless the engine did what the rules say."""
    if expected != actual:
        raise Mismatch(f"{what}: the rules say {expected!r}, the engine {actual!r}")


def refused(call: Callable[[], T]) -> T | None:
    """Return the answer, or None where the engine refuses."""
    try:
        return call()
    except (WrongStateError, DuplicateJobError, GateShutError):
        return None


@contextmanager
def world(mode: str, url: str | None = None, *, by_door: bool = False) -> Any:
    """Give a world, and end it."""
    made = World(mode, url, by_door=by_door)
    try:
        yield made
    finally:
        made.close()


def replay(mode: str, history: Sequence[Operation]) -> None:
    """Let all of *history* happen in a new world; raise at the first thing that is wrong."""
    with world(mode) as fresh:
        for operation in history:
            fresh.do(operation)
