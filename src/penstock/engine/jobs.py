"""One job, or jobs by what they have in common: look at them, cancel them, run them again, forget them."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from penstock.engine import audit
from penstock.engine.admission.arrivals import rejoin
from penstock.engine.admission.board import Board
from penstock.engine.expected import Expected
from penstock.engine.lookup import job_of, row_of
from penstock.engine.removal import ask_to_stop, remove
from penstock.engine.transactions import Transactions
from penstock.engine.uniqueness import let_in, retake_key
from penstock.engine.why import why
from penstock.engine.why_instance import why_running
from penstock.engine.workflows import revive
from penstock.errors import NotFoundError, WrongStateError
from penstock.job import JobFilter, JobView, Why
from penstock.lifecycle.retry import policy_from_json
from penstock.lifecycle.states import State, may
from penstock.limits.costs import with_costs
from penstock.limits.gate import ON_RELEASE
from penstock.limits.spec import limits_from_json
from penstock.store import history as history_rows
from penstock.store import instances as instance_rows
from penstock.store import jobs as job_rows
from penstock.store import prune as prune_rows
from penstock.store import views as view_rows
from penstock.store import waiting as waiting_rows
from penstock.store.views import JobViewRow

CANCELLED: Final = "cancelled on request"
BATCH: Final = 500  # jobs that are let in from the door at once


class JobVerbs(Transactions):
    def cancel(self, job_id: str, reason: str = CANCELLED, tenant: str | None = None) -> State:
        """Cancel a job: at once if it waits; if it runs its worker is asked to stop."""

        def work(board: Board) -> State:
            seq, owner = job_of(board.db, job_id, tenant)
            told = "" if reason == CANCELLED else reason
            state = cancel(board, seq, job_id, reason)
            after: dict[str, object] = {"state": state.value}
            if state is State.RUNNING:
                after["asked_to_stop"] = True
            audit.note(board, "job.cancel", "job", job_id, owner, after=after, reason=told)
            return state

        return self._write(work)

    def retry(self, job_id: str, tenant: str | None = None) -> None:
        """Let an ended job arrive again, with all its attempts: it passes the gates like any other.

        The attempts that it has made are kept, and count no more.
        """

        def work(board: Board) -> None:
            seq, owner = job_of(board.db, job_id, tenant)
            state = retry(board, seq, job_id)
            audit.note(board, "job.retry", "job", job_id, owner, before={"state": state.value})

        self._write(work)

    def expedite(self, job_id: str, tenant: str | None = None) -> State:
        """Let a scheduled job be due now, also between attempts: it stands in line like any that arrives.

        A job that waits already stays where it is.  One that is frozen is due as soon as its instance goes on.
        """

        def work(board: Board) -> State:
            seq, owner = job_of(board.db, job_id, tenant)
            found = job_rows.place(board.db, seq)
            if found is None or found.table == "running":
                state = job_rows.state(board.db, seq)
                raise WrongStateError(job_id, str(state), "a job that is scheduled or waits")
            if instance_rows.paused(board.db, [seq]):
                instance_rows.freeze(board.db, [(0, seq)])
                audit.note(board, "job.expedite", "job", job_id, owner)
                return State.SCHEDULED
            # A claim may let a job without limits arrive at this very moment.
            made = job_rows.leave(board.db, "scheduled", seq)
            if made is not None:
                rejoin(board, [(seq, None, *made)])
            elif found.table in ("successor", "door"):
                waiting_rows.due_at_once(board.db, found.table, seq)
            else:
                return State.WAITING
            audit.note(board, "job.expedite", "job", job_id, owner)
            return State.WAITING

        return self._write(work)

    def forget(self, job_id: str, tenant: str | None = None) -> None:
        """Delete a job that has ended, and all that is known of it."""

        def work(board: Board) -> None:
            seq, owner = job_of(board.db, job_id, tenant)
            state = forget(board, seq, job_id)
            audit.note(board, "job.forget", "job", job_id, owner, before={"state": str(state)})

        self._write(work)

    def job(self, job_id: str, tenant: str | None = None) -> JobView:
        """Return one job."""
        return self._read(lambda board: views_of(board, [row_of(board.db, job_id, tenant)])[0])

    def standing(self, job_ids: Sequence[str], tenant: str = "") -> list[JobView]:
        """Return those of these jobs that exist; any at the door is let in first, to see where it stands."""
        ids = list(job_ids)
        if self.store.read(lambda db: waiting_rows.is_at_door(db, ids, tenant)):
            self._write(lambda board: let_in(board, waiting_rows.at_door(board.db, BATCH)), keep=False)
        return self._read(lambda board: views_of(board, view_rows.of(board.db, ids, tenant)))

    def why(self, job_id: str, tenant: str | None = None) -> Why:
        """Say why a job or an instance waits: the gates that are shut, its place in line, its earliest start."""

        def work(board: Board) -> Why:
            found = instance_rows.of_id(board.db, job_id, tenant, 1)
            if not found:
                return _why(board, row_of(board.db, job_id, tenant))
            if found[0].running_since is not None:
                return why_running(board, found[0])
            row = view_rows.of_seq(board.db, found[0].seq)
            assert row is not None  # noqa: S101 - on one view of the store
            return _why(board, row)

        return self._read(work)

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
            return views_of(board, rows)

        return self._read(work)

    def search(self, wanted: JobFilter, *, offset: int = 0, limit: int = 50) -> tuple[list[JobView], int]:
        """Return a page of the jobs that fit, newest first, and how many there are."""

        def work(board: Board) -> tuple[list[JobView], int]:
            found = view_rows.search(board.db, board.now, wanted, offset, limit)
            total = view_rows.total(board.db, board.now, wanted)
            return views_of(board, found), total

        return self._read(work)

    def matching(self, wanted: JobFilter, limit: int) -> tuple[list[tuple[str, str]], int]:
        """Return (id, tenant) of the jobs that fit, oldest first, and how many there are."""

        def work(board: Board) -> tuple[list[tuple[str, str]], int]:
            found = view_rows.ids(board.db, board.now, wanted, limit)
            return found, view_rows.total(board.db, board.now, wanted)

        return self._read(work)

    def count(
        self,
        *,
        queue: str | None = None,
        task: str | None = None,
        tenant: str | None = None,
        tasks: Sequence[str] | None = None,
    ) -> dict[State, int]:
        """Return how many jobs are in each state: of a task, or of any of these *tasks*."""
        named = None if tasks is None else list(tasks)
        return self.store.read(lambda db: view_rows.count(db, queue, task, tenant, named))


def cancel(board: Board, seq: int, job_id: str, reason: str) -> State:
    """Cancel a job, or ask its worker to stop; return the state in which it is then."""
    if remove(board, seq, State.CANCELLED, reason):
        return State.CANCELLED
    if ask_to_stop(board, seq):
        return State.RUNNING
    raise WrongStateError(job_id, str(job_rows.state(board.db, seq)), "a job that has not ended")


def retry(board: Board, seq: int, job_id: str) -> State:
    """Let an ended job arrive again; return the state in which it was."""
    state = job_rows.state(board.db, seq)
    if state is None or not may(state, State.WAITING) or state in (State.SCHEDULED, State.RUNNING):
        raise WrongStateError(job_id, str(state), "a failed, discarded, cancelled or expired job")
    retake_key(board, seq)
    if not job_rows.revive(board.db, seq):
        raise NotFoundError("job", job_id)
    history_rows.retried(board.db, seq, board.now)
    rejoin(board, [(seq, None, 0, 0)])
    revive(board, seq)
    board.events.tell("job.enqueued", job=seq, again=True)
    return state


def forget(board: Board, seq: int, job_id: str) -> State | None:
    """Delete a job that has ended; return the state in which it was."""
    state = job_rows.state(board.db, seq)
    if not prune_rows.forget(board.db, seq):
        raise WrongStateError(job_id, str(state), "a job that has ended")
    return state


def _why(board: Board, row: JobViewRow) -> Why:
    # As it is stored, so that a job that is due tells what put it off; and its state now.
    now = State.SCHEDULED if row.rescheduled else job_view(row, board.now).state
    return why(board, job_view(row, 0), now)


def views_of(board: Board, rows: Sequence[JobViewRow]) -> list[JobView]:
    """Turn rows into views; a job that is rescheduled shows when it is expected to start as its due time."""
    expected = Expected(board)
    views = []
    for row in rows:
        view = job_view(row, board.now)
        if row.rescheduled:
            view = replace(view, state=State.SCHEDULED, rescheduled=True, due=expected.start(row.seq))
        views.append(view)
    return views


def job_view(row: JobViewRow, now: int) -> JobView:
    """Turn a row of `store.views` into a view; a job that is due counts as waiting, though it has not arrived yet."""
    due = None if row.due is not None and row.due <= now else row.due
    live = State.RUNNING if row.running_attempt is not None else State.WAITING
    state = State(row.state) if row.state is not None else State.SCHEDULED if due is not None else live
    attempts = (
        row.scheduled_attempt, row.free_attempt, row.lane_attempt, row.running_attempt, row.ended_attempt,
    )  # fmt: skip
    policy = policy_from_json(row.retry)
    if due == ON_RELEASE:
        due = None  # it is frozen
    return JobView(
        id=row.id, seq=row.seq, task=row.task, queue=row.queue, tenant=row.tenant, state=state, priority=row.priority,
        cost=row.cost, attempt=next((a for a in attempts if a is not None), 0), max_attempts=policy.attempts,
        args=row.args, meta=row.meta, enqueued=row.enqueued,
        limits=with_costs(limits_from_json(row.limits), row.costs) if row.limits else (),
        due=due, started=row.running_since or row.started, finished=row.finished, worker=row.worker, lease=row.lease,
        result=row.result, error=json.loads(row.error) if row.error else None, reason=row.reason or row.put_off or "",
        progress=row.progress, cancel_asked=bool(row.cancel), expires=row.expires, cancel_at=row.cancel or None,
        timeout=row.timeout, retry=policy, own_lease=row.own_lease, fence=row.fence, lost=row.lost,
        workflow=row.workflow, resource=row.resource,
    )  # fmt: skip
