"""Run an ended job again: through the gates like any start."""

from penstock.engine.arrive import again
from penstock.engine.board import Board
from penstock.engine.following import revive
from penstock.engine.sameness import stand_again
from penstock.errors import NotFoundError, WrongStateError
from penstock.lifecycle.states import State, may
from penstock.store import jobs as job_rows


def retry(board: Board, job_id: str) -> None:
    """Stand an ended job in line again, with all its attempts."""
    seq = job_rows.seq_of(board.db, job_id)
    if seq is None:
        raise NotFoundError("job", job_id)
    state = job_rows.state(board.db, seq)
    if state is None or not may(state, State.WAITING) or state in (State.SCHEDULED, State.RUNNING):
        raise WrongStateError(job_id, str(state), "a failed, discarded, cancelled or expired job")
    stand_again(board, seq)
    if not job_rows.begin_anew(board.db, seq):
        raise NotFoundError("job", job_id)
    again(board, [(seq, None, 0, 0)])
    revive(board, seq)
    board.events.tell("job.enqueued", job=seq, again=True)
