"""A machine in virtual time: a clock that can be set, processes that die at any statement, one store."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any, TypeVar
from unittest.mock import patch

from penstock import clock as clocks
from penstock.engine import Engine
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
        self.committed = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def execute(self, sql: str, *values: Any) -> Any:
        if sql != "ROLLBACK":
            self._count()
        answer = self._connection.execute(sql, *values)
        self.committed = self.committed or sql == "COMMIT"
        return answer

    def executemany(self, sql: str, *values: Any) -> Any:
        self._count()
        return self._connection.executemany(sql, *values)

    def _count(self) -> None:
        self._left -= 1
        if self._left < 0 and not self.committed:
            raise Crash


class Machine:
    """One store in memory, and the process that has it open."""

    def __init__(self, *, turns: bool) -> None:
        self.since_start = UPTIME  # true time: nobody can set it
        self.wall = BEGINNING
        self._turns = turns
        self.store = SqliteStore(":memory:")
        self.engine = Engine(self.store, turns=turns)

    def wait(self, span: int) -> None:
        """Let time pass."""
        self.since_start += span
        self.wall += span

    def set_clock(self, by: int) -> None:
        """Set the clock on the wall."""
        self.wall += by

    def restart(self) -> None:
        """End the process and begin another: what it had in memory is gone."""
        self.engine = Engine(self.store, turns=self._turns)

    def until_crash(self, statements: int, call: Callable[[], T]) -> tuple[bool, T | None]:
        """Do it in a process that dies at one of the next statements; tell whether anything was committed.

        One that gets to the end dies before anybody hears of it.
        """
        writer = self.store._writer
        whole = writer._connection
        wire: Any = _Wire(whole, statements)
        writer._connection = wire
        try:
            return True, call()
        except Crash:
            return False, None
        finally:
            writer._connection = whole
            self.restart()

    def close(self) -> None:
        self.engine.close()


@contextmanager
def machine(*, turns: bool) -> Iterator[Machine]:
    """Give a machine; while it is there its time is everybody's, and ids are counted."""
    machine = Machine.__new__(Machine)
    numbers = count(1)
    with (
        patch.object(clocks.SystemClock, "now", lambda _: machine.wall),
        patch.object(clocks, "since_boot", lambda: machine.since_start),
        patch("penstock.engine.clock.since_boot", lambda: machine.since_start),
        patch("penstock.engine.clock.boot_name", lambda: "this run"),
        patch("penstock.engine.enqueue.new_id", lambda: f"auto-{next(numbers)}"),
    ):
        machine.since_start, machine.wall = UPTIME, BEGINNING
        machine.__init__(turns=turns)  # type: ignore[misc]
        try:
            yield machine
        finally:
            machine.close()
