"""Start and cancel workflows."""

from collections.abc import Iterable
from functools import partial

import msgspec

from penstock.engine.admission.board import Board
from penstock.engine.enqueue import check, check_text, enqueue
from penstock.engine.removal import ask_to_stop, remove_all
from penstock.engine.transactions import Transactions
from penstock.engine.views.workflows import workflow_view
from penstock.engine.workflow_progress import begin, changed, follow, lock, meta_of, save
from penstock.errors import DuplicateJobError, InvalidWorkflowError, NotFoundError, WrongStateError
from penstock.ids import new_id
from penstock.job import NewWorkflow, WorkflowView
from penstock.lifecycle.checks import check_job_id
from penstock.lifecycle.states import State
from penstock.store import workflows as rows
from penstock.store.session import Locks
from penstock.store.workflows import StepRow, WorkflowRow
from penstock.workflows.steps import StepState, WorkflowState, check_steps, children


class WorkflowVerbs(Transactions):
    def start_workflow(self, new: NewWorkflow) -> WorkflowView:
        """Add a workflow and enqueue the steps that depend on no other; all of it is durable when this returns."""
        wanted = _checked(new)
        limited = wanted.tenant or any(step.job.limits for step in wanted.steps if not step.depends_on)

        def work(board: Board) -> WorkflowView:
            return workflow_view(board.db, _start(board, wanted))

        return self._write(work, Locks.GATES_IF_FREE if limited else Locks.NONE)

    def cancel_workflow(self, workflow_id: str, reason: str = "its workflow was cancelled") -> WorkflowView:
        """Set no further step free; cancel the jobs that wait, and ask the workers of those that run to stop."""

        def work(board: Board) -> WorkflowView:
            _cancel(board, workflow_id, reason)
            return workflow_view(board.db, workflow_id)

        return self._write(work)

    def _follow(self, board: Board) -> None:
        follow(board)


def _checked(new: NewWorkflow) -> NewWorkflow:
    """Return a workflow as it is stored; raise unless every step of it could run."""
    check_steps(new.steps)
    for name in ("name", "kind", "tenant", "meta"):
        check_text(name, getattr(new, name))
    if new.id is not None:
        check_job_id(new.id)
    steps = []
    for step in new.steps:
        job = msgspec.structs.replace(step.job, tenant=new.tenant)
        check(job)
        if job.id is not None or job.unique is not None:
            raise InvalidWorkflowError(
                "steps", f"step {step.id!r}: its job must have no id and no unique key"
            )
        meta_of(job)
        steps.append(msgspec.structs.replace(step, job=job))
    return msgspec.structs.replace(new, steps=tuple(steps))


def _start(board: Board, new: NewWorkflow) -> str:
    """Add a `checked` workflow and enqueue the steps that depend on no other; return its id."""
    db, id_ = board.db, new.id or new_id()
    if new.id is not None:
        db.lock([f"workflow\x1f{id_}"])
        if rows.find(db, id_) is not None:
            raise DuplicateJobError(id_, "workflow")
    number, *numbers = db.numbers(len(new.steps) + 1)
    number_of = {step.id: n for step, n in zip(new.steps, numbers, strict=True)}
    followers = children(new.steps)
    first = [step for step in new.steps if not step.depends_on]
    total = sum(not step.callback for step in new.steps)
    running, waiting = StepState.RUNNING.value, StepState.WAITING.value
    rows.add(
        db,
        WorkflowRow(number, id_, new.tenant, new.kind, new.name, new.meta, board.now, None, WorkflowState.RUNNING.value,
                    total, total, 0, 0),
        [
            StepRow(number_of[s.id], number, waiting if s.depends_on else running, s.when.value, int(s.callback), None,
                    len(s.depends_on), 0, 0, _joined(number_of[child] for child in followers[s.id]))
            for s in new.steps
        ],
        [
            (number_of[s.id], s.id, s.job.task, s.job.queue, msgspec.json.encode(s.job).decode(),
             _joined(number_of[parent] for parent in s.depends_on))
            for s in new.steps
        ],
    )  # fmt: skip
    adding = partial(enqueue, following=len(new.steps) - len(first))
    begin(board, [(number, number_of[step.id], step.job) for step in first], adding)
    board.events.tell("workflow.started", workflow=id_, tenant=new.tenant, kind=new.kind)
    follow(board)  # a limit may have dropped a job already
    return id_


def _cancel(board: Board, id_: str, reason: str) -> None:
    """Set no further step free; end the jobs that wait, and ask the workers of those that run to stop."""
    board.db.need_gates()
    found = rows.find(board.db, id_)
    if found is None:
        raise NotFoundError("workflow", id_)
    number = found.row.number
    locked = lock(board, [number]).get(number)
    if locked is None:
        raise NotFoundError("workflow", id_)
    if locked.before is not WorkflowState.RUNNING:
        raise WrongStateError(id_, locked.before.value, "a workflow that has not ended", "workflow")
    live = rows.live(board.db, locked.number)
    waiting = {step: StepState.CANCELLED for step, seq in live if seq is None}
    locked.cancelled = True
    save(board, changed(board, waiting, {}, {locked.number}), {locked.number: locked})
    begun = [seq for _, seq in live if seq is not None]
    for seq in remove_all(board, begun, State.CANCELLED, reason):
        ask_to_stop(board, seq)
    follow(board)


def _joined(numbers: Iterable[int]) -> str:
    return ",".join(map(str, numbers))
