"""What follows from the ends of jobs for their workflows.

On PostgreSQL a transaction that changes a workflow holds the gates, so the ends of two steps come one after the other.

Invariant: a job of a workflow ends, and what follows from that is written down, or neither.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from penstock.engine.admission.board import Board
from penstock.engine.enqueue import add
from penstock.errors import InvalidWorkflowError
from penstock.job import Enqueued, NewJob
from penstock.lifecycle.states import State
from penstock.store import workflows as rows
from penstock.store.workflows import StepRow
from penstock.workflows.flow import Flow, Standing, Tally
from penstock.workflows.steps import StepState, When, WorkflowState

PARENT_RESULTS: Final = "parent_results"
_Adding = Callable[[Board, Sequence[NewJob], Sequence[int]], list[Enqueued]]
_ENDS: Final = {State.DONE: StepState.DONE, State.CANCELLED: StepState.CANCELLED}


@dataclass(slots=True)
class LockedWorkflow:
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


def follow(board: Board) -> None:
    """Enqueue the steps that the ends of this transaction's jobs set free."""
    while board.ended:
        ended, board.ended = board.ended, {}
        found = rows.of_jobs(board.db, list(ended))
        if found:
            states = {step: _ENDS.get(ended[seq][0], StepState.FAILED) for seq, _, step in found}
            results = {step: ended[seq][1] for seq, _, step in found}
            _change(board, {step: workflow for _, workflow, step in found}, states, results)


def revive(board: Board, seq: int) -> None:
    """Make a step live again whose job is retried by hand, and the steps that were cancelled because of it."""
    for _, workflow, step in rows.of_jobs(board.db, [seq]):
        _change(board, {step: workflow}, {step: StepState.RUNNING}, {step: None})


def lock(board: Board, numbers: Iterable[int]) -> dict[int, LockedWorkflow]:
    """Load workflows and lock them, so that no other transaction changes them meanwhile."""
    board.in_workflows = True
    return {
        row.number: LockedWorkflow(
            row.number,
            row.id,
            row.tenant,
            row.finished,
            WorkflowState(row.state),
            Tally(row.unfinished, row.completed, row.failed),
        )
        for row in rows.locked(board.db, sorted(set(numbers)))
    }


def changed(
    board: Board,
    states: Mapping[int, StepState],
    results: Mapping[int, str | None],
    closed: Iterable[int],
) -> Flow:
    """Give steps these states, and save all that follows except the steps that are set free."""
    flow = Flow(lambda numbers: [_standing(row) for row in rows.steps(board.db, numbers)])
    flow.change(states, frozenset(closed))
    rows.save_steps(
        board.db,
        [(s.state.value, s.waiting, s.failed, s.skipped, s.number) for s in flow.touched.values()],
    )
    saved_results = [
        (results[step], step) for step in states if step in results and flow.steps[step].children
    ]
    if saved_results:
        rows.save_results(board.db, saved_results)
    return flow


def begin(board: Board, steps: Sequence[tuple[int, int, NewJob]], adding: _Adding) -> None:
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


def save(board: Board, flow: Flow, locked: Mapping[int, LockedWorkflow]) -> None:
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


def meta_of(job: NewJob) -> dict[str, object]:
    """Return the meta of a job."""
    try:
        return msgspec.json.decode(job.meta, type=dict[str, object])
    except msgspec.MsgspecError as error:
        raise InvalidWorkflowError("meta", f"must be a JSON object: {error}") from None


def _change(
    board: Board,
    workflow_of: Mapping[int, int],
    states: Mapping[int, StepState],
    results: Mapping[int, str | None],
) -> None:
    """Give steps these states, and save all that follows."""
    board.db.need_gates()
    locked = lock(board, workflow_of.values())
    # What was pruned meanwhile is left alone.
    known = {step: state for step, state in states.items() if workflow_of[step] in locked}
    closed = {workflow.number for workflow in locked.values() if workflow.cancelled}
    flow = changed(board, known, results, closed)
    _set_free(board, flow)
    save(board, flow, locked)


def _set_free(board: Board, flow: Flow) -> None:
    """Enqueue the steps that were set free, each with the results of the steps it waited for."""
    if not flow.free:
        return
    plans = rows.plans(board.db, flow.free)
    parents = {step: _numbers(text) for step, _, text in plans}
    results = rows.results(board.db, sorted({parent for each in parents.values() for parent in each}))
    begin(
        board,
        [
            (flow.steps[step].workflow, step, _with_results(text, [results.get(p) for p in parents[step]]))
            for step, text, _ in plans
        ],
        add,  # accepted when the workflow was; no bound of a queue turns them away now
    )


def _with_results(text: str, results: Sequence[str | None]) -> NewJob:
    job = msgspec.json.decode(text, type=NewJob)
    meta = meta_of(job)
    meta[PARENT_RESULTS] = [msgspec.Raw((result or "null").encode()) for result in results]
    return msgspec.structs.replace(job, meta=msgspec.json.encode(meta).decode())


def _standing(row: StepRow) -> Standing:
    return Standing(
        row.number, row.workflow, StepState(row.state), When(row.runs), bool(row.callback), row.seq is not None,
        row.waiting, row.failed, row.skipped, _numbers(row.children),
    )  # fmt: skip


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split(",")) if text else ()
