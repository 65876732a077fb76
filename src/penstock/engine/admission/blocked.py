"""Tell of each job that a limit keeps from starting, once for each time that it stands in line.

A job is blocked when it joins a parked lane, or when a lane is parked in which it stands.  Told are the job that was
refused, at the head of the lane, and some of those behind it; the others when they are first, at the latest.  So a
claim reads a bounded number of jobs for it, and none where all were told.

Without listeners nothing is told, and nothing is read or written for it.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from penstock.engine.admission.lane import Lane
from penstock.job import Claimed
from penstock.store import waiting as waiting_rows

if TYPE_CHECKING:
    from penstock.engine.admission.board import Board

BEHIND: Final = 100  # jobs of a lane that are told of with their first
LANES: Final = 16  # lanes of which that many are read in one transaction


class Blocked:
    """The jobs of one transaction that are blocked, or were when they started."""

    def __init__(self, board: "Board") -> None:
        self._board = board
        self._refused: list[tuple[Lane, int, int, dict[str, object]]] = []
        self._dropped: list[tuple[int, int, dict[str, object]]] = []
        self._told: dict[int, int] = {}  # at which gate those were told to be blocked that left their lane

    def gate_of(self, lane: Lane) -> int:
        """Return the gate behind which a job that joins the lane is blocked; 0 if it is not, or nothing listens."""
        return lane.behind if self._board.events.wanted and lane.behind is not None and not lane.ready else 0

    def refused(self, lane: Lane) -> None:
        """Note that the first job of a lane was refused, and the lane parked."""
        gate = self.gate_of(lane)
        if gate and lane.head is not None:
            facts = self._board.events.refusal(self._board, lane, gate)
            self._refused.append((lane, lane.head, gate, facts))

    def dropped(self, lane: Lane, gate: int) -> None:
        """Note that the first job of a lane is dropped at a gate, and about to leave the lane."""
        if self._board.events.wanted and lane.head is not None:
            self._dropped.append((lane.head, gate, self._board.events.refusal(self._board, lane, gate)))

    def joined(self, lane: Lane, seqs: Sequence[int], known: int) -> None:
        """Tell of jobs that joined a lane, if they are blocked; *known* is what `gate_of` said when they were added."""
        gate = self.gate_of(lane)
        if gate:
            if lane.head in seqs:
                self._refused = [each for each in self._refused if each[1] != lane.head]
            self._tell(seqs, self._board.events.refusal(self._board, lane, gate))
        if gate != known:
            waiting_rows.tell(self._board.db, [(gate, seq) for seq in seqs])

    def left(self, rows: Iterable[tuple[int, int]]) -> None:
        """Note (seq, gate at which it was told) of jobs that leave their lanes."""
        self._told.update((seq, gate) for seq, gate in rows if gate)

    def removed(self, seq: int) -> None:
        """Tell nothing more of a job that was ended while it waited."""
        self._refused = [each for each in self._refused if each[1] != seq]

    def started(self, jobs: Sequence[Claimed], worker: Callable[[int], str]) -> None:
        """Tell that jobs start, and which of them are released because they were told to be blocked."""
        events = self._board.events
        for n, job in enumerate(jobs) if events.wanted else ():
            if job.seq in self._told:
                events.released(self._board, self._told[job.seq], job.seq)
            events.started(job, worker(n))

    def flush(self) -> None:
        """Tell of those that were dropped, of those that were refused, and of jobs behind them."""
        dropped, self._dropped = self._dropped, []
        for head, gate, facts in dropped:
            if head not in self._told:
                self._tell([head], facts)
            self._board.events.dropped(self._board, gate, head)
        if self._refused:
            self._tell_refused()

    def _tell_refused(self) -> None:
        refused, self._refused = self._refused, []
        db = self._board.db
        told = dict(waiting_rows.told(db, [head for _, head, _, _ in refused]))
        marked = []
        for number, (lane, head, gate, facts) in enumerate(refused):
            if head not in told:
                # It was called after all, and left its lane in this very transaction.
                if head not in self._told:
                    self._tell([head], facts)
                    self._told[head] = gate
            elif not told[head]:
                deep = number < LANES and self.gate_of(lane) == gate
                rows = waiting_rows.first_told(db, lane.id, BEHIND) if deep else [(head, 0)]
                blocked = [seq for seq, at in rows if not at]
                self._tell(blocked, facts)
                marked += [(gate, seq) for seq in blocked]
                told |= dict.fromkeys(blocked, gate)
        if marked:
            waiting_rows.tell(db, marked)

    def _tell(self, seqs: Sequence[int], facts: dict[str, object]) -> None:
        for seq in seqs:
            self._board.events.exceeded(seq, facts)
