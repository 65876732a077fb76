"""Where a lane belongs now: among the ready, behind a shut gate, or nowhere because its job is dropped."""

from collections.abc import Iterable
from typing import Final

from penstock.engine.admission.board import Board, Moves, Shut
from penstock.engine.admission.lane import Lane, Stand, with_gate
from penstock.engine.admission.rows import in_part
from penstock.job import DROPPED_BY_LIMIT
from penstock.lifecycle.knowledge import part_of
from penstock.lifecycle.states import State
from penstock.limits.costs import cost_at
from penstock.limits.rules import OnLimit
from penstock.store import gates as gate_rows
from penstock.store import lanes as lane_rows
from penstock.store import parts as part_rows
from penstock.store import waiting as waiting_rows
from penstock.store.session import Part
from penstock.store.waiting import FreeJob, Head

TOGETHER: Final = 500  # jobs that are set apart from one lane at once


class Budget:
    """How many more lanes one transaction may test, so that it stays short."""

    def __init__(self, left: int) -> None:
        self.left = left

    def spend(self) -> bool:
        """Use up one test; False if none was left."""
        self.left -= 1
        return self.left >= 0


def place(board: Board, lane: Lane, budget: Budget, *, arriving: bool = False) -> None:
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
        board.next_head(lane)
    waiting = [s for s in shut if s.stand.on_limit is not OnLimit.DROP]
    if not waiting:
        # Open; or a drop gate that only a turn shuts: the claim decides.
        board.set_ready(lane)
        return
    set_aside(board, lane, waiting)


def set_aside(board: Board, lane: Lane, shut: list[Shut]) -> None:
    """Park a refused lane, count the refusal if it had been called, and tell of it."""
    if lane.called:
        board.turns.refused(lane)
    board.park(lane, shut)
    board.blocked.refused(lane)


def refused_and_gone(board: Board, lane: Lane, shut: list[Shut], *, arriving: bool) -> bool:
    """Drop the refused first job, or set it apart if it became too heavy; tell whether it left the lane."""
    gate = _dropping(board, lane, shut, arriving=arriving)
    if gate is not None:
        assert lane.head is not None  # noqa: S101 - the caller looked
        board.blocked.dropped(lane, gate)
        board.end_head(lane, State.DISCARDED, DROPPED_BY_LIMIT)
        left = board.leave(lane)
        if left is not None:
            board.call([left])
        return True
    if not lane.heavy and any(_too_heavy(board, lane, s.stand) for s in shut):
        _move_apart(board, lane)
        return True
    return False


def join(
    board: Board,
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
    for cost, costs in weights:
        if cost > 1 or costs is not None:
            _mark_heavy(board, lane, cost, costs)
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


def with_type(board: Board, lane: Lane, gate: int, budget: Budget) -> None:
    """Move a lane's first job to the lane that also passes the gate of its type, configured since it came."""
    _move_head(board, lane, sibling(board, lane, f"@{gate}", with_gate(lane.stands, gate)), budget)


def with_type_now(board: Board, lane: Lane, gate: int) -> None:
    """Do the same for a lane that no claim considers: it gets its next job at once."""
    if lane.unread:
        board.flush_lanes()
    if lane.head is None or gate_rows.type_of(board.db, lane.head) != gate:
        return  # the job left its lane meanwhile
    with_type(board, lane, gate, Budget(2))
    _go_on(board, lane)


def with_queue(board: Board, lane: Lane, gate: int) -> None:
    """Move a lane's first job, too heavy for its queue's own rate, to a lane behind the queue's gate."""
    stands, weight = with_gate(lane.stands, gate), lane.weight
    _move_head(board, lane, sibling(board, lane, f"@{gate}#{weight}", stands, weight), Budget(2))


def to_part(board: Board, lane: Lane, task: str, budget: Budget) -> None:
    """Move a lane's first job, and jobs of its task that follow, to the like lane in the part of that task."""
    board.flush_lanes()
    part, name = part_of(task), lane_rows.signature(board.db, lane.id)
    other = _find_or_make(
        board, in_part(part, name), (lane.tenant, lane.queue, part), lane.stands, lane.apart
    )
    # All of them first: the head may not stay in the lane that it joins, and the next one is read then.
    moved = set(part_rows.change_lane(board.db, lane.id, task, other.id, TOGETHER))
    other.upcoming = []
    _move_head(board, lane, other, budget, judged=False)
    for seq in {turn.seq for s in lane.stands if (turn := board.posts[s.gate].turn) is not None} & moved:
        board.turns.gone(lane, seq)


def apart_at_queue(board: Board, place_: Part, gate: int, job: FreeJob) -> None:
    """Stand a job without limits, too heavy for its queue's own rate, in a lane behind the queue's gate."""
    seq, priority, ord_, cost, attempt, lost, task = job
    _, queue, part = place_
    name = in_part(part, f"\x1f{queue}\x1f@{gate}#{cost}")
    lane = _find_or_make(board, name, place_, with_gate((), gate), str(cost))
    waiting_rows.join_lanes(board.db, [(seq, lane.id, priority, ord_, cost, None, attempt, lost, 0, 0)])
    join(board, lane, (seq, priority, ord_, cost, None, task), Budget(2), [(cost, None)])


def set_apart(board: Board, lane: Lane) -> None:
    """Give a job that became too heavy a lane and a line of its own, and its lane the next job."""
    _move_apart(board, lane)
    _go_on(board, lane)


def sibling(
    board: Board, lane: Lane, suffix: str, stands: tuple[Stand, ...], apart: str | None = None
) -> Lane:
    """Find or make the lane that is like *lane* but for its gates."""
    board.flush_lanes()
    return _find_or_make(board, lane_rows.signature(board.db, lane.id) + suffix, lane.where, stands, apart)


def _find_or_make(
    board: Board, name: str, place_: Part, stands: tuple[Stand, ...], apart: str | None
) -> Lane:
    board.flush_lanes()
    for _, row in lane_rows.by_signature(board.db, [name]):
        return board.adopt([row])[0]
    return new_lane(board, Lane(board.db.numbers(1)[0], *place_, stands, apart, signature=name))


def new_lane(board: Board, lane: Lane) -> Lane:
    """Put an empty lane on the board; its gates begin to remember what its rules need."""
    board.lanes[lane.id], lane.fresh = lane, True
    board.touch(lane)
    board.load_gates(s.gate for s in lane.stands)
    for stand in lane.stands:
        post = board.posts[stand.gate]
        if post.gate.remember(stand.own, board.now):
            post.memory_changed = True
    return lane


def _dropping(board: Board, lane: Lane, shut: list[Shut], *, arriving: bool) -> int | None:
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


def _too_heavy(board: Board, lane: Lane, stand: Stand) -> bool:
    return board.posts[stand.gate].gate.too_heavy(stand.own, lane.cost_at(stand), board.now)


def _move_apart(board: Board, lane: Lane) -> None:
    weight = lane.weight
    _move_head(board, lane, sibling(board, lane, f"#{weight}", lane.stands, weight), Budget(2))


def _move_head(board: Board, lane: Lane, other: Lane, budget: Budget, *, judged: bool = True) -> None:
    moved = lane.first
    assert moved is not None  # noqa: S101 - the caller looked
    board.turns.gone(lane)
    waiting_rows.change_lane(board.db, moved[0], other.id)
    left = board.leave(lane)
    lane.head, lane.upcoming = None, []
    board.touch(lane)
    join(board, other, moved, budget, [(lane.cost, lane.costs)], judged=judged)
    if left is not None:
        board.call([left])


def _go_on(board: Board, lane: Lane) -> None:
    """Give a lane whose first job was moved its next one, and a place."""
    board.next_head(lane)
    lane.ready = 0
    place(board, lane, Budget(1_000))


def _mark_heavy(board: Board, lane: Lane, cost: int, costs: str | None) -> None:
    for stand in lane.stands:
        post = board.posts[stand.gate]
        heavy = cost_at(stand.place, cost, costs) > 1
        if heavy and post.gate.starts is not None and not post.heavy:
            post.heavy = post.memory_changed = True


MOVES: Final = Moves(set_apart, with_type_now)
