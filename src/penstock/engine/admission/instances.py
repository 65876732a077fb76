"""Admit instances: start them as a claim starts jobs, in the transaction that frees their slots.

An instance runs without a worker, and without a lease: it ends when its workflow does.
"""

from penstock.engine.admission.board import Board
from penstock.engine.admission.claiming import Claiming
from penstock.engine.admission.lane import Lane
from penstock.job import INSTANCES
from penstock.lifecycle.knowledge import knowledge_of
from penstock.limits.gate import ON_RELEASE
from penstock.store import attempts as attempt_rows
from penstock.store import jobs as job_rows
from penstock.store import lanes as lane_rows
from penstock.store.claim_snapshot import ClaimSnapshot
from penstock.store.session import Part


def admit(board: Board) -> list[int]:
    """Start the instances whose gates are open, as many as this transaction may still admit; return which."""
    lanes, free = board.to_follow.admissible, board.to_follow.free_instances or board.to_follow.unadmitted
    if board.to_follow.unadmitted:
        board.flush_lanes()
        lanes = [*lanes, *board.adopt(lane_rows.ready_instances(board.db, board.to_follow.admissions))]
    board.to_follow.admissible, board.to_follow.free_instances, board.to_follow.unadmitted = [], False, False
    lanes = [lane for lane in {lane.id: lane for lane in lanes}.values() if _is_ready(lane)]
    if not lanes and not free:
        return []
    others, board.newly_ready = board.newly_ready, list(lanes)

    def leave(lane: Lane) -> bool:
        others.append(lane)  # a claim of this transaction may want it
        return False

    admitting = Admitting(board, _queues(lanes, free=free), board.to_follow.admissions, 0, _nothing(free=free),
                          knowledge_of(None), leave)  # fmt: skip
    admitting.run()
    board.newly_ready = others + board.newly_ready
    left = lanes if admitting.budget.left <= 0 else []
    board.to_follow.admissible = [lane for lane in [*left, *board.to_follow.admissible] if _is_ready(lane)]
    return admitting.start()


def _is_ready(lane: Lane) -> bool:
    return bool(lane.ready) and lane.head is not None


def _queues(lanes: list[Lane], *, free: bool) -> list[tuple[str, str]]:
    return sorted({lane.place for lane in lanes} | ({("", INSTANCES)} if free else set()))


def _nothing(*, free: bool) -> ClaimSnapshot:
    """Return what a claim knows that looks at nothing but the lanes on the board, and at *free* jobs."""
    with_free: set[Part] = {("", INSTANCES, "")} if free else set()
    return ClaimSnapshot({}, set(), set(), set(), with_free, set(), {}, {}, {}, {}, {})


class Admitting(Claiming):
    """A claim of instances, by the store itself."""

    def start(self) -> list[int]:
        """Write the starts down; return the instances."""
        board, db = self.board, self.board.db
        if not self.admitted:
            return []
        board.flush_lanes()  # so that what the jobs brought from their lanes is known
        fence, now, free, left = db.fence(), board.now, self.starting.free, board.heads.left
        rows = [
            t.row(fence, "", "", ON_RELEASE, now, left[t.seq]) for t in self.admitted if t.seq not in free
        ]
        if free:
            attempt_rows.run_ready(db, list(free), fence, "", ON_RELEASE, now)
        if rows:
            attempt_rows.start(db, rows)
        self.starting.keep()
        admitted = [t.seq for t in self.admitted]
        # It may run for years, in which no claim should look at this again.
        job_rows.keep_for_good(db, admitted)
        board.to_follow.admitted.update(admitted)
        board.to_follow.admissions -= len(admitted)
        return admitted
