"""What is to be done: enqueue jobs, and change one's mind about them."""

from collections.abc import Sequence
from contextlib import suppress

from penstock.engine.again import retry
from penstock.engine.board import Board
from penstock.engine.enqueue import check, enqueue, is_plain, job_row, replaces
from penstock.engine.events import enqueued
from penstock.engine.gathering import Gathering
from penstock.engine.transactions import Transactions
from penstock.engine.waiting import ask_to_stop, remove
from penstock.errors import NotFoundError, WrongStateError
from penstock.ids import new_id
from penstock.job import Enqueued, NewJob
from penstock.lifecycle.states import State
from penstock.store import jobs as job_rows
from penstock.store import prune as prune_rows
from penstock.store.session import BoundedError, Hold, Row


class JobVerbs(Transactions):
    def enqueue(self, jobs: Sequence[NewJob], *, connection: object = None) -> list[Enqueued]:
        """Add jobs, all or none; they are durable when this returns.

        With a *connection* of the caller's own to the same database, they exist if and only if its
        transaction commits.
        """
        for job in jobs:
            check(job)
        if not jobs:
            return []
        if connection is not None:
            return self.store.within(
                connection, lambda db: self._run(db, lambda board: enqueue(board, jobs, own=True))[0]
            )
        if self._plain is not None and all(is_plain(job) for job in jobs):
            with suppress(BoundedError):
                return self._add_plain(self._plain, jobs)
        gated = any(job.limits or replaces(job) for job in jobs)
        hold = Hold.GATES_IF_FREE if gated else Hold.NOTHING
        return self._write(lambda board: enqueue(board, jobs), hold=hold)

    def cancel(self, job_id: str, reason: str = "cancelled on request") -> State:
        """Cancel a job: at once if it waits; if it runs its worker is asked to stop."""
        return self._write(lambda board: _cancel(board, job_id, reason))

    def retry(self, job_id: str) -> None:
        """Stand an ended job in line again, with all its attempts."""
        self._write(lambda board: retry(board, job_id))

    def forget(self, job_id: str) -> None:
        """Delete a job that has ended, and all that is known of it."""
        self._write(lambda board: _forget(board, job_id))

    def _add_plain(self, plain: Gathering, jobs: Sequence[NewJob]) -> list[Enqueued]:
        now = self._time.seen()
        rows = [job_row(job, None, new_id(), now) for job in jobs]
        if self._telling.listeners:
            self._add_and_tell(plain, rows, now)
        else:
            plain.add(rows)
        return [Enqueued(row[1], at=now) for row in rows]

    def _add_and_tell(self, plain: Gathering, rows: list[Row], now: int) -> None:
        number, told = self._telling.number(), []
        try:
            plain.add(rows)
            told = [enqueued(row, now) for row in rows]
        finally:
            self._telling.told(number, told)


def _cancel(board: Board, job_id: str, reason: str) -> State:
    seq = job_rows.seq_of(board.db, job_id)
    if seq is None:
        raise NotFoundError("job", job_id)
    if remove(board, seq, State.CANCELLED, reason):
        return State.CANCELLED
    if ask_to_stop(board, seq):
        return State.RUNNING
    state = job_rows.state(board.db, seq)
    raise WrongStateError(job_id, str(state), "a job that has not ended")


def _forget(board: Board, job_id: str) -> None:
    seq = job_rows.seq_of(board.db, job_id)
    if seq is None:
        raise NotFoundError("job", job_id)
    if not prune_rows.forget(board.db, seq):
        raise WrongStateError(job_id, str(job_rows.state(board.db, seq)), "a job that has ended")
