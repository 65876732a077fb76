"""Workflows and their steps."""

from penstock.engine.transactions import Transactions
from penstock.errors import NotFoundError
from penstock.job import StepView, WorkflowView
from penstock.store import workflows as rows
from penstock.store.session import Row, Session
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
    return _workflow(row, _steps(rows.view(db, row[0])))


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
