"""A machine in virtual time: a clock that can be set, processes that die at any statement, one store."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any, TypeVar
from unittest.mock import patch

from penstock import clock as clocks
from penstock.engine import Engine
from penstock.engine.admission import board, claiming
from penstock.job import Event
from penstock.store.postgres import PostgresStore, address
from penstock.store.postgres.session import Opening
from penstock.store.session import Locks
from penstock.store.sqlite import SqliteStore

T = TypeVar("T")

# 2026-01-01 00:00:20 UTC, so that a minute turns early in a history.
BEGINNING = 1_767_225_620_000_000
UPTIME = 5 * 3_600_000_000


class Crash(BaseException):
    """The process is gone."""


class _Wire:
    """A connection that is cut at a statement, unless something was committed before."""

    def __init__(self, connection: Any, statements: int) -> None:
        self._connection = connection
        self._left = statements
        self.used = False
        self.cut = False
        self._committed = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def execute(self, sql: str, *values: Any) -> Any:
        self._count()
        answer = self._connection.execute(sql, *values)
        self._committed = self._committed or sql == "COMMIT"
        return answer

    def executemany(self, sql: str, *values: Any) -> Any:
        self._count()
        return self._connection.executemany(sql, *values)

    def _count(self) -> None:
        # After the cut statements pass again: they are what SQLite does for a process that is gone.
        self.used = True
        self._left -= 1
        if self._left < 0 and not self._committed and not self.cut:
            self.cut = True
            raise Crash


class Machine:
    """One store, in memory unless there is a *url*, and the process that has it open."""

    def __init__(self, url: str | None, *, turns: bool) -> None:
        self.since_start = UPTIME  # true time, which cannot be set
        self.wall = BEGINNING
        self.counts: Counter[str] = Counter()
        self.events: list[Event] = []  # told and not heard yet
        self._turns = turns
        self._url = url

    def start(self) -> None:
        """Open the store."""
        self.store = SqliteStore(":memory:") if self._url is None else PostgresStore(address(self._url))
        self.restart()

    def wait(self, span: int) -> None:
        """Let time pass."""
        self.since_start += span
        self.wall += span

    def set_clock(self, by: int) -> None:
        """Set the clock on the wall; one that belongs to a database server stays right."""
        if self._url is None:
            self.wall += by

    def now(self) -> int:
        """Return what the clock of a database server says."""
        return self.wall

    def restart(self) -> None:
        """End the process and begin another: what it had in memory is gone."""
        self.engine = Engine(self.store, None if self._url is None else self, turns=self._turns)
        self.engine.listen(self.events.append)

    def until_crash(self, statements: int, call: Callable[[], T]) -> tuple[bool, T | None]:
        """Do it in a process that dies at one of the next statements; tell whether anything was committed.

        A process that gets to the end dies before it answers.  On PostgreSQL all of them do.
        """
        try:
            answer = call() if self._url is not None else self._cut_after(statements, call)
        except Crash:
            self.counts["crashed on the way"] += 1
            return False, None
        finally:
            self.restart()
        self.counts["crashed before the answer"] += 1
        return True, answer

    def _cut_after(self, statements: int, call: Callable[[], T]) -> T:
        writer = self.store._writer
        whole = writer._connection
        wire: Any = _Wire(whole, statements)
        before = whole.total_changes
        writer._connection = wire
        try:
            return call()
        finally:
            writer._connection = whole
            assert wire.used or whole.total_changes == before, (
                "the store writes past the wire: no crash is played"
            )

    def close(self) -> None:
        self.engine.close()


@contextmanager
def machine(url: str | None = None, *, turns: bool) -> Iterator[Machine]:
    """Give a machine; while it is there its time is the process's, and ids are counted."""
    machine = Machine(url, turns=turns)
    numbers = count(1)
    with (
        patch.object(clocks.SystemClock, "now", lambda _: machine.wall),
        patch.object(clocks, "since_boot", lambda: machine.since_start),
        patch("penstock.engine.clock.since_boot", lambda: machine.since_start),
        patch("penstock.engine.clock.boot_name", lambda: "this run"),
        patch("penstock.engine.enqueue.new_id", lambda: f"auto-{next(numbers)}"),
    ):
        machine.start()
        try:
            yield machine
        finally:
            machine.close()


@contextmanager
def short_transactions() -> Iterator[None]:
    """Have claims look at two lanes at a time and give up after four tests, so that they are asked again."""

    class Impatient(claiming.Budget):
        def __init__(self, left: int) -> None:
            super().__init__(min(left, 4))

    with patch.object(board, "LEAST_PAGE", 2), patch.object(claiming, "Budget", Impatient):
        yield


@contextmanager
def gates_taken() -> Iterator[None]:
    """Have enqueues on PostgreSQL find the gates taken, so that all jobs come by the door."""
    whole = Opening.writing

    def writing(opening: Opening, locks: Locks, *, keep: bool) -> str:
        return whole(opening, Locks.NONE if locks is Locks.GATES_IF_FREE else locks, keep=keep)

    with patch.object(Opening, "writing", writing):
        yield
