"""Where a lane belongs now: among the ready, behind a shut gate, or nowhere because its job is dropped."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from penstock.engine.admission.lane import Lane, Shut
from penstock.job import DROPPED_BY_LIMIT
from penstock.lifecycle.states import State
from penstock.limits.rules import OnLimit
from penstock.store.waiting import Head

if TYPE_CHECKING:
    from penstock.engine.admission.board import Board


class Budget:
    """How many more lanes one transaction may test, so that it stays short."""

    def __init__(self, left: int) -> None:
        self.left = left

    def spend(self) -> bool:
        """Use up one test; False if none was left."""
        self.left -= 1
        return self.left >= 0


def place(board: "Board", lane: Lane, budget: Budget, *, arriving: bool = False) -> None:
    """Test a lane's first job: make the lane ready or park it; or drop the job and test the next."""
    while True:
        if lane.head is None:
            board.empty(lane)
            return
        if not budget.spend():
            board.set_ready(lane)
            return
        shut = board.test(lane)
        if not refused_and_gone(board, lane, shut, arriving=arriving):
            break
        board.heads.next(lane)
    waiting = [s for s in shut if s.stand.on_limit is not OnLimit.DROP]
    if not waiting:
        # Open; or a drop gate that only a turn shuts: the claim decides.
        board.set_ready(lane)
        return
    set_aside(board, lane, waiting)


def set_aside(board: "Board", lane: Lane, shut: list[Shut]) -> None:
    """Park a refused lane, count the refusal if it had been called, and tell of it."""
    if lane.called:
        board.turns.refused(lane)
    board.park(lane, shut)
    board.blocked.refused(lane)


def refused_and_gone(board: "Board", lane: Lane, shut: list[Shut], *, arriving: bool) -> bool:
    """Drop the refused first job, or set it apart if it became too heavy; tell whether it left the lane."""
    gate = _dropping(board, lane, shut, arriving=arriving)
    if gate is not None:
        assert lane.head is not None  # noqa: S101 - the caller looked
        board.blocked.dropped(lane, gate)
        board.heads.end(lane, State.DISCARDED, DROPPED_BY_LIMIT)
        left = board.leave(lane)
        if left is not None:
            board.call([left])
        return True
    if any(board.heavy.is_too_heavy(lane, s.stand) for s in shut):
        board.heavy.move_apart(lane)
        return True
    return False


def join(
    board: "Board",
    lane: Lane,
    first: Head,
    budget: Budget,
    weights: Iterable[tuple[int, str | None]],
    *,
    judged: bool = True,
) -> None:
    """Add newcomers to a lane; the *first* of them matters if it comes before the lane's head.

    Their *weights* are each a cost, and the costs at the gates if those differ.  One that is not *judged* is not
    dropped: a claim that knows it decides.
    """
    _, priority, ord_, *_ = first
    drops = any(stand.on_limit is OnLimit.DROP for stand in lane.stands)
    if lane.unread:
        board.flush_lanes()
    board.heavy.joined(lane, weights)
    if lane.head is None:
        lane.begin_with(first)
        board.touch(lane)
        if drops and not judged:
            board.set_ready(lane)
        else:
            place(board, lane, budget, arriving=True)
    elif (-priority, ord_) < lane.rank:
        lane.begin_with(first)
        lane.upcoming = []
        board.touch(lane)
        if drops and judged:
            place(board, lane, budget, arriving=True)
        elif lane.line is not None and not lane.ready:
            board.call([lane.line])
            board.blocked.refused(lane)  # it may come from another lane, in which it was not blocked
        if lane.ready:
            board.newly_ready.append(lane)  # it comes earlier now than the claim has read


def new_lane(board: "Board", lane: Lane) -> Lane:
    """Put an empty lane on the board; its gates begin to remember what its rules need."""
    board.db.need_gates()
    board.lanes[lane.id], lane.fresh = lane, True
    board.touch(lane)
    board.load_gates(s.gate for s in lane.stands)
    for stand in lane.stands:
        post = board.posts[stand.gate]
        if post.gate.remember(stand.own, board.now):
            post.memory_changed = True
    return lane


def _dropping(board: "Board", lane: Lane, shut: list[Shut], *, arriving: bool) -> int | None:
    """Return the gate at which the first job must be dropped: nothing else keeps it waiting."""
    for stand, _ in shut:
        if stand.on_limit is not OnLimit.DROP:
            return None
    for stand, _ in shut:
        # On arrival the numbers alone decide, not whose turn it is.
        gate = board.posts[stand.gate].gate
        if not arriving or gate.opens_at(stand.own, lane.cost_at(stand), board.now) > board.now:
            return stand.gate
    return None
