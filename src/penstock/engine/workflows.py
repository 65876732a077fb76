"""Workflows: start, cancel and look at them; and what follows for them from the ends of jobs.

On PostgreSQL a transaction that changes a workflow holds the gates, so the ends of two steps come one after the other.

Invariant: a job of a workflow ends, and what follows from that is written down, or neither.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import msgspec

from penstock.engine import audit
from penstock.engine.admission.board import Board
from penstock.engine.admission.to_follow import JobEnd
from penstock.engine.enqueue import add, check, check_text, enqueue
from penstock.engine.removal import ask_to_stop, remove_all
from penstock.engine.transactions import Transactions
from penstock.errors import DuplicateJobError, InvalidWorkflowError, NotFoundError, WrongStateError
from penstock.ids import new_id
from penstock.job import Enqueued, NewJob, NewWorkflow, StepView, WorkflowView
from penstock.lifecycle.checks import check_job_id, check_tenant
from penstock.lifecycle.states import State
from penstock.store import workflows as rows
from penstock.store.session import Locks, Session
from penstock.store.workflows import ShownStep, StepRow, WorkflowRow
from penstock.workflows.flow import Flow, Standing, Tally
from penstock.workflows.steps import Results, StepState, When, WorkflowState, check_steps, children

CANCELLED: Final = "its workflow was cancelled"
PARENT_RESULTS: Final = "parent_results"
_Adding = Callable[[Board, Sequence[NewJob], Sequence[int]], list[Enqueued]]
_NUMBER: Final = re.compile(r"\d+")
_ENDS: Final = {State.DONE: StepState.DONE, State.CANCELLED: StepState.CANCELLED}


class WorkflowVerbs(Transactions):
    def start_workflow(self, new: NewWorkflow) -> WorkflowView:
        """Add a workflow and enqueue the steps that depend on no other; all of it is durable when this returns."""
        wanted = _checked(new)
        limited = wanted.tenant or any(step.job.limits for step in wanted.steps if not step.depends_on)

        def work(board: Board) -> WorkflowView:
            return _view(board.db, _start(board, wanted))

        return self._write(work, Locks.GATES_IF_FREE if limited else Locks.NONE)

    def cancel_workflow(self, workflow_id: str, reason: str = CANCELLED) -> WorkflowView:
        """Set no further step free; cancel the jobs that wait, and ask the workers of those that run to stop."""

        def work(board: Board) -> WorkflowView:
            _cancel(board, workflow_id, reason)
            view = _view(board.db, workflow_id)
            told = "" if reason == CANCELLED else reason
            audit.note(board, "workflow.cancel", "workflow", workflow_id, view.tenant, reason=told)
            return view

        return self._write(work)

    def workflow(self, workflow_id: str) -> WorkflowView:
        """Return one workflow with its steps."""
        return self.store.read(lambda db: _view(db, workflow_id))

    def workflows(
        self,
        tenant: str | None = None,
        offset: int = 0,
        limit: int = 50,
        *,
        state: WorkflowState | None = None,
    ) -> tuple[list[WorkflowView], int]:
        """Return a page of workflows, newest first and without their steps, and how many there are."""
        wanted = None if state is None else state.value

        def work(db: Session) -> tuple[list[WorkflowView], int]:
            return rows.page(db, tenant, wanted, offset, limit), rows.total(db, tenant, wanted)

        return self.store.read(work)


def _checked(new: NewWorkflow) -> NewWorkflow:
    """Return a workflow as it is stored; raise unless every step of it could run."""
    check_steps(new.steps)
    for name in ("name", "kind", "meta"):
        check_text(name, getattr(new, name))
    check_tenant(new.tenant)
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
        _meta(job)
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
                    len(s.depends_on), 0, 0, _joined(number_of[child] for child in followers[s.id]),
                    None if s.opening is None else number_of[s.opening])
            for s in new.steps
        ],
        [
            (number_of[s.id], s.id, s.job.task, s.job.queue, msgspec.json.encode(s.job).decode(),
             _joined(number_of[parent] for parent in s.depends_on),
             None if s.results is None else ",".join(_arranged(result, number_of) for result in s.results))
            for s in new.steps
        ],
    )  # fmt: skip
    adding = partial(enqueue, following=len(new.steps) - len(first))
    _begin(board, [(number, number_of[step.id], step.job) for step in first], adding)
    board.events.tell("workflow.started", workflow=id_, tenant=new.tenant, kind=new.kind)
    board.follow()  # a limit may have dropped a job already
    return id_


def _cancel(board: Board, id_: str, reason: str) -> None:
    """Set no further step free; end the jobs that wait, and ask the workers of those that run to stop."""
    board.db.need_gates()
    found = rows.find(board.db, id_)
    locked = None if found is None else _lock(board, [found[0]]).get(found[0])
    if locked is None:
        raise NotFoundError("workflow", id_)
    if locked.before is not WorkflowState.RUNNING:
        raise WrongStateError(id_, locked.before.value, "a workflow that has not ended", "workflow")
    live = rows.live(board.db, locked.number)
    waiting = {step: StepState.CANCELLED for step, seq in live if seq is None}
    locked.cancelled = True
    _save_progress(board, _save_steps(board, waiting, {}, {locked.number}), {locked.number: locked})
    begun = [seq for _, seq in live if seq is not None]
    for seq in remove_all(board, begun, State.CANCELLED, reason):
        ask_to_stop(board, seq)
    board.follow()


def follow(board: Board, found: Sequence[tuple[int, int, JobEnd]]) -> None:
    """Enqueue the steps that the ends of jobs set free, as (workflow, step, how its job ended)."""
    states = {step: _ENDS.get(end.state, StepState.FAILED) for _, step, end in found}
    results = {step: end.result for _, step, end in found}
    _change(board, {step: workflow for workflow, step, _ in found}, states, results)


def revive(board: Board, seq: int) -> None:
    """Make a step live again whose job is retried by hand, and the steps that were cancelled because of it."""
    for _, workflow, step in rows.of_jobs(board.db, [seq]):
        _change(board, {step: workflow}, {step: StepState.RUNNING}, {step: None})


@dataclass(slots=True)
class _Locked:
    """A workflow that this transaction changes."""

    number: int
    id: str
    tenant: str
    finished: int | None
    before: WorkflowState
    tally: Tally
    cancelled: bool = field(init=False)

    def __post_init__(self) -> None:
        self.cancelled = self.before is WorkflowState.CANCELLED

    @property
    def state(self) -> WorkflowState:
        return WorkflowState.CANCELLED if self.cancelled else self.tally.state


def _change(
    board: Board,
    workflow_of: Mapping[int, int],
    states: Mapping[int, StepState],
    results: Mapping[int, str | None],
) -> None:
    """Give steps these states, and save all that follows."""
    board.db.need_gates()
    locked = _lock(board, workflow_of.values())
    # What was pruned meanwhile is left alone.
    known = {step: state for step, state in states.items() if workflow_of[step] in locked}
    closed = {workflow.number for workflow in locked.values() if workflow.cancelled}
    flow = _save_steps(board, known, results, closed)
    _set_free(board, flow)
    _save_progress(board, flow, locked)


def _lock(board: Board, numbers: Iterable[int]) -> dict[int, _Locked]:
    """Load workflows and lock them, so that no other transaction changes them meanwhile."""
    board.to_follow.in_workflows = True
    return {
        number: _Locked(number, id_, tenant, finished, WorkflowState(state), Tally(*counts))
        for number, id_, tenant, finished, state, *counts in rows.locked(board.db, sorted(set(numbers)))
    }


def _save_steps(
    board: Board, states: Mapping[int, StepState], results: Mapping[int, str | None], closed: Iterable[int]
) -> Flow:
    """Give steps these states, and save all that follows except the steps that are set free."""
    flow = Flow(lambda numbers: [_standing(row) for row in rows.steps(board.db, numbers)])
    flow.change(states, frozenset(closed))
    rows.save_steps(
        board.db, [(s.state.value, s.waiting, s.failed, s.skipped, s.number) for s in flow.touched.values()]
    )
    saved_results = [
        (results[step], step) for step in states if step in results and flow.steps[step].children
    ]
    if saved_results:
        rows.save_results(board.db, saved_results)
    return flow


def _set_free(board: Board, flow: Flow) -> None:
    """Enqueue the steps that were set free, each with the results of the steps it waited for."""
    if not flow.free:
        return
    plans = rows.plans(board.db, flow.free)
    parents = {int(number) for _, _, wanted in plans for number in _NUMBER.findall(wanted)}
    results = {number: result or "null" for number, result in rows.results(board.db, sorted(parents)).items()}
    _begin(
        board,
        [
            (flow.steps[step].workflow, step, _with_results(text, wanted, results))
            for step, text, wanted in plans
        ],
        add,  # accepted when the workflow was; no bound of a queue turns them away now
    )


def _begin(board: Board, steps: Sequence[tuple[int, int, NewJob]], adding: _Adding) -> None:
    """Enqueue the jobs of (workflow, step, job)."""
    seqs = board.db.numbers(len(steps))
    added = adding(board, [job for _, _, job in steps], seqs)
    rows.begin(
        board.db,
        [
            (seq, workflow, step, enqueued.id)
            for seq, (workflow, step, _), enqueued in zip(seqs, steps, added, strict=True)
        ],
    )


def _save_progress(board: Board, flow: Flow, locked: Mapping[int, _Locked]) -> None:
    """Keep how far the workflows are."""
    for change in flow.changes:
        locked[change.step.workflow].tally.count(change)
    saved = []
    for workflow in locked.values():
        state, tally = workflow.state, workflow.tally
        finished = workflow.finished
        if state is not workflow.before:
            finished = None if state is WorkflowState.RUNNING else board.now
            board.events.tell(f"workflow.{state.value}", workflow=workflow.id, tenant=workflow.tenant)
        saved.append(
            (state.value, finished, tally.unfinished, tally.completed, tally.failed, workflow.number)
        )
    rows.save(board.db, saved)


def _with_results(text: str, wanted: str, results: Mapping[int, str]) -> NewJob:
    """Return the job of a step with the results it wants: numbers of steps, some of them in brackets."""
    job = msgspec.json.decode(text, type=NewJob)
    meta = _meta(job)
    told = _NUMBER.sub(lambda number: results.get(int(number[0]), "null"), wanted)
    meta[PARENT_RESULTS] = msgspec.Raw(f"[{told}]".encode())
    return msgspec.structs.replace(job, meta=msgspec.json.encode(meta).decode())


def _meta(job: NewJob) -> dict[str, object]:
    """Return the meta of a job."""
    try:
        return msgspec.json.decode(job.meta, type=dict[str, object])
    except msgspec.MsgspecError as error:
        raise InvalidWorkflowError("meta", f"must be a JSON object: {error}") from None


def _standing(row: StepRow) -> Standing:
    return Standing(
        row.number, row.workflow, StepState(row.state), When(row.runs), bool(row.callback), row.seq is not None,
        row.waiting, row.failed, row.skipped, _numbers(row.children), row.opening,
    )  # fmt: skip


def _view(db: Session, id_: str) -> WorkflowView:
    """Return one workflow with its steps."""
    found = rows.find(db, id_)
    if found is None:
        raise NotFoundError("workflow", id_)
    number, view = found
    return msgspec.structs.replace(view, steps=_steps(rows.view(db, number)))


def _steps(found: list[ShownStep]) -> tuple[StepView, ...]:
    ids = {str(step.number): step.id for step in found}
    return tuple(
        StepView(
            step.id, step.task, step.queue, StepState(step.state), step.job,
            tuple(ids[parent] for parent in step.parents.split(",") if parent), When(step.runs), bool(step.callback),
        )
        for step in found
    )  # fmt: skip


def _arranged(result: Results, number_of: Mapping[str, int]) -> str:
    """Write the numbers of steps, with brackets around those of a list."""
    if isinstance(result, str):
        return str(number_of[result])
    return f"[{','.join(_arranged(each, number_of) for each in result)}]"


def _joined(numbers: Iterable[int]) -> str:
    return ",".join(map(str, numbers))


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split(",")) if text else ()
