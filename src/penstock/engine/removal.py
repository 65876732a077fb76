"""End waiting jobs that were cancelled, expired or replaced; ask the workers of running ones to stop."""

from collections.abc import Sequence

from penstock.engine.admission.board import Board
from penstock.engine.admission.lane import Lane
from penstock.engine.admission.placement import Budget, place
from penstock.engine.admission.to_follow import JobEnd
from penstock.lifecycle.states import State
from penstock.store import jobs as job_rows
from penstock.store import leases as lease_rows
from penstock.store.jobs import Made


def remove(board: Board, seq: int, state: State, reason: str) -> bool:
    """End a job that waits or is scheduled; tell whether it did."""
    board.db.need_gates()
    board.flush_lanes()  # a job that was dropped in this transaction waits no more
    made = None
    while made is None:
        found = job_rows.place(board.db, seq)
        if found is None or found.table == "running":
            return False
        # A job without limits may start at this very moment; then it is found elsewhere.
        if found.lane is not None:
            made = leave_line(board, seq, board.lane(found.lane))
        else:
            made = job_rows.leave(board.db, found.table, seq)
    end(board, seq, made, state, reason)
    return True


def end(board: Board, seq: int, made: Made, state: State, reason: str) -> None:
    """Write down how a job ended that has left its place."""
    job_rows.end(board.db, [job_rows.unstarted(seq, state, board.now, made, reason)])
    _tell(board, seq, state, reason)


def remove_all(board: Board, seqs: Sequence[int], state: State, reason: str) -> list[int]:
    """End the jobs that still wait; return the others."""
    board.db.need_gates()
    gone = job_rows.leave_free(board.db, list(seqs))
    if gone:
        job_rows.end(
            board.db,
            [job_rows.unstarted(seq, state, board.now, made, reason) for seq, made in gone.items()],
        )
    others = []
    for seq in seqs:
        if seq in gone:
            _tell(board, seq, state, reason)
        elif not remove(board, seq, state, reason):
            others.append(seq)
    return others


def ask_to_stop(board: Board, seq: int) -> bool:
    """Ask the worker of a running job to stop; False if it does not run."""
    if not lease_rows.ask_to_cancel(board.db, seq, board.now):
        return False
    board.events.tell("job.cancel_asked", job=seq)
    return True


def _tell(board: Board, seq: int, state: State, reason: str) -> None:
    board.to_follow.ended[seq] = JobEnd(state)
    board.events.tell(f"job.{state.value}", job=seq, reason=reason)


def leave_line(board: Board, seq: int, lane: Lane) -> Made | None:
    """Take a job out of its lane, wherever it stands there; return its attempts so far."""
    board.blocked.removed(seq)
    if lane.head != seq:
        board.turns.gone(lane, seq)
        lane.upcoming = []
        return job_rows.leave(board.db, "lane_job", seq)
    # It may have been called or have the turn: both pass to the next job.
    board.turns.gone(lane)
    made = job_rows.leave(board.db, "lane_job", seq)
    left = board.leave(lane)
    lane.upcoming = []
    board.heads.next(lane)
    lane.ready = 0
    place(board, lane, Budget(1_000))
    if left is not None:
        board.call([left])
    return made
