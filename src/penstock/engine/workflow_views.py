"""Workflows as people and programs see them.  Changes nothing."""

from penstock.errors import NotFoundError
from penstock.job import StepView, WorkflowView
from penstock.store import workflows as rows
from penstock.store.session import Row, Session
from penstock.workflows.steps import StepState, When, WorkflowState


def view(db: Session, id_: str) -> WorkflowView:
    """Return one workflow with its steps."""
    row = rows.find(db, id_)
    if row is None:
        raise NotFoundError("workflow", id_)
    return _workflow(row, _steps(rows.view(db, row[0])))


def page(
    db: Session, tenant: str | None, state: WorkflowState | None, offset: int, limit: int
) -> tuple[list[WorkflowView], int]:
    """Return workflows, newest first and without their steps, and how many there are."""
    wanted = None if state is None else state.value
    found = [_workflow(row) for row in rows.page(db, tenant, wanted, offset, limit)]
    return found, rows.total(db, tenant, wanted)


def _workflow(row: Row, steps: tuple[StepView, ...] = ()) -> WorkflowView:
    _, id_, tenant, kind, name, meta, created, finished, state, total, _, completed, _, started, failed = row
    return WorkflowView(
        id_, tenant, kind, name, meta, WorkflowState(state), created, finished, total, completed, steps,
        started, failed,
    )  # fmt: skip


def _steps(found: list[Row]) -> tuple[StepView, ...]:
    ids = {str(number): id_ for number, id_, *_ in found}
    return tuple(
        StepView(
            id_, task, queue, StepState(state), job,
            tuple(ids[parent] for parent in parents.split(",") if parent), When(runs), bool(callback),
        )
        for _, id_, task, queue, state, job, parents, runs, callback in found
    )  # fmt: skip
