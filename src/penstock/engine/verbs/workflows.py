"""Workflows: steps that wait for each other."""

from penstock.engine import workflow_views, workflows
from penstock.engine.board import Board
from penstock.engine.transactions import Transactions
from penstock.job import NewWorkflow, WorkflowView
from penstock.store.session import Hold
from penstock.workflows.steps import WorkflowState


class WorkflowVerbs(Transactions):
    def start_workflow(self, new: NewWorkflow) -> WorkflowView:
        """Add a workflow and enqueue the steps that wait for nobody; all of it is durable when this returns."""
        wanted = workflows.checked(new)
        limited = any(step.job.limits for step in wanted.steps if not step.depends_on)

        def work(board: Board) -> WorkflowView:
            return workflow_views.view(board.db, workflows.start(board, wanted))

        return self._write(work, Hold.GATES_IF_FREE if limited else Hold.NOTHING)

    def workflow(self, workflow_id: str) -> WorkflowView:
        """Return one workflow with its steps."""
        return self.store.read(lambda db: workflow_views.view(db, workflow_id))

    def workflows(
        self,
        tenant: str | None = None,
        offset: int = 0,
        limit: int = 50,
        *,
        state: WorkflowState | None = None,
    ) -> tuple[list[WorkflowView], int]:
        """Return a page of workflows, newest first and without their steps, and how many there are."""
        return self.store.read(lambda db: workflow_views.page(db, tenant, state, offset, limit))

    def cancel_workflow(self, workflow_id: str, reason: str = "its workflow was cancelled") -> WorkflowView:
        """Set no further step free; cancel the jobs that wait, and ask the workers of those that run to stop."""

        def work(board: Board) -> WorkflowView:
            workflows.cancel(board, workflow_id, reason)
            return workflow_views.view(board.db, workflow_id)

        return self._write(work)
