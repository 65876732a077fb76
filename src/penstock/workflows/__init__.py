"""What does an outcome set free?  Steps of a workflow, what they wait for, and what becomes of them."""

from penstock.workflows.flow import Flow, Standing, Tally
from penstock.workflows.shapes import batch, chain, group
from penstock.workflows.steps import Step, StepState, When, WorkflowState, check_steps, children

__all__ = [
    "Flow",
    "Standing",
    "Step",
    "StepState",
    "Tally",
    "When",
    "WorkflowState",
    "batch",
    "chain",
    "check_steps",
    "children",
    "group",
]
