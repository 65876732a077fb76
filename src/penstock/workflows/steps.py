"""What is a workflow made of?  Steps that wait for others, in any shape without a circle."""

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Final, Generic, TypeAlias, TypeVar

from msgspec import Struct

from penstock.errors import InvalidWorkflowError

MAX_STEPS: Final = 10_000
MAX_EDGES: Final = 100_000
MAX_ID: Final = 255
MAX_DEPTH: Final = 8  # workflows in workflows, the outermost one counted

J = TypeVar("J")
Results: TypeAlias = "str | tuple[Results, ...]"  # of one step, or a list of them


class When(StrEnum):
    """In which case a step runs, once it is known how those it waits for ended."""

    DONE = "done"  # all were done
    FAILED = "failed"  # at least one failed or was cancelled
    ENDED = "ended"  # in any case


class StepState(StrEnum):
    """Where a step stands."""

    WAITING = "waiting"  # for others
    RUNNING = "running"  # its job is enqueued and has not ended
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"  # on request, or because one it waited for failed
    SKIPPED = "skipped"  # the case in which it runs did not occur


class WorkflowState(StrEnum):
    """Where a workflow stands."""

    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


LIVE: Final = frozenset({StepState.WAITING, StepState.RUNNING})
BAD: Final = frozenset({StepState.FAILED, StepState.CANCELLED})


class Step(Struct, Generic[J], frozen=True):
    """A job that is enqueued once the steps it depends on have ended.

    A *callback* tells of how others ended: it is none of the steps that are counted, and it is decided only when all it
    depends on have ended.  If it has an *opening*, it runs only if that step began.  Steps that depend on a callback
    go on also if it was skipped.

    A job is told the *results* of the steps it depends on, one for each, unless they are arranged otherwise.
    """

    id: str
    job: J
    depends_on: tuple[str, ...] = ()
    when: When = When.DONE
    callback: bool = False
    results: tuple[Results, ...] | None = None
    opening: str | None = None


def check_size(steps: Sequence[Step[J]]) -> None:
    """Raise if there are too many steps, or dependencies between them."""
    if len(steps) > MAX_STEPS:
        raise InvalidWorkflowError("steps", f"{len(steps)} steps; at most {MAX_STEPS} are allowed")
    if sum(len(step.depends_on) for step in steps) > MAX_EDGES:
        raise InvalidWorkflowError("depends_on", f"more than {MAX_EDGES} dependencies in all")


def check_steps(steps: Sequence[Step[J]]) -> None:
    """Raise unless every step can be reached, and each in the order of what it depends on."""
    check_size(steps)
    if all(step.callback for step in steps):
        raise InvalidWorkflowError("steps", "there must be at least one step that is not a callback")
    known: set[str] = set()
    for step in steps:
        _check_id(step.id)
        if step.id in known:
            raise InvalidWorkflowError("id", f"{step.id!r} names two steps")
        known.add(step.id)
    for step in steps:
        _check_parents(step, known)
    _check_order(steps)


def children(steps: Iterable[Step[J]]) -> dict[str, list[str]]:
    """Return by step which others wait for it."""
    found: dict[str, list[str]] = {}
    for step in steps:
        found.setdefault(step.id, [])
        for parent in step.depends_on:
            found.setdefault(parent, []).append(step.id)
    return found


def _check_id(id_: str) -> None:
    if not id_ or not id_.isprintable() or len(id_) > MAX_ID:
        raise InvalidWorkflowError(
            "id", f"{id_[:40]!r} must be 1 to {MAX_ID} printable characters to name a step"
        )


def _check_parents(step: Step[J], known: set[str]) -> None:
    if len(set(step.depends_on)) < len(step.depends_on):
        raise InvalidWorkflowError("depends_on", f"step {step.id!r} names another twice")
    for parent in step.depends_on:
        if parent not in known:
            raise InvalidWorkflowError(
                "depends_on", f"step {step.id!r} depends on {parent!r}, which is not there"
            )
    if not set(_named(step.results or ())) <= set(step.depends_on):
        raise InvalidWorkflowError("results", f"step {step.id!r} depends on fewer steps than it is told of")
    if step.opening is not None and step.opening not in known:
        raise InvalidWorkflowError(
            "opening", f"step {step.id!r} tells of {step.opening!r}, which is not there"
        )
    if not step.depends_on and (step.callback or step.when is not When.DONE):
        raise InvalidWorkflowError(
            "depends_on", f"step {step.id!r} is to run when others have ended, but names none"
        )


def _named(results: Results) -> Iterator[str]:
    if isinstance(results, str):
        yield results
    else:
        for each in results:
            yield from _named(each)


def _check_order(steps: Sequence[Step[J]]) -> None:
    followers = children(steps)
    waiting = {step.id: len(step.depends_on) for step in steps}
    free = [id_ for id_, count in waiting.items() if not count]
    while free:
        for id_ in followers[free.pop()]:
            waiting[id_] -= 1
            if not waiting[id_]:
                free.append(id_)
    circle = [id_ for id_, count in waiting.items() if count]
    if circle:
        raise InvalidWorkflowError("depends_on", f"step {circle[0]!r} depends on itself, by way of others")
