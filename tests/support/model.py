"""A naive model of the engine, to referee the real one.

No lanes, no lines, no calls, no wake-ups and no counters: a list of jobs, a few gates, and one
question put to every waiting job whenever it matters, "is each of your gates open now?".
Nothing is remembered that can be counted afresh, so there is nothing to keep consistent.  Slow, and
meant to be.

Turns (I5) and holding by weight are not decided here.  Where they apply the model follows the
engine's answer and checks it (`follow`): whoever started was free to, and whoever did not had a
reason that can be seen.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from penstock.engine import GUARD
from penstock.engine.settle import LEAST_PAUSE
from penstock.job import START_GRACE, NewJob
from penstock.lifecycle.outcomes import Again, Cancelled, Done, Failed, HandedBack, Limited, Outcome
from penstock.lifecycle.retry import Backoff, Exhausted
from penstock.lifecycle.states import ENDED, State
from penstock.limits.rules import UNLIMITED, Numbers, OnLimit, Window

MAX_LOST = 5  # a job that loses more workers than this is taken for what kills them
HEAVIEST = 4  # no test starts anything heavier

# What a gate is called: its scope ("key", "queue" or "type"), its tenant, its name.
GateName = tuple[str, str, str]
# Which job has the turn at which gate.
Turns = dict[GateName, str]


@dataclass(eq=False)
class Start:
    """One remembered start: when, at the latest, and what it weighed."""

    at: int
    cost: int


@dataclass
class Gate:
    """What is remembered for one key, queue or type."""

    configured: Numbers = UNLIMITED
    override: Numbers = UNLIMITED
    override_until: int | None = None
    shut_until: int = 0
    paused: bool = False
    # The longest period any rate or throttle of this gate ever had; 0: starts are not remembered.
    span: int = 0
    starts: list[Start] = field(default_factory=list)


@dataclass(eq=False)
class Job:
    """One job, from enqueue to the end."""

    asked: NewJob
    number: int
    state: State = State.WAITING
    ord: int = 0
    due: int = 0
    expires: int | None = None
    attempt: int = 0
    fence: int = 0
    lease: int = 0
    lost: int = 0
    cancel_asked: bool = False
    starts: list[Start] = field(default_factory=list)

    @property
    def name(self) -> str:
        assert self.asked.id
        return self.asked.id

    @property
    def rank(self) -> tuple[int, int]:
        """Its place among others: priority first, then age; the least goes first."""
        return (-self.asked.priority, self.ord)

    @cached_property
    def gates(self) -> list[tuple[GateName, Numbers, OnLimit]]:
        """Every gate it must pass, with its own numbers there."""
        job = self.asked
        own = [(("key", job.tenant, limit.key), limit.numbers, limit.on_limit) for limit in job.limits]
        type_gate: GateName = ("type", "", job.task)
        queue_gate: GateName = ("queue", "", job.queue)
        return [*own, (type_gate, UNLIMITED, OnLimit.WAIT), (queue_gate, UNLIMITED, OnLimit.WAIT)]

    @cached_property
    def gate_names(self) -> frozenset[GateName]:
        return frozenset(name for name, _, _ in self.gates)

    @cached_property
    def kind(self) -> str:
        """Equal for jobs of one queue that carry exactly the same limits."""
        return str((self.asked.tenant, self.asked.queue, sorted(map(str, self.asked.limits))))


@dataclass
class Answer:
    """What the engine answered to a claim, and who has the turn at which gates afterwards."""

    started: list[str]
    turns: Turns


class Mismatch(AssertionError):
    """The engine did something the model cannot explain."""


class Model:
    """The engine's verbs over a list of jobs."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._arrivals = 0
        self.now = clock()
        self.jobs: dict[str, Job] = {}
        self._live: list[Job] = []  # perhaps with some that ended since the last tick
        self.gates: dict[GateName, Gate] = {}

    # -- What users do

    def enqueue(self, wanted: Sequence[NewJob]) -> None:
        self.look_at_the_clock()
        for asked in wanted:
            job = Job(asked, len(self.jobs), expires=asked.expires)
            self.jobs[job.name] = job
            self._live.append(job)
            for name, own, _ in job.gates:
                gate = self.gate(name)
                gate.span = max(gate.span, own.span)
            if asked.due is not None and asked.due > self.now:
                job.state, job.due = State.SCHEDULED, asked.due
            else:
                self._arrive(job)

    def cancel(self, name: str) -> State | None:
        """Return the state it is in then; None if it had ended."""
        self.look_at_the_clock()
        job = self.jobs[name]
        if job.state in ENDED:
            return None
        if job.state is State.RUNNING:
            job.cancel_asked = True
        else:
            self._leave(job, State.CANCELLED)
        return job.state

    def retry(self, name: str) -> bool:
        """Tell whether it could be put back into line."""
        self.look_at_the_clock()
        job = self.jobs[name]
        if job.state not in ENDED or job.state is State.DONE:
            return False
        job.attempt = job.lost = 0
        job.expires = None  # whoever asks for it by hand still wants it
        job.cancel_asked = False
        if job not in self._live:
            self._live.append(job)
        self._arrive(job)
        return True

    def configure(self, name: GateName, numbers: Numbers | None) -> None:
        self.look_at_the_clock()
        gate = self.gate(name)
        gate.configured = numbers or UNLIMITED
        gate.span = max(gate.span, gate.configured.span)

    def override(self, name: GateName, numbers: Numbers | None, until: int | None) -> None:
        self.look_at_the_clock()
        gate = self.gate(name)
        gate.override, gate.override_until = numbers or UNLIMITED, until
        gate.span = max(gate.span, gate.override.span)

    def clear_override(self, name: GateName) -> None:
        """End an override, and a shut-until."""
        self.override(name, None, None)
        self.gate(name).shut_until = 0

    def shut(self, name: GateName, until: int) -> None:
        self.look_at_the_clock()
        self._shut(name, until)

    def pause(self, queue: str, *, paused: bool) -> None:
        self.look_at_the_clock()
        self.gate(("queue", "", queue)).paused = paused

    # -- What workers do

    def claim(self, queues: Collection[str], count: int, lease: int) -> list[Job]:
        """Start the best *count* that may start; drop those that would rather go than wait."""
        self.tick()
        started: list[Job] = []
        for job in self.waiting(queues):
            if len(started) == count:
                break
            if job.state is not State.WAITING or not self.is_open_queue(job):
                continue
            if not self.shut_gates(job):
                self._start(job, lease)
                started.append(job)
            self._judge_first(job.kind)
        return started

    def follow(
        self, queues: Collection[str], count: int, lease: int, answer: Answer, *, ordered: bool
    ) -> list[Job]:
        """Start what the engine started instead, provided that every choice can be explained.

        *ordered* also asks that nobody was passed over by a lower rank without a reason.
        """
        self.tick()
        started: list[Job] = []
        for name in answer.started:
            job = self.jobs[name]
            if job.state is not State.WAITING or job.asked.queue not in queues:
                raise Mismatch(f"{name} was started, but it is {job.state} in {job.asked.queue}")
            if shut := self.shut_gates(job):
                raise Mismatch(f"{name} was started although {shut} is shut")
            if ordered:
                self._explain_those_ahead(job, queues, answer)
            self._start(job, lease)
            started.append(job)
        if len(started) > count:
            raise Mismatch(f"{len(started)} were started, at most {count} were asked for")
        if len(started) < count:
            self._explain_those_left(queues, answer)
        return started

    def settle(self, reports: Sequence[tuple[str, int, Outcome, int | None]]) -> list[bool]:
        """Tell of each attempt whether it was still the one that ran.

        All give back what they held before anybody stands in line again.
        """
        if reports:
            self.look_at_the_clock()
        accepted = [self._settle_one(self.jobs[name], *report) for name, *report in reports]
        for name, *_ in reports:
            job = self.jobs[name]
            if job.state is State.SCHEDULED and job.due <= self.now:
                self._stand(job)
        return accepted

    def begun(self, name: str, fence: int, at: int) -> None:
        self.look_at_the_clock()
        job = self.jobs[name]
        if self.is_current(job, fence):
            self._correct(job, at)

    def heartbeat(self, name: str, fence: int, lease: int) -> tuple[bool, bool]:
        """Return whether the attempt is alive and whether it should stop."""
        self.look_at_the_clock()
        job = self.jobs[name]
        if not self.is_current(job, fence):
            return False, False
        job.lease = self.now + lease
        return True, job.cancel_asked

    # -- Time passes

    def look_at_the_clock(self) -> None:
        """Take note of the time; it never runs backwards."""
        self.now = max(self.now, self._clock())

    def tick(self) -> None:
        """Let happen what the clock alone makes happen: leases run out, due jobs arrive, others expire.

        Only claims and upkeep do this: until then a late report finds its attempt as it was.
        """
        self.look_at_the_clock()
        self._live = [job for job in self._live if job.state not in ENDED]
        self._forget_old_starts()
        lost = [job for job in self._in(State.RUNNING) if job.lease <= self.now]
        for job in lost:
            self._rescue(job)
        for job in sorted(lost, key=lambda job: job.rank):
            self._judge_first(job.kind)
        for job in sorted(self._in(State.SCHEDULED), key=lambda job: (job.due, job.number)):
            if job.due <= self.now:
                self._arrive(job)
        for job in sorted(self._live, key=lambda job: (job.asked.expires or 0, job.number)):
            self._expire(job)

    # -- Questions

    def gate(self, name: GateName) -> Gate:
        return self.gates.setdefault(name, Gate())

    def waiting(self, queues: Collection[str] | None = None) -> list[Job]:
        """Return the waiting jobs of *queues*, best first."""
        jobs = [job for job in self._in(State.WAITING) if queues is None or job.asked.queue in queues]
        return sorted(jobs, key=lambda job: job.rank)

    def running(self, name: GateName, now: int) -> int:
        """Count the attempts that hold a slot of the gate and will still do at *now*."""
        return sum(
            1
            for job in self._in(State.RUNNING)
            if (job.lease > now or now == self.now) and name in job.gate_names
        )

    def numbers(self, name: GateName, own: Numbers, now: int) -> Numbers:
        """Return the numbers in force: live override, else configured, else the job's own."""
        gate = self.gate(name)
        live = gate.override_until is None or gate.override_until > now
        layers = [gate.override if live else UNLIMITED, gate.configured, own]
        return Numbers(
            slots=next((layer.slots for layer in layers if layer.slots is not None), None),
            rate=next((layer.rate for layer in layers if layer.rate is not None), None),
            throttle=next((layer.throttle for layer in layers if layer.throttle is not None), None),
        )

    def is_open(
        self, name: GateName, own: Numbers, cost: int, now: int, *, after: Sequence[Job] = ()
    ) -> bool:
        """Tell whether one more may pass the gate, *after* so many others had started."""
        gate = self.gate(name)
        if gate.paused or gate.shut_until > now:
            return False
        starts = [*gate.starts, *(Start(now, job.asked.cost) for job in after)]
        numbers = self.numbers(name, own, now)
        if numbers.slots is not None and self.running(name, now) + len(after) >= numbers.slots:
            return False
        if (rate := numbers.rate) is not None:
            recent = sum(start.cost for start in starts if start.at + rate.period > now)
            if recent + cost > rate.limit:
                return False
        if (throttle := numbers.throttle) is not None:
            if throttle.limit == 0:
                return False
            return self._is_apart(starts, throttle, now)
        return True

    @staticmethod
    def _is_apart(starts: Sequence[Start], throttle: Window, now: int) -> bool:
        """Tell whether every start lies as many gaps back as it weighs."""
        return all(start.at + start.cost * throttle.gap <= now for start in starts)

    def shut_gates(self, job: Job, *, now: int | None = None, after: Sequence[Job] = ()) -> list[GateName]:
        """Name the gates that keep *job* from starting now."""
        at = self.now if now is None else now
        return [
            name
            for name, own, _ in job.gates
            if not self.is_open(name, own, job.asked.cost, at, after=_sharing(name, after))
        ]

    def is_open_queue(self, job: Job) -> bool:
        return self.is_open(("queue", "", job.asked.queue), UNLIMITED, job.asked.cost, self.now)

    def refused_by_a_drop(self, job: Job) -> bool:
        """Tell whether it is refused, and only by gates at which it would rather go than wait."""
        refusing = [
            on_limit
            for name, own, on_limit in job.gates
            if name[0] != "queue" and not self.is_open(name, own, job.asked.cost, self.now)
        ]
        return bool(refusing) and all(on_limit is OnLimit.DROP for on_limit in refusing)

    def is_held(self, job: Job, turns: Turns) -> bool:
        """Tell whether one ahead of it in a line is gathering budget at a gate that both must pass."""
        return any(self._is_held_at(name, own, job, turns) for name, own, _ in job.gates)

    def is_kept_from(self, job: Job, turns: Turns) -> bool:
        """Tell whether one of its gates is kept for another whose turn it is."""
        return any(self._is_kept_at(name, own, job, turns) for name, own, _ in job.gates)

    def is_current(self, job: Job, fence: int) -> bool:
        return job.state is State.RUNNING and job.fence == fence

    def opening_before(self, queues: Collection[str], moment: int) -> int | None:
        """Return when, if nobody does anything before *moment*, a claim on *queues* would start something."""
        for at in sorted({at for at in self._moments() if at < moment}):
            if any(not self.shut_gates(job, now=at) for job in self._candidates(queues, at)):
                return at
        return None

    # -- Explanations

    def _explain_those_ahead(self, job: Job, queues: Collection[str], answer: Answer) -> None:
        for other in self.waiting(queues):
            if other.rank < job.rank and not self._excused(other, answer):
                raise Mismatch(f"{other.name} ranks before {job.name}, may start, and was passed over")

    def _explain_those_left(self, queues: Collection[str], answer: Answer) -> None:
        for job in self.waiting(queues):
            if not self._excused(job, answer):
                raise Mismatch(f"{job.name} may start, but a claim with room left did not start it")

    def _excused(self, job: Job, answer: Answer) -> bool:
        return (
            bool(self.shut_gates(job))
            or self.is_held(job, answer.turns)
            or self.is_kept_from(job, answer.turns)
        )

    def _is_held_at(self, name: GateName, own: Numbers, job: Job, turns: Turns) -> bool:
        if (rate := self.numbers(name, own, self.now).rate) is None:
            return False
        return any(
            other.rank < job.rank
            and other.asked.cost <= rate.limit
            and any(name == theirs and own == numbers for theirs, numbers, _ in other.gates)
            and (
                not self.is_open(name, own, other.asked.cost, self.now)
                or self._is_kept_at(name, own, other, turns)
            )
            for other in self.waiting({job.asked.queue})
        )

    def _is_kept_at(self, name: GateName, own: Numbers, job: Job, turns: Turns) -> bool:
        holder = self.jobs.get(turns.get(name, ""))
        return (
            holder is not None
            and holder is not job
            and holder.asked.priority >= job.asked.priority
            and self._may_keep(holder)
            and not self.is_open(name, own, job.asked.cost, self.now, after=[holder])
        )

    def _may_keep(self, holder: Job) -> bool:
        """Tell whether a turn stands: each gate is open, or busy, or gathering budget for the holder.

        Not while one is shut by decree or by the clock.  Whether anybody works the holder's queue is
        not asked: a turn that nobody uses lapses by itself.
        """
        own_gates = [(name, own) for name, own, _ in holder.gates if name[0] != "queue"]
        return holder.state is State.WAITING and all(
            self._is_worth_waiting(*gate, holder) for gate in own_gates
        )

    def _is_worth_waiting(self, name: GateName, own: Numbers, holder: Job) -> bool:
        cost, now, gate = holder.asked.cost, self.now, self.gate(name)
        if self.is_open(name, own, cost, now):
            return True
        numbers = self.numbers(name, own, now)
        if gate.shut_until > now or numbers.slots == 0:
            return False
        busy = numbers.slots is not None and self.running(name, now) >= numbers.slots
        if numbers.throttle is not None and not busy:
            clock_opens = numbers.throttle.limit and self._is_apart(gate.starts, numbers.throttle, now)
            if not clock_opens:
                return False
        if (rate := numbers.rate) is not None:
            used = sum(start.cost for start in gate.starts if start.at + rate.period > now)
            return used < rate.limit and cost <= rate.limit
        return True

    # -- Moves

    def _arrive(self, job: Job) -> None:
        """Put *job* at the end of the line."""
        job.ord = 0
        self._stand(job)

    def _stand(self, job: Job) -> None:
        """Put *job* in line at its place, or at the end if it has none."""
        if not job.ord:
            self._arrivals += 1
            job.ord = self._arrivals
        job.state = State.WAITING
        if self._first(job.kind) is job:
            self._judge_first(job.kind)

    def _judge_first(self, kind: str) -> None:
        """Drop the first of those with the same limits, and then the next, while a drop gate refuses it."""
        while (first := self._first(kind)) is not None and self.refused_by_a_drop(first):
            first.state = State.DISCARDED

    def _first(self, kind: str) -> Job | None:
        alike = [job for job in self._in(State.WAITING) if job.kind == kind]
        return min(alike, key=lambda job: job.rank, default=None)

    def _leave(self, job: Job, state: State) -> None:
        """Take a job that has not started out of line."""
        was_first = self._first(job.kind) is job
        job.state = state
        if was_first:
            self._judge_first(job.kind)

    def _expire(self, job: Job) -> None:
        """End *job* if it waits though its time to live is over."""
        waits = job.state in {State.WAITING, State.SCHEDULED}
        if waits and job.expires is not None and job.expires <= self.now:
            self._leave(job, State.EXPIRED)

    def _rescue(self, job: Job) -> None:
        """Take *job* back from a worker that was not heard from; it keeps its place."""
        job.lost += 1
        if job.cancel_asked:
            job.state = State.CANCELLED
        else:
            job.state = State.FAILED if job.lost > MAX_LOST else State.WAITING

    def _start(self, job: Job, lease: int) -> None:
        job.state = State.RUNNING
        job.attempt += 1
        job.fence += 1
        job.lease = self.now + lease
        job.starts = []
        for name, _, _ in job.gates:
            if (gate := self.gate(name)).span:
                start = Start(self.now + START_GRACE, job.asked.cost)
                gate.starts.append(start)
                job.starts.append(start)

    def _correct(self, job: Job, began: int) -> None:
        for start in job.starts:
            start.at = began + GUARD

    def _settle_one(self, job: Job, fence: int, outcome: Outcome, began: int | None) -> bool:
        if not self.is_current(job, fence):
            return False
        if began is not None:
            self._correct(job, began)
        self._end(job, outcome)
        return True

    def _end(self, job: Job, outcome: Outcome) -> None:
        match outcome:
            case Done():
                job.state = State.DONE
            case Cancelled():
                job.state = State.CANCELLED
            case Failed():
                self._fail(job, None)
            case Again(after=after):
                self._fail(job, after)
            case Limited():
                until = max(outcome.until, self.now + LEAST_PAUSE)
                carried = self._shut_gates_of(job, outcome.key, until)
                self._back_into_line(job, 0 if carried else until)
            case HandedBack(begun=begun):
                if not begun:
                    self._forget(job)
                self._back_into_line(job)

    def _shut_gates_of(self, job: Job, key: str | None, until: int) -> bool:
        """Shut those gates of *job* that are meant; tell whether it carries any."""
        meant = [name for name in job.gate_names if name[0] == "key" and key in {None, name[2]}]
        for name in meant:
            self._shut(name, until)
        return bool(meant)

    def _shut(self, name: GateName, until: int) -> None:
        gate = self.gate(name)
        gate.shut_until = max(gate.shut_until, until)

    def _back_into_line(self, job: Job, due: int = 0) -> None:
        """Let *job* wait again as if this attempt had not been, but not before it is *due*."""
        if job.cancel_asked:
            job.state = State.CANCELLED
            return
        job.attempt -= 1
        job.state, job.due = State.SCHEDULED, due

    def _forget_old_starts(self) -> None:
        """Only for speed: a start further back than any rule looks changes no answer."""
        for gate in self.gates.values():
            reach = HEAVIEST * gate.span
            gate.starts = [start for start in gate.starts if start.at + reach > self.now]

    def _forget(self, job: Job) -> None:
        for gate in self.gates.values():
            gate.starts = [start for start in gate.starts if start not in job.starts]

    def _fail(self, job: Job, after: int | None) -> None:
        policy = job.asked.retry
        if job.cancel_asked:
            job.state = State.CANCELLED
        elif job.attempt - job.lost < policy.attempts:
            assert policy.backoff is Backoff.FIXED
            job.due = self.now + (policy.delay if after is None else after)
            job.state, job.ord = State.SCHEDULED, 0
        else:
            job.state = State.DISCARDED if policy.exhausted is Exhausted.DISCARD else State.FAILED

    def _in(self, state: State) -> Iterator[Job]:
        return (job for job in self._live if job.state is state)

    def _candidates(self, queues: Collection[str], at: int) -> Collection[Job]:
        """Return those who could wait in *queues* at that moment, one of each sort."""
        return {
            (job.kind, job.asked.task, job.asked.cost): job
            for job in self._live
            if job.asked.queue in queues
            and (
                job.state is State.WAITING
                or (job.state is State.SCHEDULED and job.due <= at)
                or (job.state is State.RUNNING and job.lease <= at and not job.cancel_asked)
            )
        }.values()

    def _moments(self) -> Iterator[int]:
        """Yield every moment at which the clock alone could change an answer."""
        yield self.now
        for job in self._live:
            if job.state in {State.SCHEDULED, State.RUNNING}:
                yield max(self.now, job.due if job.state is State.SCHEDULED else job.lease)
        for moment in self._gate_moments():
            if moment > self.now:
                yield moment

    def _gate_moments(self) -> Iterator[int]:
        for name, own in {(name, own) for job in self._live for name, own, _ in job.gates}:
            gate = self.gate(name)
            yield gate.shut_until
            yield gate.override_until or 0
            for numbers in (own, gate.configured, gate.override):
                for start in gate.starts:
                    yield start.at + (numbers.rate.period if numbers.rate else 0)
                    if numbers.throttle and numbers.throttle.limit:
                        yield start.at + start.cost * numbers.throttle.gap


def _sharing(name: GateName, jobs: Sequence[Job]) -> list[Job]:
    return [job for job in jobs if name in job.gate_names]
