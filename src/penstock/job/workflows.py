"""Workflows: what is asked for, and what is seen of them and of their steps."""

from msgspec import Struct

from penstock.job.jobs import NewJob
from penstock.workflows.steps import Step, StepState, When, WorkflowState


class NewWorkflow(Struct, frozen=True):
    """A workflow to start.  *kind* says for people how it was written down; *meta* is JSON text.

    Its jobs belong to its *tenant*, whatever their templates say.
    """

    steps: tuple[Step[NewJob], ...]
    kind: str = "dag"
    name: str = ""
    tenant: str = ""
    id: str | None = None
    meta: str = "{}"


class StepView(Struct, frozen=True):
    """A step as people and programs see it; *job_id* is None until its job is enqueued."""

    id: str
    task: str
    queue: str
    state: StepState
    job_id: str | None
    depends_on: tuple[str, ...]
    when: When
    callback: bool


class WorkflowView(Struct, frozen=True):
    """A workflow as people and programs see it; callbacks are none of the steps that are counted.

    Lists of workflows come without their *steps*.
    """

    id: str
    tenant: str
    kind: str
    name: str
    meta: str
    state: WorkflowState
    created: int
    finished: int | None
    steps_total: int
    steps_completed: int
    steps: tuple[StepView, ...] = ()
    started: int | None = None  # when the first of its jobs began
    steps_failed: int = 0  # of those counted; those cancelled are not among them

    @property
    def jobs_total(self) -> int:
        """Each step is one job."""
        return self.steps_total

    @property
    def jobs_completed(self) -> int:
        """The same."""
        return self.steps_completed
