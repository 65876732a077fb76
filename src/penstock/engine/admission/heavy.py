"""Jobs whose start weighs more than one: they gather budget ahead of others, or have a lane of their own.

A line is served in order whatever its jobs weigh, so a heavy job that comes first holds the lighter ones behind it
until the rate has room for it.  One that became heavier than the rate in force would hold them for ever: it is set
apart, in a lane and a line of its own.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from penstock.engine.admission.lane import Lane, Shut, Stand, with_gate
from penstock.engine.admission.other_lane import find_or_make, go_on, move_head, sibling
from penstock.engine.admission.placement import Budget, join
from penstock.engine.admission.rows import in_part, line_of
from penstock.limits.costs import cost_at
from penstock.limits.gate import ALWAYS
from penstock.limits.rules import OnLimit
from penstock.store import lanes as lane_rows
from penstock.store import waiting as waiting_rows
from penstock.store.session import Part
from penstock.store.waiting import FreeJob

if TYPE_CHECKING:
    from penstock.engine.admission.board import Board


class Heavy:
    """The heavy jobs in the lanes of a board."""

    def __init__(self, board: "Board") -> None:
        self._board = board

    def joined(self, lane: Lane, weights: Iterable[tuple[int, str | None]]) -> None:
        """Mark the gates at which jobs that join a lane are heavy; each weight is a cost, and those at the gates."""
        for cost, costs in weights:
            if cost == 1 and costs is None:
                continue
            for stand in lane.stands:
                post = self._board.posts[stand.gate]
                heavy = cost_at(stand.place, cost, costs) > 1
                if heavy and post.gate.starts is not None and not post.heavy:
                    post.heavy = post.memory_changed = True

    def is_too_heavy(self, lane: Lane, stand: Stand) -> bool:
        """Tell whether the rate of a gate never allows the lane's first job, which is not set apart yet."""
        cost = lane.cost_at(stand)
        if cost == 1 or lane.heavy:
            return False
        return self._board.post(stand.gate).gate.too_heavy(stand.own, cost, self._board.now)

    def held_until(self, stand: Stand, lane: Lane) -> int:
        """Return when a heavier job ahead in the same line will have gathered its budget; ALWAYS if none waits."""
        board, now = self._board, self._board.now
        if board.turns.has_turn(lane):
            return ALWAYS
        line = line_of(lane, stand)
        while True:
            board.flush_lanes()
            first = next(iter(board.adopt(lane_rows.firsts(board.db, [line.name]))), None)
            if first is None or first is lane or first.rank > lane.rank:
                return ALWAYS
            theirs = first.stand_at(stand.gate)
            at = board.opens_at(theirs, first)
            if at <= now:
                return ALWAYS
            if self.is_too_heavy(first, theirs):
                self.set_apart(first)
                continue
            elsewhere = [
                Shut(s, opening)
                for s in first.stands
                if s.gate != stand.gate and (opening := board.opens_at(s, first)) > now
            ]
            if not elsewhere:
                board.lower_wake(stand.gate, at)
                return at
            # It could not start here even with the budget, so it holds no other.
            waiting = [s for s in elsewhere if s.stand.on_limit is not OnLimit.DROP]
            if waiting:
                board.park(first, waiting)
            else:
                board.leave(first)
                board.set_ready(first)  # to be dropped by the next claim

    def set_apart(self, lane: Lane) -> None:
        """Give a job that became too heavy a lane and a line of its own, and its lane the next job."""
        self.move_apart(lane)
        go_on(self._board, lane)

    def move_apart(self, lane: Lane) -> None:
        """Give a job that became too heavy a lane and a line of its own; the caller sees to its lane."""
        weight = lane.weight
        other = sibling(self._board, lane, f"#{weight}", lane.stands, weight)
        move_head(self._board, lane, other, Budget(2))

    def move_behind_queue(self, lane: Lane, gate: int) -> None:
        """Move a lane's first job, too heavy for its queue's own rate, to a lane behind the queue's gate."""
        stands, weight = with_gate(lane.stands, gate), lane.weight
        other = sibling(self._board, lane, f"@{gate}#{weight}", stands, weight)
        move_head(self._board, lane, other, Budget(2))

    def stand_behind_queue(self, place: Part, gate: int, job: FreeJob) -> None:
        """Stand a job without limits, too heavy for its queue's own rate, in a lane behind the queue's gate."""
        board, (_, queue, part) = self._board, place
        seq, priority, ord_, cost, attempt, lost, task = job
        name = in_part(part, f"\x1f{queue}\x1f@{gate}#{cost}")
        lane = find_or_make(board, name, place, with_gate((), gate), str(cost))
        waiting_rows.join_lanes(board.db, [(seq, lane.id, priority, ord_, cost, None, attempt, lost, 0, 0)])
        join(board, lane, (seq, priority, ord_, cost, None, task), Budget(2), [(cost, None)])
