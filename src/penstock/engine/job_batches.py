"""Many jobs in one transaction: run them again, cancel them, forget them; and a copy of one job."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Literal

from penstock.engine import audit
from penstock.engine.admission.board import Board
from penstock.engine.enqueue import check, enqueue
from penstock.engine.jobs import CANCELLED, cancel, forget, job_view, retry
from penstock.engine.lookup import row_of
from penstock.engine.transactions import Transactions
from penstock.engine.uniqueness import lock_keys_of
from penstock.engine.wording import in_short
from penstock.errors import DuplicateJobError, NotFoundError, WrongStateError
from penstock.job import Enqueued, JobView, NewJob
from penstock.lifecycle.checks import check_whole
from penstock.store import jobs as job_rows
from penstock.store.session import Locks

JobChange = Literal["retry", "cancel", "forget"]

MOST: Final = 500  # jobs in one transaction


class JobBatchVerbs(Transactions):
    def change_jobs(self, change: JobChange, jobs: Sequence[tuple[str, str]], reason: str = CANCELLED) -> int:
        """Retry, cancel or forget jobs, given (id, tenant), at most 500; return how many.

        A job that is gone, or in a state that does not allow it, is left as it is.
        """
        check_whole("jobs", len(jobs), 0, MOST)

        def work(board: Board) -> int:
            found = [(job_rows.of_id(board.db, id_, tenant), id_) for id_, tenant in jobs]
            known = [(rows[0][0], id_) for rows, id_ in found if rows]
            if change == "retry":
                lock_keys_of(board, [seq for seq, _ in known])
            done = sum(_changed(partial(_CHANGES[change], board, seq, id_, reason)) for seq, id_ in known)
            if done:
                told = in_short(", ".join(id_ for _, id_ in known))
                audit.note(board, f"job.{change}", "jobs", told, touched=done)
            return done

        try:
            return self._write(work)
        except NotFoundError:  # one of them was pruned at this very moment
            if len(jobs) == 1:
                return 0
            return sum(self.change_jobs(change, [job], reason) for job in jobs)

    def copy_job(self, job_id: str, tenant: str | None = None) -> Enqueued:
        """Enqueue a job like another: what it was given, and none of what became of it."""

        def work(board: Board) -> Enqueued:
            view = job_view(row_of(board.db, job_id, tenant), board.now)
            copy = _copy(view)
            check(copy)
            (made,) = enqueue(board, [copy])
            audit.note(board, "job.copy", "job", view.id, view.tenant, after={"id": made.id})
            return made

        return self._write(work, Locks.GATES_IF_FREE)


def _changed(change: Callable[[], object]) -> bool:
    try:
        change()
    except (WrongStateError, DuplicateJobError):
        return False
    return True


def _retry(board: Board, seq: int, job_id: str, _: str) -> None:
    retry(board, seq, job_id)


def _forget(board: Board, seq: int, job_id: str, _: str) -> None:
    forget(board, seq, job_id)


_CHANGES: Final[dict[str, Callable[[Board, int, str, str], object]]] = {
    "retry": _retry,
    "cancel": cancel,
    "forget": _forget,
}


def _copy(view: JobView) -> NewJob:
    return NewJob(
        view.task, view.args, view.queue, view.tenant, priority=view.priority, limits=view.limits, cost=view.cost,
        timeout=view.timeout, retry=view.retry, meta=view.meta, lease=view.own_lease,
    )  # fmt: skip
