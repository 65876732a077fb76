"""For tests of code that uses penstock: an engine in memory, a clock to move, and jobs run on the spot.

with in_memory(app) as clock, limits_kept(app):
job = remind.with_options(delay="1d").enqueue("ann")
run_until_idle(app)
assert job.state == "scheduled"

clock.advance("1d")
run_until_idle(app)
assert job.result() == "reminded"

`VirtualTime` is for code with policies in it: hours of waiting take no time.
"""

import asyncio
import selectors
from collections import defaultdict
from collections.abc import Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from inspect import iscoroutine
from typing import Any, Final, TypeVar, cast

from msgspec import structs

from penstock.app import App
from penstock.app.backend import AnyEngine
from penstock.clock import SECOND, Clock, monotonic
from penstock.engine import Engine, open_engine
from penstock.errors import InvalidError, NotFoundError
from penstock.job import Claimed, Event, InstanceState
from penstock.lifecycle.states import State
from penstock.limits.durations import Duration, format_duration, parse_duration
from penstock.limits.rules import Limit, Numbers, Window
from penstock.policies import clock as policies_clock
from penstock.worker.alarm import Alarm
from penstock.worker.attempt import Attempt, Shift
from penstock.worker.floating import whole
from penstock.worker.perform import perform, perform_async

__all__ = [
    "MOST",
    "START",
    "FakeClock",
    "VirtualTime",
    "app_for_tests",
    "engine_in_memory",
    "in_memory",
    "limits_kept",
    "run_until_idle",
]

T = TypeVar("T")

START: Final = datetime(2026, 1, 1, tzinfo=UTC)
MOST: Final = 10_000

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_WORKER: Final = "test"
_REFRESHES: Final = 100  # floating limits computed before each attempt
_LEASE: Final = 86_400 * SECOND


class FakeClock:
    """A clock that moves only when it is told to."""

    def __init__(self, start: datetime = START) -> None:
        self._now = (start - _EPOCH) // _MICROSECOND

    def now(self) -> int:
        """Return the present moment in microseconds since the epoch."""
        return self._now

    def advance(self, span: Duration) -> None:
        """Let time pass: seconds, a timedelta, or text such as "1h30m"."""
        self._now += parse_duration(span, "span", zero=True)

    def advance_to(self, moment: int) -> None:
        """Let time pass until *moment*, in microseconds since the epoch."""
        self._now = max(self._now, moment)


def engine_in_memory(clock: Clock | None = None) -> Engine:
    """Return an engine that forgets everything when it is closed, by default with a `FakeClock`."""
    return open_engine(":memory:", clock=clock or FakeClock())


def app_for_tests(clock: Clock | None = None) -> App:
    """Return an app with an engine in memory."""
    return App(engine=engine_in_memory(clock))


@contextmanager
def in_memory(app: App, clock: FakeClock | None = None) -> Iterator[FakeClock]:
    """Let *app* use an engine in memory for a while, and give its clock."""
    clock = clock or FakeClock()
    engine = engine_in_memory(clock)
    try:
        with app.connection.lent(engine):
            yield clock
    finally:
        engine.close()


def run_until_idle(app: App, *, advance: bool = False, most: int = MOST) -> int:
    """Run jobs one by one in this thread until none can start; return how many attempts were made.

    With *advance*, time is moved on to whatever comes next, until nothing is left; this needs a `FakeClock`.
    Timeouts of handlers are not kept.
    """
    bench = _Bench(app)
    for made in range(most):
        if not bench.run_next(advance=advance):
            return made
    raise InvalidError("most", f"jobs still came after {most} attempts")


@contextmanager
def limits_kept(app: App) -> Iterator[None]:
    """Raise `AssertionError` in the end if attempts that started meanwhile broke a limit of theirs."""
    watch = _LimitCheck(app.engine)
    stop = app.engine.listen(watch.hear)
    try:
        yield
    finally:
        stop()
    if watch.broken:
        raise AssertionError("\n".join(watch.broken))


class _LimitCheck:
    """Looks at every start as it is told, and counts for itself."""

    def __init__(self, engine: AnyEngine) -> None:
        self._engine = engine
        self._starts: defaultdict[tuple[str, str], list[tuple[int, int, str]]] = defaultdict(list)
        self._running: defaultdict[tuple[str, str], set[tuple[str, str]]] = defaultdict(set)
        self._instances: set[tuple[str, str]] = set()
        self.broken: list[str] = []

    def hear(self, event: Event) -> None:
        """Judge a start by the limits that its job, or its run of a workflow, carries."""
        if event.name == "job.spent":
            self._spent(str(event.facts["job"]), cast("dict[str, int]", event.facts["used"]))
        elif event.name == "job.started":
            job = self._engine.job(str(event.facts["job"]), str(event.facts["tenant"]))
            self._started(event.at, job.id, job.tenant, job.limits, job.cost)
        elif event.name == "instance.started":
            run = self._engine.instance(str(event.facts["instance"]), str(event.facts["tenant"]), steps=False)
            self._instances.add((run.id, run.tenant))
            self._started(event.at, run.id, run.tenant, run.limits, 1)

    def _started(self, at: int, id_: str, tenant: str, limits: Sequence[Limit], cost: int) -> None:
        for limit in limits:
            gate = (limit.owner(tenant), limit.key)
            self._starts[gate].append((at, cost if limit.cost is None else limit.cost, id_))
            self._running[gate].add((id_, tenant))
            self._judge(gate, self._in_force(gate, limit.numbers))

    def _spent(self, job: str, used: dict[str, int]) -> None:
        """Have the last start of a job weigh what it used."""
        for (_, key), starts in self._starts.items():
            last = max((n for n, (_, _, id_) in enumerate(starts) if id_ == job), default=None)
            if key in used and last is not None:
                starts[last] = (starts[last][0], used[key], job)

    def _judge(self, gate: tuple[str, str], numbers: Numbers) -> None:
        starts = self._starts[gate]
        last, _, job = starts[-1]
        key = gate[1]
        running = self._running[gate] = {each for each in self._running[gate] if self._runs(*each)}
        if numbers.slots is not None and len(running) > numbers.slots:
            self.broken.append(f"{key}: {len(running)} ran at once when {job} started; {numbers.slots} may")
        if (rate := numbers.rate) is not None:
            weight = sum(cost for at, cost, _ in starts if at + rate.period > last)
            if weight > rate.limit:
                self.broken.append(
                    f"{key}: {weight} started within {format_duration(rate.period)} when {job} did; {rate.limit} may"
                )
        if (throttle := numbers.throttle) is not None and throttle.limit:
            close = [at for at, cost, _ in starts[:-1] if at + cost * throttle.gap > last]
            if close and (throttle.burst == 1 or _overdrawn(throttle, starts)):
                apart = format_duration(last - max(close))
                self.broken.append(
                    f"{key}: {job} started {apart} after another; {format_duration(throttle.gap)} must lie between"
                )

    def _runs(self, id_: str, tenant: str) -> bool:
        if (id_, tenant) in self._instances:
            # It keeps its slots while it is paused.
            view = self._engine.instance(id_, tenant, steps=False)
            return view.state in {InstanceState.RUNNING, InstanceState.PAUSED}
        return self._engine.job(id_, tenant).state is State.RUNNING

    def _in_force(self, gate: tuple[str, str], own: Numbers) -> Numbers:
        view = self._engine.gate(gate[1], tenant=gate[0])
        if view.floating is not None:
            maximum = view.floating if own.slots is None or own.floats else min(own.slots, view.floating)
            own = replace(own, slots=maximum)
        layers = [each for each in (view.override, view.configured, own) if each is not None]
        return Numbers(
            next((each.slots for each in layers if each.slots is not None), None),
            next((each.rate for each in layers if each.rate is not None), None),
            next((each.throttle for each in layers if each.throttle is not None), None),
        )


class _Bench:
    """Runs an app's jobs on the spot."""

    def __init__(self, app: App) -> None:
        self._engine = app.engine
        self._handlers = app.handlers
        self._refreshers = app.refreshers
        self._queues = app.queues
        self._shift = Shift(self._engine.clock)
        self._shift.note_progress = self._note_progress
        self._shift.note_spending = self._note_spending

    def run_next(self, *, advance: bool) -> bool:
        """Run one job; tell whether there was one."""
        while True:
            self._refresh()
            claim = self._engine.claim(self._all_queues(), 1, worker=_WORKER, lease=_LEASE)
            if claim.jobs:
                self._run(claim.jobs[0])
                return True
            if not claim.more and not (advance and self._move_to(claim.next_at)):
                return False

    def _run(self, job: Claimed) -> None:
        handler = self._handlers.get(job.task)
        if handler is None:
            raise NotFoundError("task", job.task)
        now = self._engine.clock.now()
        # The clock stands still, so the handler begins in time however slow the machine is.
        free = structs.replace(job, begin_by=0)
        attempt = Attempt(
            free, handler, self._shift, offset=monotonic() - now, renewed=monotonic(), lease=_LEASE
        )
        if handler.is_async:
            _run_coroutine(perform_async(attempt))
        else:
            perform(attempt, Alarm((), _LEASE, lambda _: None))
        settled = attempt.settlement()
        self._engine.settle(
            [structs.replace(settled, began_after=now - job.started if job.begin_by else None)]
        )

    def _all_queues(self) -> list[str]:
        # A job can be sent to a queue that no task names.
        return [*self._queues, *(str(queue["name"]) for queue in self._engine.queues())]

    def _move_to(self, moment: int | None) -> bool:
        clock = self._engine.clock
        if not isinstance(clock, FakeClock):
            raise InvalidError("advance", f"a {type(clock).__name__} cannot be moved; use a FakeClock")
        if moment is None or moment <= clock.now():
            return False
        clock.advance_to(moment)
        return True

    def _refresh(self) -> None:
        due = self._engine.refreshes(list(self._refreshers), _REFRESHES, worker=_WORKER, lease=_LEASE)
        for refresh in due:
            value = self._refreshers[refresh.handler].compute(refresh)
            if iscoroutine(value):
                value = _run_coroutine(value)
            self._engine.refreshed(refresh, value=whole(value))

    def _note_progress(self, attempt: Attempt) -> None:
        if attempt.progress is not None:
            self._engine.progress(attempt.claimed.seq, attempt.claimed.fence, attempt.progress)

    def _note_spending(self, attempt: Attempt) -> None:
        if attempt.used is not None:
            self._engine.spend([(attempt.claimed.seq, attempt.claimed.fence, attempt.used)])


def _overdrawn(throttle: Window, starts: Sequence[tuple[int, int, str]]) -> bool:
    """Tell whether the bucket of a throttle lacked what the last of *starts* took."""
    *earlier, (last, cost, _) = starts
    full = 0
    for at, weight, _ in earlier:
        full = max(full, at) + weight * throttle.gap
    return last < full - throttle.lead(cost)


def _run_coroutine(coroutine: Coroutine[Any, Any, T]) -> T:
    # In a thread of its own: the caller may be a coroutine itself.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coroutine).result()


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop that does not sleep: when all tasks wait, its time leaps to the next timer."""

    def __init__(self) -> None:
        self.elapsed = 1.0
        super().__init__(_Leaping(self))

    def time(self) -> float:
        return self.elapsed


class VirtualTime:
    """Runs coroutines in virtual time, by which policies go too."""

    def __init__(self) -> None:
        self.loop: VirtualLoop | None = None

    def now(self) -> float:
        """Return the seconds that have passed."""
        return 0.0 if self.loop is None else self.loop.elapsed - 1.0

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run *main* until it is done, without real waiting."""
        with self._in_place(), asyncio.Runner(loop_factory=self._new_loop) as runner:
            return runner.run(main)

    def _new_loop(self) -> VirtualLoop:
        self.loop = VirtualLoop()
        return self.loop

    @contextmanager
    def _in_place(self) -> Iterator[None]:
        before = policies_clock.now
        policies_clock.now = lambda: 0 if self.loop is None else round(self.loop.elapsed * SECOND)
        try:
            yield
        finally:
            policies_clock.now = before


class _Leaping(selectors.DefaultSelector):
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0 if timeout is not None else None)
        if not ready and timeout:
            self._loop.elapsed += timeout
        return ready
