"""Workflows and their steps."""

from penstock.engine.transactions import Transactions
from penstock.errors import NotFoundError
from penstock.job import StepView, WorkflowView
from penstock.store import workflows as rows
from penstock.store.session import Session
from penstock.store.workflows import ShownStep, ShownWorkflow
from penstock.workflows.steps import StepState, When, WorkflowState


class WorkflowViews(Transactions):
    def workflow(self, workflow_id: str) -> WorkflowView:
        """Return one workflow with its steps."""
        return self.store.read(lambda db: workflow_view(db, workflow_id))

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
            found = [_workflow(row) for row in rows.page(db, tenant, wanted, offset, limit)]
            return found, rows.total(db, tenant, wanted)

        return self.store.read(work)


def workflow_view(db: Session, id_: str) -> WorkflowView:
    """Return one workflow with its steps."""
    row = rows.find(db, id_)
    if row is None:
        raise NotFoundError("workflow", id_)
    return _workflow(row, _steps(rows.view(db, row.row.number)))


def _workflow(shown: ShownWorkflow, steps: tuple[StepView, ...] = ()) -> WorkflowView:
    row = shown.row
    return WorkflowView(
        row.id, row.tenant, row.kind, row.name, row.meta, WorkflowState(row.state), row.created, row.finished,
        row.total, row.completed, steps, shown.started, shown.failures,
    )  # fmt: skip


def _steps(found: list[ShownStep]) -> tuple[StepView, ...]:
    ids = {str(step.number): step.id for step in found}
    return tuple(
        StepView(
            step.id, step.task, step.queue, StepState(step.state), step.job,
            tuple(ids[parent] for parent in step.parents.split(",") if parent), When(step.runs), bool(step.callback),
        )
        for step in found
    )  # fmt: skip
