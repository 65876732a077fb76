"""Which tasks a claim knows.  Jobs of others are set apart, each in the part of its task, and stay there."""

from typing import TYPE_CHECKING, Final

from penstock.engine.admission.claim_queues import ClaimQueue
from penstock.engine.admission.lane import Lane
from penstock.engine.admission.other_lane import to_part
from penstock.engine.admission.placement import Budget
from penstock.lifecycle.knowledge import Knowledge
from penstock.store import jobs as job_rows
from penstock.store import parts as part_rows
from penstock.store.waiting import FreeJob

if TYPE_CHECKING:
    from penstock.engine.admission.board import Board

STRANGE_PAGE: Final = 500  # jobs without limits to read after some that the claim does not know
STRANGE_COST: Final = 16  # as so many tests counts the move of a page of those to their parts


class KnownTasks:
    """The tasks that one claim knows, and those that it met and does not know."""

    def __init__(self, board: "Board", known: Knowledge, budget: Budget) -> None:
        self._board = board
        self._known = known
        self._budget = budget
        self._strangers: set[tuple[str, str]] = set()  # queue and task

    def of(self, lane: Lane) -> str:
        """Return the task of a lane's first job."""
        if lane.task is None:
            assert lane.head is not None  # noqa: S101 - the caller looked
            lane.task = job_rows.tasks(self._board.db, [lane.head])[lane.head]
        return lane.task

    def knows(self, lane: Lane) -> bool:
        """Tell whether the task of a lane's first job is known."""
        return self._known.is_all or self.of(lane) in self._known

    def send_away(self, lane: Lane) -> bool:
        """Move a lane's first job to the part of its task if that is not known; tell whether it was moved."""
        if self._known.is_all or lane.part or (task := self.of(lane)) in self._known:
            return False
        to_part(self._board, lane, task, self._budget)
        self._strangers.add((lane.queue, task))
        return True

    def send_free_away(self, queue: ClaimQueue, rows: list[FreeJob]) -> list[FreeJob]:
        """Move jobs without limits to the parts of their tasks if those are not known; return the others."""
        strange = [] if self._known.is_all else [row for row in rows if row[-1] not in self._known]
        if not strange:
            return rows
        part_rows.set_apart(self._board.db, [(row[0], row[-1]) for row in strange])
        self._strangers.update((queue.key[1], row[-1]) for row in strange)
        queue.page = STRANGE_PAGE
        self._budget.left -= STRANGE_COST
        return [row for row in rows if row[-1] in self._known]

    def note(self) -> None:
        """Write down which tasks were met and not known."""
        if self._strangers:
            part_rows.note(self._board.db, self._strangers, self._board.now)
            part_rows.refused(self._board.db, self._strangers, self._board.now)
