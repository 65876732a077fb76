"""Change one's mind about a job: cancel it, run it again, forget it."""

from penstock.engine.admission.arrivals import rejoin
from penstock.engine.admission.board import Board
from penstock.engine.removal import ask_to_stop, remove
from penstock.engine.transactions import Transactions
from penstock.engine.uniqueness import retake_key
from penstock.engine.workflow_progress import revive
from penstock.errors import NotFoundError, WrongStateError
from penstock.lifecycle.states import State, may
from penstock.store import jobs as job_rows
from penstock.store import prune as prune_rows


class JobVerbs(Transactions):
    def cancel(self, job_id: str, reason: str = "cancelled on request") -> State:
        """Cancel a job: at once if it waits; if it runs its worker is asked to stop."""

        def work(board: Board) -> State:
            seq = _seq(board, job_id)
            if remove(board, seq, State.CANCELLED, reason):
                return State.CANCELLED
            if ask_to_stop(board, seq):
                return State.RUNNING
            state = job_rows.state(board.db, seq)
            raise WrongStateError(job_id, str(state), "a job that has not ended")

        return self._write(work)

    def retry(self, job_id: str) -> None:
        """Let an ended job arrive again, with all its attempts: it passes the gates like any other."""

        def work(board: Board) -> None:
            seq = _seq(board, job_id)
            state = job_rows.state(board.db, seq)
            if state is None or not may(state, State.WAITING) or state in (State.SCHEDULED, State.RUNNING):
                raise WrongStateError(job_id, str(state), "a failed, discarded, cancelled or expired job")
            retake_key(board, seq)
            if not job_rows.revive(board.db, seq):
                raise NotFoundError("job", job_id)
            rejoin(board, [(seq, None, 0, 0)])
            revive(board, seq)
            board.events.tell("job.enqueued", job=seq, again=True)

        self._write(work)

    def forget(self, job_id: str) -> None:
        """Delete a job that has ended, and all that is known of it."""

        def work(board: Board) -> None:
            seq = _seq(board, job_id)
            if not prune_rows.forget(board.db, seq):
                raise WrongStateError(job_id, str(job_rows.state(board.db, seq)), "a job that has ended")

        self._write(work)


def _seq(board: Board, job_id: str) -> int:
    seq = job_rows.seq_of(board.db, job_id)
    if seq is None:
        raise NotFoundError("job", job_id)
    return seq
