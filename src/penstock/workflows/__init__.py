"""What does an outcome set free?  Steps of a workflow, what they wait for, and what becomes of them."""

from penstock.workflows.flow import Flow, Standing, Tally
from penstock.workflows.shapes import Shape, batch, chain, dag, group
from penstock.workflows.steps import MAX_DEPTH, Step, StepState, When, WorkflowState, check_steps, children

__all__ = [
    "MAX_DEPTH",
    "Flow",
    "Shape",
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
    "dag",
    "group",
]
