"""Where a lane belongs now: among the ready, behind a shut gate, or nowhere because its job is dropped."""

from typing import Final

from penstock.engine.admission.board import Board, Moves, Shut
from penstock.engine.admission.lane import Lane, Stand, stands_to_text
from penstock.job import DROPPED_BY_LIMIT
from penstock.lifecycle.states import State
from penstock.limits.rules import UNLIMITED, OnLimit
from penstock.store import gates as gate_rows
from penstock.store import lanes as lane_rows
from penstock.store import waiting as waiting_rows
from penstock.store.session import Queue


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
    """Park a refused lane, count the refusal if it had been called, and tell of it once."""
    episode = lane.behind is None
    if lane.called:
        board.turns.refused(lane)
    board.park(lane, shut)
    if episode:
        board.events.exceeded(board, lane)


def refused_and_gone(board: Board, lane: Lane, shut: list[Shut], *, arriving: bool) -> bool:
    """Drop the refused first job, or set it apart if it became too heavy; tell whether it left the lane."""
    gate = _dropping(board, lane, shut, arriving=arriving)
    if gate is not None:
        assert lane.head is not None  # noqa: S101 - the caller looked
        board.events.dropped(board, gate, lane.head)
        board.events.tell("job.discarded", job=lane.head, reason=DROPPED_BY_LIMIT)
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
    board: Board, lane: Lane, seq: int, priority: int, ord_: int, cost: int, budget: Budget, heaviest: int = 1
) -> None:
    """Add newcomers to a lane; the first of them, given here, matters if it comes before the lane's head."""
    if lane.unread:
        board.flush_lanes()
    if max(cost, heaviest) > 1:
        _mark_heavy(board, lane)
    if lane.head is None:
        lane.head, lane.priority, lane.ord, lane.cost = seq, priority, ord_, cost
        board.touch(lane)
        place(board, lane, budget, arriving=True)
    elif (-priority, ord_) < lane.rank:
        lane.head, lane.priority, lane.ord, lane.cost = seq, priority, ord_, cost
        lane.upcoming = []
        board.touch(lane)
        if any(stand.on_limit is OnLimit.DROP for stand in lane.stands):
            place(board, lane, budget, arriving=True)
        elif lane.line is not None and not lane.ready:
            board.call([lane.line])
        if lane.ready:
            board.newly_ready.append(lane)  # it comes earlier now than the claim has read


def with_type(board: Board, lane: Lane, gate: int, budget: Budget) -> None:
    """Move a lane's first job to the lane that also passes the gate of its type, configured since it came."""
    stands = [*lane.stands, Stand(gate, UNLIMITED, OnLimit.WAIT)]
    _move_head(board, lane, stands_to_text(stands), f"@{gate}", budget)


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
    stands = [*lane.stands, Stand(gate, UNLIMITED, OnLimit.WAIT)]
    _move_head(board, lane, stands_to_text(stands, apart=lane.cost), f"@{gate}#{lane.cost}", Budget(2))


def apart_at_queue(board: Board, queue: str, gate: int, job: tuple[int, int, int, int, int, int]) -> None:
    """Stand a job without limits, too heavy for its queue's own rate, in a lane behind the queue's gate."""
    seq, priority, ord_, cost, attempt, lost = job
    signature = f"\x1f{queue}\x1f@{gate}#{cost}"
    gates = stands_to_text([Stand(gate, UNLIMITED, OnLimit.WAIT)], apart=cost)
    lane = _find_or_make(board, signature, ("", queue), gates)
    waiting_rows.join_lanes(board.db, [(seq, lane.id, priority, ord_, cost, attempt, lost, 0)])
    join(board, lane, seq, priority, ord_, cost, Budget(2))


def set_apart(board: Board, lane: Lane) -> None:
    """Give a job that became too heavy a lane and a line of its own, and its lane the next job."""
    _move_apart(board, lane)
    _go_on(board, lane)


def sibling(board: Board, lane: Lane, gates: str, suffix: str) -> Lane:
    """Find or make the lane that is like *lane* but for its gates."""
    board.flush_lanes()
    return _find_or_make(board, lane_rows.signature(board.db, lane.id) + suffix, lane.place, gates)


def _find_or_make(board: Board, signature: str, queue: Queue, gates: str) -> Lane:
    board.flush_lanes()
    for _, row in lane_rows.by_signature(board.db, [signature]):
        return board.adopt([row])[0]
    return new_lane(board, board.db.numbers(1)[0], signature, queue, gates)


def new_lane(board: Board, id_: int, signature: str, queue: Queue, gates: str) -> Lane:
    """Put an empty lane on the board; its gates begin to remember what its rules need."""
    lane = Lane(id_, *queue, gates, None, 0, 0, 1, None, None, 0, signature=signature, fresh=True)
    board.lanes[id_] = lane
    board.touch(lane)
    board.load_gates(s.gate for s in lane.stands)
    for stand in lane.stands:
        if stand.own.span:
            post = board.posts[stand.gate]
            post.gate.remember(stand.own.span, board.now)
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
        if not arriving or gate.opens_at(stand.own, lane.cost, board.now) > board.now:
            return stand.gate
    return None


def _too_heavy(board: Board, lane: Lane, stand: Stand) -> bool:
    return board.posts[stand.gate].gate.too_heavy(stand.own, lane.cost, board.now)


def _move_apart(board: Board, lane: Lane) -> None:
    gates = stands_to_text(lane.stands, apart=lane.cost)
    _move_head(board, lane, gates, f"#{lane.cost}", Budget(2))


def _move_head(board: Board, lane: Lane, gates: str, suffix: str, budget: Budget) -> None:
    assert lane.head is not None  # noqa: S101 - the caller looked
    board.turns.gone(lane)
    other = sibling(board, lane, gates, suffix)
    waiting_rows.change_lane(board.db, lane.head, other.id)
    left = board.leave(lane)
    moved = (lane.head, lane.priority, lane.ord, lane.cost)
    lane.head, lane.upcoming = None, []
    board.touch(lane)
    join(board, other, *moved, budget)
    if left is not None:
        board.call([left])


def _go_on(board: Board, lane: Lane) -> None:
    """Give a lane whose first job was moved its next one, and a place."""
    board.next_head(lane)
    lane.ready = 0
    place(board, lane, Budget(1_000))


def _mark_heavy(board: Board, lane: Lane) -> None:
    for stand in lane.stands:
        post = board.posts[stand.gate]
        if post.gate.starts is not None and not post.heavy:
            post.heavy = post.memory_changed = True


MOVES: Final = Moves(set_apart, with_type_now)
