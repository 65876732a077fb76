"""Bulk operations: they go on in this process, a batch at a time, while no page waits for them.

Each batch is a transaction of its own, which counts in the one entry of the operation in the audit: so the entry says
how far it came, whatever ended it.  Between two batches it rests as long as the last one took.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from msgspec import Struct, to_builtins

from penstock.acting import Actor
from penstock.clock import SECOND, monotonic
from penstock.engine import Engine
from penstock.engine.job_batches import MOST, JobChange
from penstock.errors import ConflictError, NotFoundError, PenstockError, StoreBusyError
from penstock.job import Count, JobQuery

Batch = Sequence[tuple[str, str]]  # jobs, given (id, tenant)

AT_ONCE: Final = 4  # of those who are bound to no tenant
OF_TENANT: Final = 2
OF_TENANTS: Final = 8  # of all tenants together
KEPT: Final = 50  # operations that are over, and still shown
FIRST: Final = 50  # jobs of the first batch
LONGEST: Final = SECOND // 10  # a batch that took longer is followed by a smaller one
TRIES: Final = 5  # at a store that is busy
PATIENCE: Final = 5.0  # seconds for the last batches when the process ends

log = logging.getLogger("penstock.monitor")


class Wanted(Struct, frozen=True):
    """What to do to which jobs: those that are *chosen*, given (id, tenant), or all that fit."""

    change: JobChange
    query: JobQuery
    chosen: tuple[tuple[str, str], ...] = ()

    @property
    def told(self) -> str:
        """Which jobs are meant, in a line."""
        if self.chosen:
            return ", ".join(id_ for id_, _ in self.chosen)
        given = {name: value for name, value in to_builtins(self.query).items() if value is not None}
        for name in ("words", "error"):
            if name in given:
                given[name] = (
                    "(not written down)"  # arguments may be secrets, and stand in what handlers raise
                )
        return " ".join(f"{name}={value}" for name, value in given.items())


@dataclass(slots=True)
class Operation:
    """One bulk operation: of so many jobs *at first* it has changed *done*, and left *passed* as they were.

    Its *state* is running, done, stopped or failed; then *problem* says why.
    """

    number: int
    wanted: Wanted
    who: str
    reason: str
    tenant: str | None
    at_first: Count
    began: int
    done: int = 0
    passed: int = 0
    state: str = "running"
    problem: str = ""
    stopping: threading.Event = field(default_factory=threading.Event)


class Operations:
    """The bulk operations of this process; *run* has work done on the engine."""

    def __init__(self, run: Callable[[Callable[[Engine], None]], None]) -> None:
        self._run = run
        self._known: dict[int, Operation] = {}
        self._threads: dict[int, threading.Thread] = {}
        self._lock = threading.Lock()

    def start(
        self, engine: Engine, wanted: Wanted, who: Actor, tenant: str | None, at_first: Count
    ) -> Operation:
        """Begin an operation, for an actor and perhaps of one tenant; it goes on by itself."""
        with self._lock:
            self._check_room(tenant)
            with engine.acting(who):
                bulk = engine.begin_bulk(f"job.{wanted.change}", "jobs", wanted.told, tenant=tenant or "")
            made = Operation(bulk.bulk, wanted, who.name, who.reason, tenant, at_first, engine.clock.now())
            self._known[made.number] = made
            thread = threading.Thread(
                target=self._conduct, args=(made, bulk), name="penstock-bulk", daemon=True
            )
            self._threads[made.number] = thread
            for over in [number for number, each in self._known.items() if each.state != "running"][:-KEPT]:
                del self._known[over], self._threads[over]
        thread.start()
        return made

    def of(self, tenant: str | None) -> list[Operation]:
        """Return the operations that a visitor of one tenant, or of all, sees; the newest first."""
        with self._lock:
            return [each for each in reversed(self._known.values()) if tenant in (None, each.tenant)]

    def stop(self, number: int, tenant: str | None) -> None:
        """Have an operation end after the batch that is under way."""
        found = next((each for each in self.of(tenant) if each.number == number), None)
        if found is None:
            raise NotFoundError("bulk operation", str(number))
        if found.state != "running":
            raise ConflictError(f"the operation is {found.state} already")
        found.stopping.set()

    def close(self) -> None:
        """Have all end, after their batches that are under way."""
        with self._lock:
            threads = list(self._threads.values())
            for each in self._known.values():
                each.stopping.set()
        for thread in threads:
            thread.join(PATIENCE)

    def _check_room(self, tenant: str | None) -> None:
        """Raise if too many are under way: of this tenant, or of all tenants together."""
        running = [each.tenant for each in self._known.values() if each.state == "running"]
        most = AT_ONCE if tenant is None else OF_TENANT
        if running.count(tenant) >= most:
            raise ConflictError(f"{most} bulk operations are under way; wait for one, or stop one")
        if tenant is not None and len(running) - running.count(None) >= OF_TENANTS:
            raise ConflictError("too many bulk operations of other tenants are under way; try again later")

    def _conduct(self, operation: Operation, bulk: Actor) -> None:
        try:
            self._run(lambda engine: _carry_out(engine, operation, bulk))
        except PenstockError as error:
            operation.state, operation.problem = "failed", str(error)
        except Exception:
            log.exception("bulk operation %d failed", operation.number)
            operation.state, operation.problem = "failed", "the monitor made a mistake"
        else:
            operation.state = "stopped" if operation.stopping.is_set() else "done"
        try:
            ending = {"ended": operation.state, "left": operation.passed}
            self._run(lambda engine: engine.end_bulk(operation.number, ending))
        except PenstockError as error:
            log.warning("the end of bulk operation %d could not be written down: %s", operation.number, error)


def _carry_out(engine: Engine, operation: Operation, bulk: Actor) -> None:
    """Change batch after batch until there is none, or it is stopped."""
    size, wanted = FIRST, operation.wanted
    jobs = _Chosen(wanted.chosen) if wanted.chosen else _Fitting(engine, wanted.query)
    while not operation.stopping.is_set() and (batch := jobs.next(size)) is not None:
        began = monotonic()
        done = _changed(engine, wanted.change, batch, bulk, operation.stopping)
        took = monotonic() - began
        operation.done += done
        operation.passed += len(batch) - done
        size = max(size // 2, 1) if took > LONGEST else min(2 * size, MOST)
        operation.stopping.wait(took / SECOND)


def _changed(engine: Engine, change: JobChange, batch: Batch, bulk: Actor, stopping: threading.Event) -> int:
    """Change a batch in one transaction, again if the store is busy; return how many were changed."""
    for again in range(TRIES):
        try:
            with engine.acting(bulk):
                return engine.change_jobs(change, batch, bulk.reason)
        except StoreBusyError:
            if again == TRIES - 1:
                raise
        stopping.wait(again + 1)
    raise AssertionError("unreachable")


class _Chosen:
    """Jobs that were chosen one by one."""

    def __init__(self, jobs: Batch) -> None:
        self._left = list(jobs)

    def next(self, size: int) -> Batch | None:
        batch, self._left = self._left[:size], self._left[size:]
        return batch or None


class _Fitting:
    """Jobs that fit a query, newest first: one that comes meanwhile is not among them."""

    def __init__(self, engine: Engine, query: JobQuery) -> None:
        self._engine = engine
        self._query = query
        self._before: int | None = None
        self._over = False

    def next(self, size: int) -> Batch | None:
        """Return the next jobs, perhaps none of those looked at; None at the end."""
        if self._over:
            return None
        page = self._engine.job_page(self._query, before=self._before, most=size)
        self._before, self._over = page.before, page.before is None
        return [(job.id, job.tenant) for job in page.jobs]
