"""The usual shapes of a workflow, as steps; a shape may stand in another one as a step.

What is nested is written down as steps of one workflow when it is made, so that nothing that follows an end has to know
of it.  Whatever depends on a shape depends on its ends.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Generic, Self, TypeVar

from msgspec.structs import replace

from penstock.errors import InvalidWorkflowError
from penstock.workflows.steps import Results, Step, When, check_size, children

J = TypeVar("J")


class Shape(tuple[Step[J], ...], Generic[J]):  # noqa: SLOT001 - a tuple can have no slots of its own
    """Steps that can stand in a workflow as one step; *result* is what that step hands on."""

    result: Results

    @classmethod
    def of(cls, steps: Sequence["Step[J | Shape[J]]"], result: Sequence[str] | str) -> Self:
        """Write *steps*, some of which may be shapes, as steps of one workflow; *result* names those it hands on."""
        known = {step.id: step for step in steps}
        if len(known) < len(steps):
            twice = next(step.id for n, step in enumerate(steps) if known[step.id] is not steps[n])
            raise InvalidWorkflowError("id", f"{twice!r} names two steps")
        ends = {step.id: _ends(step) for step in steps}
        results = {step.id: _result(step) for step in steps}
        shape = cls(flat for step in steps for flat in _flattened(step, ends, results))
        check_size(shape)  # before what is long is written out once more, a level further up
        shape.result = results[result] if isinstance(result, str) else tuple(results[id_] for id_ in result)
        return shape


def chain(jobs: Sequence[J | Shape[J]]) -> Shape[J]:
    """One after the other, each with the result of the one before it; the last one's is that of the chain."""
    steps = [Step(f"step-{n}", job, depends_on=(f"step-{n - 1}",) if n else ()) for n, job in enumerate(jobs)]
    return Shape.of(steps, steps[-1].id if steps else ())


def group(jobs: Sequence[J | Shape[J]]) -> Shape[J]:
    """All at once; the result is the list of theirs."""
    return batch(jobs)


def batch(
    jobs: Sequence[J | Shape[J]],
    *,
    on_success: J | None = None,
    on_failure: J | None = None,
    on_complete: J | None = None,
) -> Shape[J]:
    """All at once; then the callbacks: that all were done, that one was not, that all have ended."""
    members = [Step(f"job-{n}", job) for n, job in enumerate(jobs)]
    all_ids = tuple(step.id for step in members)
    told = (
        ("on_success", on_success, When.DONE),
        ("on_failure", on_failure, When.FAILED),
        ("on_complete", on_complete, When.ENDED),
    )
    callbacks = [
        Step[J | Shape[J]](id_, job, all_ids, when, callback=True)
        for id_, job, when in told
        if job is not None
    ]
    return Shape.of([*members, *callbacks], all_ids)


def dag(steps: Sequence[Step[J | Shape[J]]]) -> Shape[J]:
    """In any order without a circle; the result is the list of those of the steps that no other depends on."""
    return Shape.of(steps, [step.id for step in _last(steps) if not step.callback])


def _last(steps: Iterable[Step[J]]) -> list[Step[J]]:
    """Return the steps on which no other depends, except for callbacks."""
    found = list(steps)
    waited_for = children(step for step in found if not step.callback)
    return [step for step in found if not waited_for.get(step.id)]


def _flattened(
    step: "Step[J | Shape[J]]", ends: Mapping[str, Sequence[str]], results: Mapping[str, Results]
) -> Iterable[Step[J]]:
    # A name that is not there stays, and is refused with all that cannot be.
    depends_on = tuple(end for parent in step.depends_on for end in ends.get(parent, (parent,)))
    heard = tuple(results.get(parent, parent) for parent in step.depends_on)
    before = None if heard == depends_on else heard
    if not isinstance(step.job, Shape):
        yield Step(step.id, step.job, depends_on, step.when, step.callback, before)
        return
    opening = next((inner.id for inner in step.job if not inner.depends_on), None)
    for inner in step.job:
        first = inner.opening or (opening if inner.callback else None)
        named = replace(inner, id=_inside(step.id, inner.id), opening=first and _inside(step.id, first))
        if not inner.depends_on:
            yield replace(named, depends_on=depends_on, results=before)
            continue
        yield replace(
            named,
            depends_on=tuple(_inside(step.id, parent) for parent in inner.depends_on),
            results=None if inner.results is None else _renamed(step.id, inner.results),
        )


def _ends(step: "Step[J | Shape[J]]") -> tuple[str, ...]:
    """Return the steps that have ended when *step* has: of a batch also the callbacks."""
    if not isinstance(step.job, Shape):
        return (step.id,)
    return tuple(_inside(step.id, inner.id) for inner in _last(step.job))


def _result(step: "Step[J | Shape[J]]") -> Results:
    return _renamed(step.id, step.job.result) if isinstance(step.job, Shape) else step.id


def _renamed(outer: str, results: Results) -> Results:
    if isinstance(results, str):
        return _inside(outer, results)
    return tuple(_renamed(outer, result) for result in results)


def _inside(outer: str, inner: str) -> str:
    return f"{outer}/{inner}"
