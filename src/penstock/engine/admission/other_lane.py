"""Move a lane's first job to another lane: that of its type's gate, of the part of its task, or of its weight."""

from typing import TYPE_CHECKING, Final

from penstock.engine.admission.lane import Lane, Stand, with_gate
from penstock.engine.admission.placement import Budget, join, new_lane, place
from penstock.engine.admission.rows import in_part
from penstock.lifecycle.knowledge import part_of
from penstock.store import gates as gate_rows
from penstock.store import lanes as lane_rows
from penstock.store import parts as part_rows
from penstock.store import waiting as waiting_rows
from penstock.store.session import Part

if TYPE_CHECKING:
    from penstock.engine.admission.board import Board

TOGETHER: Final = 500  # jobs that are set apart from one lane at once


def with_type(board: "Board", lane: Lane, gate: int, budget: Budget) -> None:
    """Move a lane's first job to the lane that also passes the gate of its type, configured since it came."""
    move_head(board, lane, sibling(board, lane, f"@{gate}", with_gate(lane.stands, gate)), budget)


def with_type_now(board: "Board", lane: Lane, gate: int) -> None:
    """Do the same for a lane that no claim considers: it gets its next job at once."""
    if lane.unread:
        board.flush_lanes()
    if lane.head is None or gate_rows.type_of(board.db, lane.head) != gate:
        return  # the job left its lane meanwhile
    with_type(board, lane, gate, Budget(2))
    go_on(board, lane)


def to_part(board: "Board", lane: Lane, task: str, budget: Budget) -> None:
    """Move a lane's first job, and jobs of its task that follow, to the like lane in the part of that task."""
    board.flush_lanes()
    part, name = part_of(task), lane_rows.signature(board.db, lane.id)
    other = find_or_make(board, in_part(part, name), (lane.tenant, lane.queue, part), lane.stands, lane.apart)
    # All of them first: the head may not stay in the lane that it joins, and the next one is read then.
    moved = set(part_rows.change_lane(board.db, lane.id, task, other.id, TOGETHER))
    other.upcoming = []
    move_head(board, lane, other, budget, judged=False)
    for seq in {turn.seq for s in lane.stands if (turn := board.posts[s.gate].turn) is not None} & moved:
        board.turns.gone(lane, seq)


def sibling(
    board: "Board", lane: Lane, suffix: str, stands: tuple[Stand, ...], apart: str | None = None
) -> Lane:
    """Find or make the lane that is like *lane* but for its gates."""
    board.flush_lanes()
    return find_or_make(board, lane_rows.signature(board.db, lane.id) + suffix, lane.where, stands, apart)


def find_or_make(
    board: "Board", name: str, where: Part, stands: tuple[Stand, ...], apart: str | None
) -> Lane:
    """Return the lane of this signature, as a new one if there is none."""
    board.flush_lanes()
    for _, row in lane_rows.by_signature(board.db, [name]):
        return board.adopt([row])[0]
    return new_lane(board, Lane(board.db.numbers(1)[0], *where, stands, apart, signature=name))


def move_head(board: "Board", lane: Lane, other: Lane, budget: Budget, *, judged: bool = True) -> None:
    """Move a lane's first job to another lane; the caller sees to the next job."""
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


def go_on(board: "Board", lane: Lane) -> None:
    """Give a lane whose first job was moved its next one, and a place."""
    board.heads.next(lane)
    lane.ready = 0
    place(board, lane, Budget(1_000))
