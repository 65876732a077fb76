"""Which job stands first in each lane: its head.

Jobs that leave the front of their lanes are deleted from there together, by `flush`.  Until then a lane counts them.
"""

from typing import TYPE_CHECKING

from penstock.engine.admission.lane import Lane
from penstock.engine.admission.to_follow import JobEnd
from penstock.lifecycle.states import State
from penstock.store import jobs as job_rows
from penstock.store import lanes as lane_rows
from penstock.store import waiting as waiting_rows

if TYPE_CHECKING:
    from penstock.engine.admission.board import Board


class Heads:
    """The first jobs of the lanes on a board."""

    def __init__(self, board: "Board") -> None:
        self._board = board
        self._gone: list[int] = []  # jobs that left their lane's front
        self._leaving: list[list[int]] = []  # the same, whose deletion goes along with another statement
        self._shortened: list[Lane] = []
        self._unread: dict[int, Lane] = {}
        self._ended: list[tuple[int, State, str]] = []
        self.left: dict[int, tuple[int, int]] = {}  # attempt and lost of the jobs that left their lane

    def drop(self, lane: Lane) -> None:
        """Take the first job off a lane, because it started, was dropped or moved elsewhere."""
        if lane.head is not None:
            self._gone.append(lane.head)
        lane.gone += 1
        self._shortened.append(lane)
        self._board.touch(lane)

    def drop_next(self, lane: Lane, seq: int) -> None:
        """Take the next job off a lane whose first has gone and that is read later."""
        self._gone.append(seq)
        lane.gone += 1

    def end(self, lane: Lane, state: State, reason: str) -> None:
        """Take the first job off a lane for good."""
        assert lane.head is not None  # noqa: S101 - only lanes with a job are considered
        self._ended.append((lane.head, state, reason))
        self._board.to_follow.ended[lane.head] = JobEnd(state)
        self._board.turns.gone(lane)
        self.drop(lane)

    def next(self, lane: Lane, look_ahead: int = 1) -> None:
        """Read which job stands first in a lane now."""
        if not lane.upcoming:
            lane.upcoming = waiting_rows.in_lane(self._board.db, lane.id, lane.gone, look_ahead)
            lane.upcoming.reverse()
        if lane.upcoming:
            lane.begin_with(lane.upcoming.pop())
        else:
            lane.head = None
        self._board.touch(lane)

    def read_later(self, lane: Lane) -> None:
        """Leave it to `flush` to find the lane's first job: it is refused, whichever it is."""
        lane.unread = True
        self._unread[lane.id] = lane

    def flush_along(self) -> None:
        """Have what `flush` asks the store go along with the next statement, where that saves a way."""
        gone, unread = self._gone, list(self._unread)
        if gone and self._board.db.along(lambda db: waiting_rows.leave_lanes(db, gone)):
            self._leaving.append(gone)
            self._gone = []
            self._deleted()
            if unread:
                self._board.db.along(lambda db: lane_rows.heads(db, unread))

    @property
    def changed(self) -> bool:
        """Whether there is something to flush."""
        return bool(self._gone or self._leaving or self._unread)

    def flush(self) -> None:
        """Delete the jobs that left their lanes; find the heads that were left to be read."""
        leaving, self._leaving = self._leaving, []
        if self._gone:
            leaving.append(self._gone)
            self._gone = []
            self._deleted()
        for seqs in leaving:
            gone = waiting_rows.leave_lanes(self._board.db, seqs)
            self.left.update((seq, (attempt, lost)) for seq, attempt, lost, _ in gone)
            if self._board.events.wanted:
                self._board.blocked.left((seq, told) for seq, _, _, told in gone)
        if self._unread:
            self._read()

    def write_ends(self) -> None:
        """Write down how jobs ended that never started."""
        if self._ended:
            now = self._board.now
            job_rows.end(
                self._board.db,
                [job_rows.unstarted(seq, state, now, self.left[seq], reason) for seq, state, reason in self._ended],
            )  # fmt: skip
            self._ended = []

    def _deleted(self) -> None:
        for lane in self._shortened:
            lane.gone = 0
        self._shortened = []

    def _read(self) -> None:
        unread, self._unread = self._unread, {}
        heads = lane_rows.heads(self._board.db, list(unread))
        for lane in unread.values():
            lane.unread, lane.upcoming = False, []
            if lane.id in heads:
                job, told = heads[lane.id]
                lane.begin_with(job)
                if not told:
                    self._board.blocked.refused(lane)
            else:
                lane.head, lane.ready = None, 0
                # No other lane can be called: the gate was found shut for any job.
                self._board.leave(lane)
            self._board.touch(lane)
