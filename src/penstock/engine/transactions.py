"""What every verb stands on: the store, the time, the listeners, and one transaction to read or to write in."""

from collections.abc import Callable
from typing import Final, TypeVar

from penstock.clock import Clock
from penstock.engine.admission.board import Board
from penstock.engine.admission.own_lanes import seem_own
from penstock.engine.clock import EngineClock
from penstock.engine.events import Events, Publisher, named
from penstock.job import Event, Topic
from penstock.store.session import Locks, Session, Store

T = TypeVar("T")

LIKELY: Final = 32  # transactions for which the gates are taken at once after one that needed them
ALONE: Final = 8  # the same, for the gates that are not shared


class Transactions:
    """Runs the work of a verb in one transaction: makes a board, lets the work decide, saves, publishes."""

    def __init__(self, store: Store, clock: Clock | None = None, *, turns: bool = True) -> None:
        self.store = store
        # Whether workers may go on running when the machine of the store loses its power.
        self.far = store.remote
        self._time = EngineClock(clock)
        self.clock = self._time.clock
        self._turns = turns
        self._publisher = Publisher()
        self._swept = 0  # the gate after which the next sweep goes on
        self._before_close: list[Callable[[], None]] = []
        self._slow_claims = 0  # so many more claims are assumed to need more than one step
        self._gated = 0  # so many more transactions are assumed to need the gates
        self._alone = 0  # so many more are assumed to need them alone, because of lanes that share a gate
        store.write(self._time.now, keep=False)

    @property
    def overlaps(self) -> bool:
        """Whether exchanges at once do not hold up each other, as far as the last ones show."""
        return self.far and self._alone <= 0

    def close(self) -> None:
        """Call what `before_close` registered, then close the store."""
        try:
            while self._before_close:
                self._before_close.pop()()
        finally:
            self.store.close()

    def before_close(self, callback: Callable[[], None]) -> None:
        """Have *callback* called before the store is closed."""
        self._before_close.append(callback)

    def _write_freely(
        self,
        work: Callable[[Board], T],
        locks: Locks,
        *,
        keep: bool = True,
        first: Callable[[Session], object] | None = None,
    ) -> T:
        """Write with no more than *locks* as long as jobs have no limits, and with the gates while they do."""

        def watched(board: Board) -> T:
            answer = work(board)
            if board.posts or board.lanes or board.to_follow.in_workflows:
                self._gated = LIKELY
                if self.far and board.db.gated and (shared or not _seem_own(board)):
                    self._alone = ALONE
            return answer

        shared = False
        # Several threads count down at once, so that each number may pass zero.
        if self._gated > 0:
            self._gated -= 1
            shared = self.far and self._alone <= 0
            if not shared:
                self._alone -= 1
            locks = Locks.LANES if shared else Locks.GATES
        return self._write(watched, locks, keep=keep, first=first)

    def _write(
        self,
        work: Callable[[Board], T],
        locks: Locks = Locks.GATES,
        *,
        keep: bool = True,
        first: Callable[[Session], object] | None = None,
    ) -> T:
        if not self._publisher.listeners:
            return self.store.write(lambda db: self._run(db, work)[0], keep=keep, locks=locks, first=first)
        numbers: list[int] = []  # one for each run: a transaction may be run more than once

        def numbered(db: Session) -> tuple[T, list[Event]]:
            found = self._run(db, work)
            numbers.append(self._publisher.number())
            return found

        told: list[Event] = []
        try:
            answer, told = self.store.write(numbered, keep=keep, locks=locks, first=first)
            return answer
        finally:
            for number in numbers:
                self._publisher.told(number, told if number == numbers[-1] else ())

    def _run(self, db: Session, work: Callable[[Board], T]) -> tuple[T, list[Event]]:
        events = Events(self._time.now(db), wanted=bool(self._publisher.listeners))
        board = Board(
            db,
            events.now,
            events,
            turns=self._turns,
            later=lambda: self._time.now(db),
            follow=self._follow,
        )
        answer = work(board)
        board.flush()
        while board.to_follow.is_any:
            db.send_last()  # or it would undo what follows
            board.follow()
            board.flush()
        if board.own.left_ready:
            db.tell(Topic.WORK)  # no claim could take it meanwhile
        return answer, named(db, events)

    def _follow(self, board: Board) -> None:
        """Do what follows from the ends of this transaction's jobs; `InstanceVerbs` knows how."""
        raise NotImplementedError

    def _read(self, work: Callable[[Board], T]) -> T:
        now = self._time.seen()
        return self.store.read(lambda db: work(Board(db, now, Events(now, wanted=False), turns=self._turns)))


def _seem_own(board: Board) -> bool:
    return not board.to_follow.in_workflows and seem_own(board.lanes.values(), board.posts.values())
