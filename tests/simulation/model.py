"""The rules of penstock, told so plainly that they are obviously right; nothing of `penstock.limits` is used.

A list of jobs, a few gates, and one question put to every waiting job whenever it matters: is each of
your gates open now?  No lanes, no lines, no calls, no wake-ups, no counters: what can be counted is
counted afresh, so there is nothing to keep consistent.

Who has the turn, and who waits for a heavier one ahead, is not decided here: `follow` takes the engine's
answer and asks whether each job that started was free to, and each that did not had a reason that can be seen.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

GRACE = 50_000  # a handler begins at most this long after its claim, where starts are remembered
AHEAD = 80_000  # so far ahead starts may be granted
GUARD = 100  # and is remembered this much later than it was told to have begun
LEAST_PAUSE = 100_000
MAX_LOST = 5
MINUTE = 60_000_000

WAITING, SCHEDULED, RUNNING = "waiting", "scheduled", "running"
AFTER = "after"  # waits for the end of another; shown as waiting
DONE, FAILED, DISCARDED, CANCELLED, EXPIRED = "done", "failed", "discarded", "cancelled", "expired"
LIVE = frozenset({WAITING, SCHEDULED, RUNNING, AFTER})

# What a gate is called: its scope ("key", "queue" or "type"), its tenant, its name.
Name = tuple[str, str, str]


class Mismatch(AssertionError):
    """The engine did something that the rules cannot explain."""


class Numbers(NamedTuple):
    """So many at once; so many in so long; so many in so long, evenly, after a burst of so many."""

    slots: int | None = None
    rate: tuple[int, int] | None = None
    throttle: tuple[int, int, int] | None = None


ANY = Numbers()


def numbers(text: str | None) -> Numbers:
    """Read `c2;r3/1000000;t1/500000/4`: slots, rate, throttle; microseconds; a throttle's burst, if it has one."""
    told: dict[str, Any] = {}
    for part in filter(None, (text or "").split(";")):
        limit, *more = map(int, part[1:].split("/"))
        told[part[0]] = (limit, *more) if more else limit
        if part[0] == "t" and len(more) == 1:
            told["t"] = (limit, *more, 1)
    return Numbers(told.get("c"), told.get("r"), told.get("t"))


def gap(throttle: tuple[int, int, int]) -> int:
    """Return how far apart starts must be, at least."""
    limit, period, _ = throttle
    return (period + limit - 1) // limit


def _span(told: Numbers) -> int:
    """Return how far back rules look."""
    rate = 0 if told.rate is None else told.rate[1]
    if told.throttle is None:
        return rate
    limit, period, burst = told.throttle
    return max(rate, period, burst * gap(told.throttle) if burst > 1 and limit else 0)


def is_apart(throttle: tuple[int, int, int], starts: "Sequence[Start]", cost: int, now: int) -> bool:
    """Tell whether a throttle lets one more through: it is far enough from all others, or its bucket has enough."""
    if not throttle[0]:
        return False
    burst, step = throttle[2], gap(throttle)
    if burst == 1:
        return all(start.at + start.cost * step <= now for start in starts)
    full_at = 0
    for start in sorted(starts, key=lambda start: start.at):
        full_at = max(full_at, start.at) + start.cost * step
    return full_at - (burst - min(cost, burst)) * step <= now


@dataclass(eq=False)
class Start:
    """A start that a gate remembers: at the latest then, and so heavy."""

    at: int
    cost: int
    gate: Name = ("", "", "")
    told: int | None = None  # what was reported of it since it could not change any more
    forgotten: bool = False  # no rule looked so far back when the first bucket came


def _apart_at(throttle: tuple[int, int, int], starts: Sequence[Start]) -> Iterator[int]:
    """Yield the moments at which a throttle may open."""
    _, _, burst = throttle
    step, full_at = gap(throttle), 0
    for start in sorted(starts, key=lambda start: start.at):
        full_at = max(full_at, start.at) + start.cost * step if burst > 1 else start.at + start.cost * step
        yield from (full_at - kept * step for kept in range(min(burst, 9)))


@dataclass
class Gate:
    """What was decided about a key, a queue or a type, and who started there."""

    configured: Numbers = ANY
    override: Numbers = ANY
    override_until: int | None = None
    shut_until: int = 0
    paused: bool = False
    remembers: bool = False
    paced: bool = False
    bucket: tuple[int, int] | None = None  # how long it takes to fill, and how long for one
    span: int = 0  # how far back the rules look that came so far
    starts: list[Start] = field(default_factory=list)
    floating: "Floating | None" = None


@dataclass
class Floating:
    """A number of slots that workers compute."""

    value: int
    every: int
    next_at: int
    failures: int = 0
    fence: int = 0
    lent: bool = False
    asked: bool = True  # a job came when it was due


@dataclass(eq=False)
class Job:
    """A job, from the moment it was asked for."""

    name: str
    number: int
    ask: dict[str, Any]
    state: str = WAITING
    ord: int = 0
    due: int = 0
    expires: int | None = None
    attempt: int = 0
    lost: int = 0
    fence: int = 0
    lease: int = 0
    cancel: bool = False
    earlier: "Job | None" = None  # for whose end it waits
    heir: "Job | None" = None  # who waited for its end
    since: int | None = None  # when the calls began in which it waits for a pause
    after: "Job | None" = None  # whose slot its attempt is handed
    replaced: bool = False
    starts: list[Start] = field(default_factory=list)
    past: list[tuple[int, str]] = field(default_factory=list)  # each attempt that ended: its number, and how

    def __post_init__(self) -> None:
        ask = self.ask
        self.queue, self.tenant, self.task = ask["queue"], ask.get("tenant", ""), ask.get("task", "t1")
        self.cost, self.priority = ask.get("cost", 1), ask.get("priority", 0)

    @property
    def shown(self) -> str:
        """Its state as others see it."""
        return WAITING if self.state == AFTER else self.state

    @cached_property
    def can_be_rescheduled(self) -> bool:
        """Whether it is scheduled, not waiting, as long as a limit keeps it."""
        return any(on_limit == "reschedule" for _, _, on_limit in self.gates) and not self.drops

    @cached_property
    def names_key(self) -> bool:
        return bool(self.ask.get("limits"))

    @cached_property
    def drops(self) -> bool:
        """Whether it would rather go than wait at one of its gates."""
        return any(on_limit == "drop" for _, _, on_limit in self.gates)

    @property
    def rank(self) -> tuple[int, int]:
        """The least goes first: priority, then age."""
        return (-self.priority, self.ord)

    @cached_property
    def gates(self) -> list[tuple[Name, Numbers, str]]:
        """Every gate it must pass, the numbers it brings there, and what it does if the gate is shut."""
        # A number that floats is what its key begins with, and no number of the job's own.
        own: list[tuple[Name, Numbers, str]] = [
            (
                ("key", "" if key.startswith("*") else self.tenant, key),
                ANY if every else numbers(text),
                on_limit,
            )
            for key, text, on_limit, *every in self.ask.get("limits", ())
        ]
        return [*own, (("type", "", self.task), ANY, "wait"), (("queue", "", self.queue), ANY, "wait")]

    @cached_property
    def names(self) -> frozenset[Name]:
        return frozenset(name for name, _, _ in self.gates)

    @cached_property
    def place(self) -> tuple[Any, ...]:
        """Equal for jobs that stand at one place, whichever of them it is."""
        return (self.kind, self.task, self.priority, self.cost, self.ask.get("costs", {}))

    def cost_at(self, name: Name) -> int:
        """Return what its start weighs at a gate: a limit may say so, else it is the same at all."""
        scope, _, key = name
        return self.ask.get("costs", {}).get(key, self.cost) if scope == "key" else self.cost

    @cached_property
    def kind(self) -> str:
        """Equal for jobs of one queue that carry exactly the same limits."""
        return repr((self.tenant, self.queue, sorted(self.ask.get("limits", ()))))


def knows(tasks: Sequence[str] | None, job: Job) -> bool:
    """Tell whether one of *tasks* names the job's, or begins it if it ends with a star."""
    return tasks is None or any(
        job.task.startswith(task[:-1]) if task.endswith("*") else job.task == task for task in tasks
    )


@dataclass
class Schedule:
    """A job to enqueue every so many minutes."""

    name: str
    minutes: int
    ask: dict[str, Any]
    overlap: str
    next_at: int | None
    fired: int = 0
    last: Job | None = None


class Model:
    """The engine's verbs.  *now* is always told."""

    def __init__(self, now: int) -> None:
        self.now = now
        self.jobs: dict[str, Job] = {}
        self.live: dict[str, Job] = {}
        self.gates: dict[Name, Gate] = {}
        self.served: dict[tuple[str, str], int] = {}  # by queue and tenant: the highest was served last
        # Those of which the engine wrote that down just now.
        self.recorded: frozenset[tuple[str, str]] = frozenset()
        self.schedules: dict[str, Schedule] = {}
        self.ended: list[Job] = []  # since the last comparison
        self.name_of: Callable[[Schedule], str] = lambda schedule: f"{schedule.name}-{schedule.fired}"
        self._arrivals = 0
        # While a claim is decided that knows when starts are expected: those, and when they count from then on.
        self._expected: list[tuple[Start, int]] | None = None

    # What users do.

    def enqueue(self, asks: Sequence[dict[str, Any]]) -> list[tuple[str, bool]] | None:
        """Return for each the job that stands for it and whether that is an earlier one; None if refused."""
        if any(self._is_rejected(ask) for ask in asks):
            return None
        return [self._add(ask) for ask in asks]

    def _is_rejected(self, ask: dict[str, Any]) -> bool:
        """Tell whether another stands for its unique key and neither answers for it nor makes way."""
        key, _, _, on_duplicate, *_ = ask.get("unique", ("", "", None, "reuse"))
        holder = None if on_duplicate == "reuse" else self._holder(ask.get("tenant", ""), key)
        return holder is not None and (on_duplicate == "reject" or holder.state not in LIVE)

    def _add(self, ask: dict[str, Any]) -> tuple[str, bool]:
        holder = None
        if "unique" in ask:
            key, _, _, on_duplicate, *_ = ask["unique"]
            holder = self._holder(ask.get("tenant", ""), key)
            if holder is not None and on_duplicate != "replace":
                return holder.name, True
        job = Job(ask["name"], len(self.jobs), ask)
        job.expires = None if "expires" not in ask else self.now + ask["expires"]
        job.due = self.now + ask["due"] if "due" in ask else 0
        self.jobs[job.name] = self.live[job.name] = job
        if "unique" in ask:
            self._stand_for(job)
            self._wait_for_pause(job, holder)
        if holder is None:
            self._stand_when_due(job)
        else:
            self._replace(holder, job)
        return job.name, False

    def _wait_for_pause(self, job: Job, before: Job | None) -> None:
        """It is due once no call has come for a while, but not too long after the first that was not served yet."""
        for quiet, max_wait in job.ask["unique"][4:]:
            job.since = self.now
            if before is not None and before.since is not None and before.attempt == 0:
                job.since = before.since
            job.due = min(self.now + quiet, job.since + max_wait)

    def _replace(self, old: Job, new: Job) -> None:
        """The latest call has the place of the one before it; if that runs, it waits for its end."""
        if old.state == RUNNING:
            waiting = [job for job in self.live.values() if self._waits_for(job, old)]
            self._arrivals += 1
            new.state, new.earlier = AFTER, old
            new.ord = waiting[0].ord if waiting else self._arrivals
            for job in waiting:
                job.replaced = True
                self._finish(job, CANCELLED)
            return
        old.replaced, new.ord = True, 0 if old.state == SCHEDULED else old.ord
        if old.state == AFTER:
            new.state, new.earlier = AFTER, old.earlier
            self._finish(old, CANCELLED)
        elif old.state == WAITING and new.due <= self.now and old.place == new.place:
            new.state = WAITING
            self._finish(old, CANCELLED)
        else:
            self._leave(old, CANCELLED)
            self._stand_when_due(new)

    def _stand_when_due(self, job: Job) -> None:
        if job.due > self.now:
            job.state = SCHEDULED
        else:
            self._stand(job)

    def _stand_for(self, job: Job) -> None:
        window = job.ask["unique"][2]
        job.unique_until = self.now + window if window else None  # type: ignore[attr-defined]

    def _holder(self, tenant: str, key: str) -> Job | None:
        """Return the job that stands for a unique key now, the latest if there are several."""
        for job in reversed(self.jobs.values()):
            unique = job.ask.get("unique")
            if unique is None or unique[0] != key or job.tenant != tenant or job.replaced:
                continue
            until = job.unique_until  # type: ignore[attr-defined]
            if job.shown in unique[1].split(",") if until is None else self.now < until:
                return job
        return None

    def cancel(self, name: str) -> str | None:
        """Return the state it is in then; None if it had ended."""
        job = self.jobs[name]
        if job.state not in LIVE:
            return None
        if job.state == RUNNING:
            job.cancel = True
        else:
            self._leave(job, CANCELLED)
        return job.state

    def retry(self, name: str) -> bool:
        """Tell whether it could be put back into line by hand."""
        job = self.jobs[name]
        if job.state in LIVE or job.state == DONE:
            return False
        if "unique" in job.ask:
            holder = self._holder(job.tenant, job.ask["unique"][0])
            if holder is not None and holder is not job:
                return False
            self._stand_for(job)
        job.attempt = job.lost = 0
        job.expires, job.cancel, job.replaced, job.since = None, False, False, None
        self.live[name] = job
        self._arrive(job)
        return True

    def expedite(self, name: str) -> str | None:
        """Return the state of a job that is due now; None if it runs or has ended."""
        job = self.jobs[name]
        if job.state not in LIVE or job.state == RUNNING:
            return None
        job.due = 0
        if job.state == SCHEDULED:
            self._arrive(job)
        return WAITING

    def configure(self, name: Name, text: str | None) -> None:
        gate = self.gate(name)
        gate.configured = numbers(text)
        self._remember(gate, gate.configured)

    def override(self, name: Name, text: str | None, until: int | None) -> None:
        gate = self.gate(name)
        gate.override, gate.override_until = numbers(text), until
        self._remember(gate, gate.override)

    def clear_override(self, name: Name) -> None:
        self.override(name, None, None)
        self.gate(name).shut_until = 0

    def shut(self, name: Name, until: int) -> None:
        gate = self.gate(name)
        gate.shut_until = max(gate.shut_until, until)

    def pause(self, queue: str, *, paused: bool) -> None:
        self.gate(("queue", "", queue)).paused = paused

    # What workers do.

    def claim(
        self,
        queues: Collection[str],
        count: int,
        lease: int,
        among: Collection[str] = (),
        tasks: Sequence[str] | None = None,
    ) -> list[Job]:
        """Start the best *count* that may start; drop those that would rather go than wait.

        Tenants take turns by when each was served from these queues, or *among* more of them.
        Jobs of other tasks than *tasks* are as if they were not there.
        """
        self.tick()
        started: list[Job] = []
        waiting = [job for job in self.waiting(queues) if knows(tasks, job)]
        # Tenants take turns: the one served longest ago first, each with its best.
        tenants = {job.tenant for job in waiting}
        last = {t: max(self.served.get((q, t), 0) for q in among or queues) for t in tenants}
        order = sorted(tenants, key=lambda t: (last[t], t))
        turns = [iter([job for job in waiting if job.tenant == t]) for t in order]
        while turns and len(started) < count:
            first = turns.pop(0)
            for job in first:
                queue = ("queue", "", job.queue)
                if job.state != WAITING or not self.is_open(queue, ANY, job.cost_at(queue), self.now):
                    continue
                may_start = not self.shut_gates(job)
                if may_start:
                    self._start(job, lease)
                    started.append(job)
                self._judge_first(job.kind)
                if may_start:
                    turns.append(first)
                    break
        for job in started:
            if (key := (job.queue, job.tenant)) in self.recorded:
                self.served[key] = max(self.served.values(), default=0) + 1
        return started

    def take(self, name: str, lease: int, turns: dict[Name, str], *, taken: bool) -> Job:
        """Start one job by its id if the engine did, provided that it may; else there must be a reason."""
        job = self.jobs[name]
        if not taken:
            if job.state == WAITING and self._without_reason([job], turns):
                raise Mismatch(f"{name} may start, but was refused by its id")
            return job
        if job.state != WAITING:
            raise Mismatch(f"{name} was started by its id, but it is {job.state}")
        if shut := self.shut_gates(job):
            raise Mismatch(f"{name} was started by its id although {shut} is shut")
        first = min((j for j in self.waiting({job.queue}) if j.kind == job.kind), key=lambda j: j.rank)
        self._start(job, lease)
        if first is job:
            self._judge_first(job.kind)
        return job

    def follow(
        self,
        queues: Collection[str],
        count: int,
        lease: int,
        names: Sequence[str],
        turns: dict[Name, str],
        *,
        ordered: bool,
        tasks: Sequence[str] | None = None,
    ) -> list[Job]:
        """Start what the engine started, provided that every choice can be explained.

        *ordered* also asks that no job was passed over by a lower rank without a reason.
        """
        self.tick()
        started = []
        for name in names:
            job = self.jobs[name]
            if job.state != WAITING or job.queue not in queues:
                raise Mismatch(f"{name} was started, but it is {job.state} in {job.queue}")
            if not knows(tasks, job):
                raise Mismatch(f"{name} was started, but only {tasks} were asked for, not {job.task}")
            if shut := self.shut_gates(job):
                raise Mismatch(f"{name} was started although {shut} is shut")
            rivals = self.waiting(queues) if ordered else []
            ahead = [
                other
                for other in rivals
                if other.tenant == job.tenant and other.rank < job.rank and knows(tasks, other)
            ]
            if passed := self._without_reason(ahead, turns):
                raise Mismatch(f"{passed.name} ranks before {name}, may start, and was passed over")
            self._start(job, lease)
            started.append(job)
        if len(started) > count:
            raise Mismatch(f"{len(started)} were started, at most {count} were asked for")
        if len(started) < count:
            self.none_left(self.may_start(queues, turns, tasks))
        return started

    def none_left(self, left: Iterable[str]) -> None:
        """See that no job is *left* that may start."""
        for name in left:
            raise Mismatch(f"{name} may start, but a claim with room left did not start it")

    def may_start(
        self, queues: Collection[str], turns: dict[Name, str], tasks: Sequence[str] | None = None
    ) -> list[str]:
        """Return the waiting jobs that may start, best first."""
        waiting = [job for job in self.waiting(queues) if knows(tasks, job)]
        return [job.name for job in waiting if self._without_reason([job], turns)]

    @contextmanager
    def expecting(self, moments: dict[str, int]) -> Iterator[None]:
        """Have starts remembered when they are expected while a claim is asked that knows; then as before."""
        self._expected = []
        for name, at in moments.items():
            job = self.jobs[name]
            for start in job.starts if job.state == RUNNING else ():
                if at <= start.at and not self._is_folded(start, start.cost):
                    self._expected.append((start, start.at))
                    start.at = at
        yield
        for start, at in self._expected:
            start.at = at
        self._expected = None

    def start_later(
        self, name: str, queues: Collection[str], at: int, lease: int, tasks: Sequence[str] | None
    ) -> Job:
        """Start a job that the engine granted for a moment to come, provided that its gates are open then."""
        job = self.jobs[name]
        if job.state != WAITING or job.queue not in queues or not knows(tasks, job):
            raise Mismatch(f"{name} was granted, but it is {job.state} in {job.queue}, a {job.task}")
        if not self.now < at <= self.now + AHEAD:
            raise Mismatch(f"{name} was granted for {at}, which is {at - self.now} us from now")
        if shut := self.shut_gates(job, at):
            raise Mismatch(f"{name} was granted for {at} although {shut} is shut then")
        self._start(job, lease, at)
        return job

    def start_after(
        self, name: str, earlier: str, lease: int, left: Collection[str], tasks: Sequence[str] | None
    ) -> Job:
        """Start a job that the engine hands the slot of an earlier one, provided that no other could have it.

        *left* are the jobs that may start beside them: they would have needed the hands of this claim.
        """
        job, before = self.jobs[name], self.jobs[earlier]
        if left:
            raise Mismatch(f"{name} was to follow {earlier}, though {left} wait for hands")
        if (
            before.state != RUNNING
            or before.kind != job.kind
            or job.state != WAITING
            or not knows(tasks, job)
        ):
            raise Mismatch(f"{name}, which is {job.state}, was to follow {earlier}, which is {before.state}")
        if any(each.lost or each.ask.get("lost_counts") for each in (before, job)):
            raise Mismatch(f"{name} was to follow {earlier}, though one of them must be alone")
        in_line = [other for other in self.waiting({job.queue}) if other.kind == job.kind]
        if in_line[0] is not job:
            raise Mismatch(f"{name} was to follow {earlier}, but {in_line[0].name} is next in line")
        (key, own, on_limit), *others = job.gates
        ruled = [of for of, _, _ in job.gates if self._is_ruled(of)]
        if own != Numbers(1) or on_limit != "wait" or len(others) > 2 or ruled or job.tenant:
            raise Mismatch(
                f"{name} was to follow {earlier} at {key}, where more than a slot decides: {own}, {ruled}"
            )
        rivals = [other for other in self.waiting() if key in other.names and other.kind != job.kind]
        if rivals:
            raise Mismatch(f"{name} was to follow {earlier}, but {rivals[0].name} waits for {key} too")
        self._start(job, lease)
        job.after = before
        return job

    def stand_by(
        self,
        name: str,
        queues: Collection[str],
        lease: int,
        tasks: Sequence[str] | None,
        short: Collection[str],
        *,
        ordered: bool,
    ) -> Job:
        """Start a job that the engine has stand by, provided that it is the next of those that may start, and may."""
        job = self.jobs[name]
        if job.state != WAITING or job.queue not in queues or not knows(tasks, job) or job.task not in short:
            raise Mismatch(f"{name} was to stand by, but it is {job.state} in {job.queue}, a {job.task}")
        known = [other for other in self.waiting(queues) if knows(tasks, other)]
        first = next((other for other in known if not self.shut_gates(other)), None)
        if shut := self.shut_gates(job):
            raise Mismatch(f"{name} was to stand by although {shut} is shut")
        if ordered and first is not job:
            raise Mismatch(f"{name} was to stand by, but {first and first.name} is the next")
        if job.lost or job.ask.get("lost_counts"):
            raise Mismatch(f"{name} was to stand by, though it must be alone")
        (key, own, on_limit), *others = job.gates
        ruled = [of for of, _, _ in job.gates if self._is_ruled(of)]
        if own != Numbers(1) or on_limit != "wait" or len(others) > 2 or ruled or job.tenant:
            raise Mismatch(f"{name} was to stand by at {key}, where more than a slot decides: {own}, {ruled}")
        free = [each for each in known if not each.names_key and ("type", "", each.task) not in self.gates]
        if free:
            raise Mismatch(f"{name} was to stand by, though {free[0].name} waits without limits")
        self._start(job, lease)
        return job

    def _is_ruled(self, name: Name) -> bool:
        gate = self.gates.get(name)
        if gate is None:
            return False
        overridden = gate.override != ANY and (gate.override_until is None or gate.override_until > self.now)
        return (
            gate.configured != ANY or overridden or gate.floating is not None or gate.shut_until > self.now
            or gate.paused or gate.remembers
        )  # fmt: skip

    def shown_running(self, name: Name, slots: int | None) -> int:
        """Count what shows as running at a gate: of a relay one, where there would be more than there may be."""
        running = self.running(name)
        if slots is None or running <= slots:
            return running
        return running - sum(
            job.state == RUNNING and name in job.names and job.after is not None
            and job.after.state == RUNNING and job.after.fence == job.fence
            for job in self.live.values()
        )  # fmt: skip

    def settle(
        self, reports: Sequence[tuple[str, int, tuple[Any, ...], int | None, dict[str, int]]]
    ) -> list[bool]:
        """Tell of each (job, fence, outcome, began, used) whether it was still the attempt that ran."""
        accepted = []
        for name, fence, outcome, began, used in reports:
            job = self.jobs[name]
            accepted.append(job.state == RUNNING and job.fence == fence)
            if accepted[-1]:
                self.spend(name, fence, used)
                if began is not None:
                    self._correct(job, began)
                self._end(job, *outcome)
        for (name, *_), was_accepted in zip(reports, accepted, strict=True):
            job = self.jobs[name].heir or self.jobs[name]
            if was_accepted and job.state == SCHEDULED and job.due <= self.now:
                self._stand(job)
        return accepted

    def begun(self, name: str, fence: int, at: int) -> None:
        job = self.jobs[name]
        if job.state == RUNNING and job.fence == fence:
            self._correct(job, at)

    def spend(self, name: str, fence: int, used: dict[str, int]) -> bool:
        """Have its start weigh what it used of each key; tell whether it was still the attempt that ran."""
        job = self.jobs[name]
        if job.state != RUNNING or job.fence != fence:
            return False
        for start in job.starts:
            if start.gate[0] == "key" and start.gate[2] in used:
                self._weigh(start, used[start.gate[2]])
        return True

    def _weigh(self, start: Start, used: int) -> None:
        before = start.cost if start.told is None else start.told
        folded = self._is_folded(start, before)
        if not folded and not start.forgotten:
            start.cost = used
            return
        start.told = used
        more = Start(self.now if folded else start.at, used - before, start.gate)
        if more.cost > 0 and not self._is_folded(more, more.cost):
            self.gates[start.gate].starts.append(more)

    def _is_folded(self, start: Start, cost: int) -> bool:
        """Tell whether a start is part of what a bucket lacks, and cannot change any more."""
        bucket = self.gate(start.gate).bucket
        return bucket is not None and start.at + max(bucket[0], bucket[1] * cost) <= self.now

    def heartbeat(self, name: str, fence: int, lease: int) -> tuple[bool, bool]:
        """Return whether the attempt is alive and whether it should stop."""
        job = self.jobs[name]
        if job.state != RUNNING or job.fence != fence:
            return False, False
        job.lease = self.now + lease
        return True, job.cancel

    # Floating limits.

    def refreshes(self, fences: dict[Name, int], lease: int) -> set[Name]:
        """Lend what is due; return it."""
        known = {name: gate.floating for name, gate in self.gates.items() if gate.floating}
        due = {
            name
            for name, floating in known.items()
            if floating.next_at <= self.now and (floating.asked or self._in_use(name))
        }
        for name in due & fences.keys():
            floating = known[name]
            floating.fence, floating.next_at = fences[name], self.now + lease
            floating.lent, floating.asked = True, False
        return due

    def renew_refresh(self, name: Name, fence: int, lease: int) -> bool:
        """Leave a refresh to its worker; tell whether it was still lent to it."""
        floating = self.gate(name).floating
        if floating is None or floating.fence != fence or not floating.lent:
            return False
        floating.next_at = self.now + lease
        return True

    def _in_use(self, name: Name) -> bool:
        return any(job.state in {WAITING, RUNNING} and name in job.names for job in self.live.values())

    def refreshed(self, name: Name, fence: int, value: int | None) -> bool:
        """Take a value, or a failure; tell whether the refresh was still lent to the worker that brings it."""
        floating = self.gate(name).floating
        if floating is None or floating.fence != fence or not floating.lent:
            return False
        floating.lent = False
        if value is None:
            wait = min(2 ** min(floating.failures, 10), 60) * 1_000_000
            floating.failures += 1
            floating.next_at = self.now + wait
        else:
            floating.value, floating.failures, floating.next_at = value, 0, self.now + floating.every
        return True

    # Schedules.

    def set_schedule(self, name: str, minutes: int, ask: dict[str, Any], overlap: str) -> None:
        before = self.schedules.get(name)
        same = before is not None and before.minutes == minutes and before.next_at is not None
        next_at = before.next_at if same else self._next_moment(minutes)
        self.schedules[name] = Schedule(name, minutes, ask, overlap, next_at)
        if before is not None:
            self.schedules[name].fired, self.schedules[name].last = before.fired, before.last

    def enable_schedule(self, name: str, *, enabled: bool) -> None:
        schedule = self.schedules[name]
        if not enabled:
            schedule.next_at = None
        elif schedule.next_at is None:
            schedule.next_at = self._next_moment(schedule.minutes)

    def _next_moment(self, minutes: int) -> int:
        period = minutes * MINUTE
        return (self.now // period + 1) * period

    def _fire(self) -> None:
        due = [s for s in self.schedules.values() if s.next_at is not None and s.next_at <= self.now]
        due.sort(key=lambda s: (s.next_at, s.name))
        for schedule in due:
            schedule.next_at = self._next_moment(schedule.minutes)
            live = schedule.last is not None and schedule.last.state in LIVE
            if live and schedule.overlap == "cancel_previous":
                self.cancel(schedule.last.name)
            schedule.skipped = live and schedule.overlap == "skip"  # type: ignore[attr-defined]
        for schedule in due:
            if not schedule.skipped:  # type: ignore[attr-defined]
                ask = dict(schedule.ask, name=self.name_of(schedule))
                if schedule.overlap == "wait":
                    ask["limits"] = (*ask.get("limits", ()), (f"schedule:{schedule.name}", "c1", "wait"))
                name, _ = self._add(ask)
                schedule.last = self.jobs[name]
                schedule.fired += 1

    # Time passes.

    def tick(self) -> None:
        """Let happen what the clock makes happen: leases run out, jobs are due, schedules fire, jobs expire."""
        lost = [job for job in self.live.values() if job.state == RUNNING and job.lease <= self.now]
        for job in lost:
            job.past.append((job.attempt, "lost"))
            if job.ask.get("lost_counts"):
                self._fail(job, None)
                continue
            job.lost += 1
            if job.cancel or job.lost > MAX_LOST:
                self._finish(job, CANCELLED if job.cancel else FAILED)
            else:
                self._wait_again(job, WAITING)
        for job in sorted((job for job in lost if job.state == WAITING), key=lambda job: job.rank):
            self._use(job)
            self._judge_first(job.kind)
        for job in lost:
            if job.heir is not None and job.heir.due <= self.now:
                self._stand(job.heir)
        due = [job for job in self.live.values() if job.state == SCHEDULED and job.due <= self.now]
        for job in sorted(due, key=lambda job: (job.due, job.number)):
            self._arrive(job)
        self._fire()
        old = [job for job in self.live.values() if job.expires is not None and job.expires <= self.now]
        for job in sorted(old, key=lambda job: (job.expires, job.number)):
            if job.state in {WAITING, SCHEDULED, AFTER}:
                self._leave(job, EXPIRED)
        for gate in self.gates.values():  # only for speed: no rule looks further back than a minute
            if len(gate.starts) > 20 and gate.bucket is None:
                gate.starts = [start for start in gate.starts if start.at + MINUTE > self.now]

    def move(self, by: int) -> None:
        """The clock was set: dates stay, spans move along."""
        self.now += by
        for job in self.live.values():
            if job.state == RUNNING:
                job.lease += by
            if job.since is not None:
                job.since += by
                job.due += by if job.state != RUNNING and job.attempt == 0 else 0
        for gate in self.gates.values():
            gate.shut_until += by if gate.shut_until else 0
            gate.override_until = None if gate.override_until is None else gate.override_until + by
            if gate.floating is not None:
                gate.floating.next_at += by
            for start in gate.starts:
                start.at += by

    # Questions.

    def gate(self, name: Name) -> Gate:
        return self.gates.setdefault(name, Gate())

    def waiting(self, queues: Collection[str] | None = None) -> list[Job]:
        """Return the waiting jobs of *queues*, best first."""
        jobs = [j for j in self.live.values() if j.state == WAITING and (queues is None or j.queue in queues)]
        return sorted(jobs, key=lambda job: job.rank)

    def running(self, name: Name, at: int | None = None) -> int:
        """Count the attempts that hold a slot, less those whose lease will be over *at* a later moment."""
        later = at is not None and at > self.now
        return sum(
            job.state == RUNNING and name in job.names and not (later and job.lease <= at)
            for job in self.live.values()
        )

    def in_force(self, name: Name, own: Numbers, now: int) -> Numbers:
        """Return the numbers in force: live override, else configured, else the smaller of the floating and the own."""
        gate = self.gates.get(name)
        if gate is None or (gate.configured == gate.override == ANY and gate.floating is None):
            return own
        live = gate.override_until is None or gate.override_until > now
        layers = [gate.override if live else ANY, gate.configured]
        if gate.floating is not None:
            known = [slots for slots in (gate.floating.value, own.slots) if slots is not None]
            own = own._replace(slots=min(known))
        layers.append(own)
        return Numbers(
            *(next((n for n in column if n is not None), None) for column in zip(*layers, strict=True))
        )

    def is_open(
        self, name: Name, own: Numbers, cost: int, now: int, after: Job | None = None, *, lapse: bool = False
    ) -> bool:
        """Tell whether one more may pass the gate, *after* another had started; leases end if they may *lapse*."""
        gate = self.gates.get(name)
        if gate is None:
            return True
        if gate.paused or gate.shut_until > now:
            return False
        slots, rate, throttle = self.in_force(name, own, now)
        more = after is not None and name in after.names
        if slots is not None and self.running(name, now if lapse else None) + more >= slots:
            return False
        starts = [start for start in gate.starts if start.cost]
        if more:
            # After those that were claimed and have not begun yet, too: a bucket is kept for it from then on.
            starts.append(Start(max([now, *(start.at for start in starts)]), after.cost_at(name)))
        if rate is not None and sum(s.cost for s in starts if s.at + rate[1] > now) + cost > rate[0]:
            return False
        return throttle is None or is_apart(throttle, starts, cost, now)

    def shut_gates(self, job: Job, now: int | None = None, *, lapse: bool = False) -> list[Name]:
        """Name the gates that keep *job* from starting."""
        at = self.now if now is None else now
        return [
            name
            for name, own, _ in job.gates
            if not self.is_open(name, own, job.cost_at(name), at, lapse=lapse)
        ]

    def opening(self, jobs: Sequence[Job], before: int | None = None, *, lapse: bool = False) -> int | None:
        """Return when the clock alone lets one of *jobs* start, if that is *before* then.

        With *lapse* attempts whose leases end by then are over, and their jobs wait again.
        """
        moments = {self.now} | {moment for moment in self._moments() if moment > self.now}
        for at in sorted(moment for moment in moments if before is None or moment < before):
            if any(self._there(job, at, lapse) and not self.shut_gates(job, at, lapse=lapse) for job in jobs):
                return at
        return None

    def earliest_behind(self, name: Name, own: Numbers, ahead: int) -> int | None:
        """Return when a gate lets one through, if *ahead* others like it go first, each as soon as it may."""
        slots, rate, throttle = self.in_force(name, own, self.now)
        paused = 0 in {(rate or "-")[0], (throttle or "-")[0]}
        if paused or (slots is not None and self.running(name) + ahead >= slots):
            return None
        gate = self.gates[name]
        at, starts = max(self.now, gate.shut_until), [start for start in gate.starts if start.cost]
        for _ in range(ahead + 1):
            opening = {s.at + (rate[1] if rate else 0) for s in starts}
            opening |= set(_apart_at(throttle, starts)) if throttle else set()
            for moment in sorted({at, *(later for later in opening if later > at)}):
                used = sum(s.cost for s in starts if rate is not None and s.at + rate[1] > moment)
                at = moment
                apart = throttle is None or is_apart(throttle, starts, 1, moment)
                if apart and (rate is None or used < rate[0]):
                    break
            starts.append(Start(at, 1))
        return at

    def next_moment(self) -> int | None:
        """Return when the clock alone next changes something."""
        return min((moment for moment in self._moments() if moment > self.now), default=None)

    def _there(self, job: Job, at: int, lapse: bool) -> bool:
        if job.state == RUNNING:
            returns = not job.cancel and job.lost < MAX_LOST and not job.ask.get("lost_counts")
            return lapse and job.lease <= at and returns
        expired = job.expires is not None and job.expires <= at
        return not expired and (job.state == WAITING or (job.state == SCHEDULED and job.due <= at))

    def _moments(self) -> Iterator[int]:
        for job in self.live.values():
            yield job.due
            yield job.lease if job.state == RUNNING else 0
        for name, gate in self.gates.items():
            yield gate.shut_until
            yield gate.override_until or 0
            told = {gate.configured, gate.override}
            told |= {own for job in self.live.values() for other, own, _ in job.gates if other == name}
            for _, rate, throttle in told:
                for start in gate.starts:
                    yield start.at + (rate[1] if rate else 0)
                if throttle and throttle[0]:
                    yield from _apart_at(throttle, gate.starts)

    # Reasons.

    def _without_reason(self, jobs: Sequence[Job], turns: dict[Name, str]) -> Job | None:
        """Return one that might start and is neither held by weight nor kept from a gate."""
        for job in jobs:
            if not self.shut_gates(job) and not any(
                self._is_held(name, own, job, turns) or self._is_kept(name, own, job, turns)
                for name, own, _ in job.gates
            ):
                return job
        return None

    def _is_held(self, name: Name, own: Numbers, job: Job, turns: dict[Name, str]) -> bool:
        """Tell whether one ahead of it in the same line gathers budget."""
        _, rate, throttle = self.in_force(name, own, self.now)
        if rate is None and (throttle is None or throttle[2] == 1):
            return False
        return any(
            other.rank < job.rank
            and (rate is None or other.cost_at(name) <= rate[0])
            and any(name == theirs and own == numbers_ for theirs, numbers_, _ in other.gates)
            and (
                not self.is_open(name, own, other.cost_at(name), self.now)
                or self._is_kept(name, own, other, turns)
            )
            for other in self.waiting({job.queue})
        )

    def _is_kept(self, name: Name, own: Numbers, job: Job, turns: dict[Name, str]) -> bool:
        """Tell whether the gate is kept for another whose turn it is: that one would not fit beside this job."""
        holder = self.jobs.get(turns.get(name, ""))
        if holder is None or holder is job or holder.priority < job.priority or holder.state != WAITING:
            return False
        gates = [gate for gate in holder.gates if gate[0][0] != "queue"]
        theirs = next(numbers_ for other, numbers_, _ in gates if other == name)
        hindered = not self.is_open(name, theirs, holder.cost_at(name), self.now, after=job)
        if all(self._worth_waiting(*gate, holder) for gate in gates):
            return hindered or not self.is_open(name, own, job.cost_at(name), self.now, after=holder)
        # What the clock shuts for the holder is kept only there; what rules shut is kept nowhere.
        closed = any(self._is_closed(*gate, holder) for gate in gates)
        return hindered and not closed and self._is_shut_by_clock(name, theirs, holder)

    def _is_shut_by_clock(self, name: Name, own: Numbers, holder: Job) -> bool:
        """Tell whether past starts shut a gate, whether or not it is busy too."""
        _, rate, throttle = self.in_force(name, own, self.now)
        starts = self.gate(name).starts
        used = sum(s.cost for s in starts if rate is not None and s.at + rate[1] > self.now)
        apart = throttle is None or is_apart(
            throttle, [s for s in starts if s.cost], holder.cost_at(name), self.now
        )
        return not apart or (rate is not None and used >= rate[0])

    def _is_closed(self, name: Name, own: Numbers, _: str, holder: Job) -> bool:
        """Tell whether rules shut a gate: neither the end of an attempt nor the age of a start opens it."""
        gate, now = self.gates.get(name), self.now
        slots, rate, throttle = self.in_force(name, own, now)
        zero = slots == 0 or (throttle is not None and throttle[0] == 0)
        heavy = rate is not None and rate[0] < holder.cost_at(name)
        return zero or heavy or (gate is not None and gate.shut_until > now)

    def _worth_waiting(self, name: Name, own: Numbers, on_limit: str, holder: Job) -> bool:
        """Tell whether a gate is open, or busy, or gathering budget: not shut by decree or by the clock."""
        gate, now = self.gates.get(name), self.now
        if gate is None or self.is_open(name, own, holder.cost_at(name), now):
            return True
        slots, rate, throttle = self.in_force(name, own, now)
        if self._is_closed(name, own, on_limit, holder):
            return False
        busy = slots is not None and self.running(name) >= slots
        starts = [s for s in gate.starts if s.cost]
        if throttle is not None and not busy and not is_apart(throttle, starts, 1, now):
            return False
        used = sum(s.cost for s in gate.starts if rate is not None and s.at + rate[1] > now)
        return rate is None or used < rate[0]

    # Moves.

    def _remember(self, gate: Gate, told: Numbers) -> None:
        gate.remembers = gate.remembers or told.rate is not None or told.throttle is not None
        before, gate.span = gate.span, max(gate.span, _span(told))
        if told.throttle is None or not told.throttle[0]:
            return
        limit, period, burst = told.throttle
        if burst > 1:
            if gate.bucket is None:
                self._forget_unseen(gate, before)
            fill = max(period, burst * gap(told.throttle))
            gate.bucket = max(gate.bucket or (0, 0), (fill, gap((limit, period, burst))))
        elif not gate.paced:
            # Until then heavy starts were remembered no longer than others.
            gate.paced = True
            gate.starts = [start for start in gate.starts if start.at + period > self.now]

    def _forget_unseen(self, gate: Gate, span: int) -> None:
        """Forget what no rule could see before the first bucket came: it lacks only what was remembered then."""
        for start in gate.starts:
            if start.cost and start.at + span * (start.cost if gate.paced else 1) <= self.now:
                start.told, start.cost, start.forgotten = start.cost, 0, True

    def forget_pace(self, known: Collection[Name]) -> None:
        """Note that the engine has forgotten gates: a throttle that comes there is the first one."""
        for name, gate in self.gates.items():
            gate.paced = gate.paced and name in known

    def _arrive(self, job: Job) -> None:
        job.ord = 0
        self._stand(job)

    def _stand(self, job: Job) -> None:
        """Put *job* in line at its place, or at the end if it has none."""
        if not job.ord:
            self._arrivals += 1
            job.ord = self._arrivals
        job.state = WAITING
        for (name, own, _), limit in zip(job.gates, job.ask.get("limits", ()), strict=False):
            gate = self.gate(name)
            self._remember(gate, own)
            if len(limit) > 3 and gate.floating is None:
                gate.floating = Floating(numbers(limit[1]).slots or 0, limit[3], self.now)
        self._use(job)
        if self._first(job.kind) is job:
            self._judge_first(job.kind)

    def _use(self, job: Job) -> None:
        """Have those of its floating limits computed that are due, whatever becomes of the job."""
        for name in job.names:
            floating = self.gates[name].floating if name in self.gates else None
            if floating is not None and floating.next_at <= self.now:
                floating.asked = True

    def _judge_first(self, kind: str) -> None:
        """Drop the first of those with the same limits, and the next, while only drop gates refuse it."""
        while (first := self._first(kind)) is not None and self._is_dropped(first):
            self._finish(first, DISCARDED)

    def _is_dropped(self, job: Job) -> bool:
        refusing = [
            on_limit
            for name, own, on_limit in job.gates
            if name[0] != "queue" and not self.is_open(name, own, job.cost_at(name), self.now)
        ]
        return bool(refusing) and all(on_limit == "drop" for on_limit in refusing)

    def _first(self, kind: str) -> Job | None:
        if '"drop"' not in kind and "'drop'" not in kind:
            return None  # none of them is dropped, so which is first does not matter
        alike = [job for job in self.live.values() if job.state == WAITING and job.kind == kind]
        return min(alike, key=lambda job: job.rank, default=None)

    def _leave(self, job: Job, state: str) -> None:
        """Take a job that has not started out of line."""
        was_first = job.state == WAITING and self._first(job.kind) is job
        self._finish(job, state)
        if was_first:
            self._judge_first(job.kind)

    def _finish(self, job: Job, state: str) -> None:
        job.state = state
        self.live.pop(job.name, None)
        self.ended.append(job)
        job.heir = next((other for other in self.live.values() if self._waits_for(other, job)), None)
        if job.heir is not None:
            job.heir.state = SCHEDULED

    @staticmethod
    def _waits_for(job: Job, other: Job) -> bool:
        return job.state == AFTER and job.earlier is other

    def _wait_again(self, job: Job, state: str) -> None:
        """Have a job wait for its next attempt; or the latest call of its key in its place."""
        if any(self._waits_for(other, job) for other in self.live.values()):
            job.replaced = True
            self._finish(job, CANCELLED)
            job.heir.ord = job.ord or job.heir.ord
        else:
            job.state = state

    def _start(self, job: Job, lease: int, begins: int | None = None) -> None:
        at = self.now if begins is None else begins
        job.state, job.lease, job.heir, job.after = RUNNING, at + lease, None, None
        job.attempt += 1
        job.starts = []
        for name, _, _ in job.gates:
            if name in self.gates and self.gates[name].remembers:
                start = Start(at + GRACE, job.cost_at(name), name)
                if self._expected is not None:
                    # Until the claim is over it counts when it is expected.
                    self._expected.append((start, start.at))
                    start.at = at
                job.starts.append(start)
                self.gates[name].starts.append(start)

    def _correct(self, job: Job, began: int) -> None:
        for start in job.starts:
            if not self._is_folded(start, start.cost):
                start.at = began + GUARD

    def _end(self, job: Job, how: str, *facts: Any) -> None:
        if how != "handed back" or facts[0]:
            job.past.append((job.attempt, how.replace(" ", "_")))
        match how:
            case "done":
                self._finish(job, DONE)
            case "cancelled":
                self._finish(job, CANCELLED)
            case "failed":
                self._fail(job, None)
            case "again":
                self._fail(job, facts[0])
            case "limited":
                until = max(facts[0], self.now + LEAST_PAUSE)
                meant = [n for n in job.names if n[0] == "key" and facts[1] in {None, n[2]}]
                for name in meant:
                    self.shut(name, until)
                self._stand_again(job, 0 if meant else until)
            case "handed back":
                if not facts[0]:
                    forgotten = [start for start in job.starts if not self._is_folded(start, start.cost)]
                    for gate in self.gates.values():
                        gate.starts = [start for start in gate.starts if start not in forgotten]
                self._stand_again(job, 0)

    def _stand_again(self, job: Job, due: int) -> None:
        if job.cancel:
            self._finish(job, CANCELLED)
            return
        job.due = due
        self._wait_again(job, SCHEDULED)
        job.attempt -= job.state == SCHEDULED

    def _fail(self, job: Job, after: int | None) -> None:
        if job.cancel:
            self._finish(job, CANCELLED)
        elif job.attempt - job.lost < job.ask.get("attempts", 1):
            job.due = self.now + (job.ask.get("delay", 0) if after is None else after)
            job.ord = 0
            self._wait_again(job, SCHEDULED)
        else:
            self._finish(job, DISCARDED if job.ask.get("discard") else FAILED)
