"""A short way to say what happens at an engine: jobs by name, time in the test's hands."""

from collections.abc import Callable, Sequence
from typing import Any

from penstock.clock import SECOND
from penstock.engine import Engine
from penstock.job import Claimed, Event, JobView, NewJob, Settled, Settlement
from penstock.lifecycle.outcomes import Done, Outcome
from penstock.lifecycle.states import State
from penstock.limits.rules import Limit, Numbers, OnLimit, Window
from tests.support.clock import FakeClock

LEASE = 15 * SECOND


def slots(key: str, count: int, on_limit: str = "wait") -> Limit:
    """So many at once."""
    return Limit(key, Numbers(slots=count), OnLimit(on_limit))


def rate(key: str, count: int, per: int = SECOND, on_limit: str = "wait", cost: int | None = None) -> Limit:
    """So many starts in any window."""
    return Limit(key, Numbers(rate=Window(count, per)), OnLimit(on_limit), cost=cost)


def throttle(
    key: str, count: int, per: int = SECOND, on_limit: str = "wait", cost: int | None = None
) -> Limit:
    """Starts so far apart."""
    return Limit(key, Numbers(throttle=Window(count, per)), OnLimit(on_limit), cost=cost)


class Desk:
    """An engine whose jobs go by the names that the test gives them."""

    def __init__(self, engine: Engine, clock: FakeClock) -> None:
        self.engine = engine
        self.clock = clock
        self.attempts: dict[str, Claimed] = {}
        self.events: list[Event] = []
        engine.listen(self.events.append)

    def enqueue(self, names: str, *limits: Limit, queue: str = "q", **facts: Any) -> None:
        """Enqueue one job for each name, all with the same *limits*."""
        facts.setdefault("task", "task")
        self.engine.enqueue([NewJob(id=name, queue=queue, limits=limits, **facts) for name in names.split()])

    def claim(
        self,
        count: int = 10,
        queues: Sequence[str] = ("q",),
        lease: int = LEASE,
        tasks: Sequence[str] | None = None,
    ) -> str:
        """Claim, again while there is more; return the names of those that start."""
        names: list[str] = []
        more = True
        while more and len(names) < count:
            claim = self.engine.claim(queues, count - len(names), worker="worker", lease=lease, tasks=tasks)
            more = claim.more
            names += [claimed.id for claimed in claim.jobs]
            self.attempts |= {claimed.id: claimed for claimed in claim.jobs}
        return " ".join(names)

    def settle(
        self,
        names: str,
        outcome: Outcome | None = None,
        began: int | None = None,
        used: dict[str, int] | None = None,
    ) -> list[Settled]:
        """Settle the latest attempt of each."""
        attempts = [self.attempts[name] for name in names.split()]
        return self.engine.settle(
            [
                Settlement(
                    attempt.seq,
                    attempt.fence,
                    outcome or Done(),
                    None if began is None else began - attempt.started,
                    used=used,
                )
                for attempt in attempts
            ]
        )

    def begun(self, names: str) -> None:
        """Report that the handlers of these begin now."""
        attempts = [self.attempts[name] for name in names.split()]
        self.engine.begun(
            [(attempt.seq, attempt.fence, self.clock.now() - attempt.started) for attempt in attempts]
        )

    def spend(self, name: str, **used: int) -> bool:
        """Report what the latest attempt used of each key."""
        attempt = self.attempts[name]
        return self.engine.spend([(attempt.seq, attempt.fence, used)])[0]

    def wait(self, span: int) -> None:
        """Let time pass."""
        self.clock.advance(span)

    def job(self, name: str) -> JobView:
        return self.engine.job(name)

    def state(self, name: str) -> State:
        return self.engine.job(name).state

    def heard(self, name: str) -> list[Event]:
        """Return the events of that name so far."""
        return [event for event in self.events if event.name == name]


class Work:
    """How much the database did: statements, and steps of SQLite's virtual machine."""

    def __init__(self) -> None:
        self.statements: list[str] = []
        self.steps = 0


def work_of(engine: Engine, call: Callable[[], object]) -> Work:
    """Return what *call* made the database do."""
    work = Work()
    connection = engine.store.connection

    def step() -> int:
        work.steps += 1
        return 0

    connection.set_trace_callback(work.statements.append)
    connection.set_progress_handler(step, 1)
    try:
        call()
    finally:
        connection.set_trace_callback(None)
        connection.set_progress_handler(None, 0)
    return work
