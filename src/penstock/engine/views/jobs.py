"""One job, its failures, and jobs by what they have in common."""

import json
from dataclasses import replace
from typing import Any

from penstock.engine.admission.board import Board
from penstock.engine.transactions import Transactions
from penstock.engine.views.why import why
from penstock.errors import NotFoundError
from penstock.job import Failure, JobFilter, JobView, Why
from penstock.lifecycle.retry import policy_from_json
from penstock.lifecycle.states import State
from penstock.limits.rules import OnLimit
from penstock.limits.spec import limits_from_json
from penstock.store import search as search_rows
from penstock.store import views as view_rows
from penstock.store.session import Session
from penstock.store.views import JobViewRow


class JobViews(Transactions):
    def job(self, job_id: str) -> JobView:
        """Return one job; one that is rescheduled by a limit shows the predicted opening as its due time."""

        def work(board: Board) -> JobView:
            view = job_view(_row(board.db, job_id), board.now)
            if view.state is not State.WAITING or all(
                limit.on_limit is not OnLimit.RESCHEDULE for limit in view.limits
            ):
                return view
            opens = _why(board, job_id).earliest
            return replace(view, due=opens if opens is not None and opens > board.now else None)

        return self._read(work)

    def failures(self, job_id: str) -> list[Failure]:
        """Return the failed attempts of a job, the first one first."""

        def work(db: Session) -> list[Failure]:
            rows = view_rows.failures(db, _row(db, job_id).seq)
            return [_failure(attempt, at, json.loads(error)) for attempt, at, error in rows]

        return self.store.read(work)

    def why(self, job_id: str) -> Why:
        """Say why a job waits: the gates that are shut, its place in line, its earliest start."""
        return self._read(lambda board: _why(board, job_id))

    def jobs(
        self,
        *,
        state: State | None = None,
        queue: str | None = None,
        task: str | None = None,
        tenant: str | None = None,
        key: str | None = None,
        before: int | None = None,
        begins: str | None = None,
        limit: int = 50,
    ) -> list[JobView]:
        """Return jobs, newest first, perhaps of an id that *begins* so; *before* a job's number for the next page."""

        def work(board: Board) -> list[JobView]:
            rows = view_rows.jobs(board.db, board.now, state, queue, task, tenant, key, before, begins, limit)
            return [job_view(row, board.now) for row in rows]

        return self._read(work)

    def search(self, wanted: JobFilter, *, offset: int = 0, limit: int = 50) -> tuple[list[JobView], int]:
        """Return a page of the jobs that fit, newest first, and how many there are."""

        def work(board: Board) -> tuple[list[JobView], int]:
            found = search_rows.search(board.db, board.now, wanted, offset, limit)
            total = search_rows.total(board.db, board.now, wanted)
            return [job_view(row, board.now) for row in found], total

        return self._read(work)

    def matching(self, wanted: JobFilter, limit: int) -> tuple[list[str], int]:
        """Return the ids of the jobs that fit, oldest first, and how many there are."""

        def work(board: Board) -> tuple[list[str], int]:
            found = search_rows.ids(board.db, board.now, wanted, limit)
            return found, search_rows.total(board.db, board.now, wanted)

        return self._read(work)

    def count(
        self, *, queue: str | None = None, task: str | None = None, tenant: str | None = None
    ) -> dict[State, int]:
        """Return how many jobs are in each state."""
        return self.store.read(lambda db: view_rows.count(db, queue, task, tenant))


def _why(board: Board, id_: str) -> Why:
    row = _row(board.db, id_)
    # As it is stored, so that a job that is due tells what put it off; and its state now.
    return why(board, job_view(row, 0), job_view(row, board.now).state)


def _failure(attempt: int, at: int, error: dict[str, Any]) -> Failure:
    kind, message, traceback, details = (
        error.get(n, "") for n in ("kind", "message", "traceback", "details")
    )
    return Failure(attempt, at, kind, message, traceback, details, error.get("delay"))


def _row(db: Session, id_: str) -> JobViewRow:
    row = view_rows.job(db, id_)
    if row is None:
        raise NotFoundError("job", id_)
    return row


def job_view(row: JobViewRow, now: int) -> JobView:
    """Turn a row of `store.views` into a view; a job that is due counts as waiting, though it has not arrived yet."""
    due = None if row.due is not None and row.due <= now else row.due
    live = State.RUNNING if row.running_attempt is not None else State.WAITING
    state = State(row.state) if row.state is not None else State.SCHEDULED if due is not None else live
    attempts = (
        row.scheduled_attempt, row.free_attempt, row.lane_attempt, row.running_attempt, row.ended_attempt,
    )  # fmt: skip
    policy = policy_from_json(row.retry)
    return JobView(
        id=row.id, seq=row.seq, task=row.task, queue=row.queue, tenant=row.tenant, state=state, priority=row.priority,
        cost=row.cost, attempt=next((a for a in attempts if a is not None), 0), max_attempts=policy.attempts,
        args=row.args, meta=row.meta, limits=limits_from_json(row.limits) if row.limits else (), enqueued=row.enqueued,
        due=due, started=row.running_since or row.started, finished=row.finished, worker=row.worker, lease=row.lease,
        result=row.result, error=json.loads(row.error) if row.error else None, reason=row.reason or row.put_off or "",
        progress=row.progress, cancel_asked=bool(row.cancel), expires=row.expires, cancel_at=row.cancel or None,
        timeout=row.timeout, retry=policy, own_lease=row.own_lease, fence=row.fence, lost=row.lost,
        workflow=row.workflow,
    )  # fmt: skip
