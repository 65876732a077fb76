"""The usual shapes of a workflow, as steps."""

from collections.abc import Sequence
from typing import TypeVar

from penstock.workflows.steps import Step, When

J = TypeVar("J")


def chain(jobs: Sequence[J]) -> tuple[Step[J], ...]:
    """One after the other, each with the result of the one before it."""
    return tuple(
        Step(f"step-{n}", job, depends_on=(f"step-{n - 1}",) if n else ()) for n, job in enumerate(jobs)
    )


def group(jobs: Sequence[J]) -> tuple[Step[J], ...]:
    """All at once."""
    return tuple(Step(f"job-{n}", job) for n, job in enumerate(jobs))


def batch(
    jobs: Sequence[J],
    *,
    on_success: J | None = None,
    on_failure: J | None = None,
    on_complete: J | None = None,
) -> tuple[Step[J], ...]:
    """All at once; then the callbacks: that all were done, that one was not, that all have ended."""
    members = group(jobs)
    all_ids = tuple(step.id for step in members)
    told = (
        ("on_success", on_success, When.DONE),
        ("on_failure", on_failure, When.FAILED),
        ("on_complete", on_complete, When.ENDED),
    )
    callbacks = tuple(
        Step(id_, job, all_ids, when, callback=True) for id_, job, when in told if job is not None
    )
    return members + callbacks
