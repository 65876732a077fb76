"""Let workflows go on: a step is enqueued in the transaction that settles the last one it waits for.

On PostgreSQL whoever changes a workflow holds the gates, so that ends of two steps come one after the other.

Invariant: a job of a workflow ends, and what follows from that is written down, or neither.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from penstock.engine.board import Board
from penstock.engine.enqueue import add, check, check_text, enqueue
from penstock.engine.waiting import ask_to_stop, remove_all
from penstock.errors import DuplicateJobError, InvalidWorkflowError, NotFoundError, WrongStateError
from penstock.ids import new_id
from penstock.job import Enqueued, NewJob, NewWorkflow
from penstock.lifecycle.checks import check_job_id
from penstock.lifecycle.states import State
from penstock.store import workflows as rows
from penstock.store.session import Row
from penstock.workflows.flow import Flow, Standing, Tally
from penstock.workflows.steps import StepState, When, WorkflowState, check_steps, children

PARENT_RESULTS: Final = "parent_results"
_Adding = Callable[[Board, Sequence[NewJob], Sequence[int]], list[Enqueued]]
_ENDS: Final = {State.DONE: StepState.DONE, State.CANCELLED: StepState.CANCELLED}


@dataclass(slots=True)
class _Held:
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


def checked(new: NewWorkflow) -> NewWorkflow:
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
        _meta(job)
        steps.append(msgspec.structs.replace(step, job=job))
    return msgspec.structs.replace(new, steps=tuple(steps))


def start(board: Board, new: NewWorkflow) -> str:
    """Add a `checked` workflow and enqueue the steps that wait for nobody; return its id."""
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
        (number, id_, new.tenant, new.kind, new.name, new.meta, board.now, None, WorkflowState.RUNNING.value,
         total, total, 0, 0),
        [
            (number_of[s.id], number, waiting if s.depends_on else running, s.when.value, int(s.callback), None,
             len(s.depends_on), 0, 0, _joined(number_of[child] for child in followers[s.id]))
            for s in new.steps
        ],
        [
            (number_of[s.id], s.id, s.job.task, s.job.queue, msgspec.json.encode(s.job).decode(),
             _joined(number_of[parent] for parent in s.depends_on))
            for s in new.steps
        ],
    )  # fmt: skip
    _begin(board, [(number, number_of[step.id], step.job) for step in first], enqueue)
    board.events.tell("workflow.started", workflow=id_, tenant=new.tenant, kind=new.kind)
    follow(board)  # one may have been dropped already
    return id_


def follow(board: Board) -> None:
    """Let what the ends of this transaction's jobs set free stand in line."""
    while board.ended:
        ended, board.ended = board.ended, {}
        found = rows.of_jobs(board.db, list(ended))
        if found:
            states = {step: _ENDS.get(ended[seq][0], StepState.FAILED) for seq, _, step in found}
            results = {step: ended[seq][1] for seq, _, step in found}
            _change(board, {step: workflow for _, workflow, step in found}, states, results)


def revive(board: Board, seq: int) -> None:
    """Let a step whose job is run again by hand, and those that were cancelled because of it, be live again."""
    for _, workflow, step in rows.of_jobs(board.db, [seq]):
        _change(board, {step: workflow}, {step: StepState.RUNNING}, {step: None})


def cancel(board: Board, id_: str, reason: str) -> None:
    """Set nothing free any more; end the jobs that wait and ask those that run to stop."""
    board.db.need_gates()
    found = rows.find(board.db, id_)
    if found is None:
        raise NotFoundError("workflow", id_)
    held = _hold(board, [found[0]]).get(found[0])
    if held is None:
        raise NotFoundError("workflow", id_)
    if held.before is not WorkflowState.RUNNING:
        raise WrongStateError(id_, held.before.value, "a workflow that has not ended", "workflow")
    live = rows.live(board.db, held.number)
    waiting = {step: StepState.CANCELLED for step, seq in live if seq is None}
    held.cancelled = True
    _save(board, _changed(board, waiting, {}, {held.number}), {held.number: held})
    begun = [seq for _, seq in live if seq is not None]
    for seq in remove_all(board, begun, State.CANCELLED, reason):
        ask_to_stop(board, seq)
    follow(board)


def _change(
    board: Board,
    workflow_of: Mapping[int, int],
    states: Mapping[int, StepState],
    results: Mapping[int, str | None],
) -> None:
    """Let steps have these states, and all follow from it."""
    board.db.need_gates()
    held = _hold(board, workflow_of.values())
    # What was pruned meanwhile is left alone.
    known = {step: state for step, state in states.items() if workflow_of[step] in held}
    closed = {workflow.number for workflow in held.values() if workflow.cancelled}
    flow = _changed(board, known, results, closed)
    _set_free(board, flow)
    _save(board, flow, held)


def _hold(board: Board, numbers: Iterable[int]) -> dict[int, _Held]:
    board.in_workflows = True
    return {
        number: _Held(number, id_, tenant, finished, WorkflowState(state), Tally(*counts))
        for number, id_, tenant, finished, state, *counts in rows.hold(board.db, sorted(set(numbers)))
    }


def _changed(
    board: Board,
    states: Mapping[int, StepState],
    results: Mapping[int, str | None],
    closed: Iterable[int],
) -> Flow:
    flow = Flow(lambda numbers: [_standing(row) for row in rows.steps(board.db, numbers)])
    flow.change(states, frozenset(closed))
    rows.save_steps(
        board.db,
        [(s.state.value, s.waiting, s.failed, s.skipped, s.number) for s in flow.touched.values()],
    )
    kept = [(results[step], step) for step in states if step in results and flow.steps[step].children]
    if kept:
        rows.save_results(board.db, kept)
    return flow


def _set_free(board: Board, flow: Flow) -> None:
    """Enqueue the steps that wait for nobody any more, each with the results of those it waited for."""
    if not flow.free:
        return
    plans = rows.plans(board.db, flow.free)
    parents = {step: _numbers(text) for step, _, text in plans}
    results = rows.results(board.db, sorted({parent for each in parents.values() for parent in each}))
    _begin(
        board,
        [
            (flow.steps[step].workflow, step, _with_results(text, [results.get(p) for p in parents[step]]))
            for step, text, _ in plans
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


def _save(board: Board, flow: Flow, held: Mapping[int, _Held]) -> None:
    """Keep how far the workflows are."""
    for turn in flow.turns:
        held[turn.step.workflow].tally.count(turn)
    saved = []
    for workflow in held.values():
        state, tally = workflow.state, workflow.tally
        finished = workflow.finished
        if state is not workflow.before:
            finished = None if state is WorkflowState.RUNNING else board.now
            board.events.tell(f"workflow.{state.value}", workflow=workflow.id, tenant=workflow.tenant)
        saved.append(
            (state.value, finished, tally.unfinished, tally.completed, tally.failed, workflow.number)
        )
    rows.save(board.db, saved)


def _with_results(text: str, results: Sequence[str | None]) -> NewJob:
    job = msgspec.json.decode(text, type=NewJob)
    meta = _meta(job)
    meta[PARENT_RESULTS] = [msgspec.Raw((result or "null").encode()) for result in results]
    return msgspec.structs.replace(job, meta=msgspec.json.encode(meta).decode())


def _meta(job: NewJob) -> dict[str, object]:
    try:
        return msgspec.json.decode(job.meta, type=dict[str, object])
    except msgspec.MsgspecError as error:
        raise InvalidWorkflowError("meta", f"must be a JSON object: {error}") from None


def _standing(row: Row) -> Standing:
    number, workflow, state, runs, callback, seq, waiting, failed, skipped, followers = row
    return Standing(
        number, workflow, StepState(state), When(runs), bool(callback), seq is not None, waiting, failed, skipped,
        _numbers(followers),
    )  # fmt: skip


def _joined(numbers: Iterable[int]) -> str:
    return ",".join(map(str, numbers))


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split(",")) if text else ()
