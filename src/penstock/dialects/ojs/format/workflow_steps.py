"""A workflow as the spec's clients send it, and as the engine takes it."""

import re
from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal, TypeGuard, get_args

import msgspec
from msgspec import Meta, Struct

from penstock.dialects.ojs.format.new_job import new_job
from penstock.dialects.ojs.format.requests import JobBody
from penstock.errors import InvalidError
from penstock.http.routes import converted
from penstock.job import NewJob
from penstock.workflows import MAX_DEPTH, Shape, Step, When, batch, chain, dag, group

CALLBACKS: Final = {"on_success": When.DONE, "on_failure": When.FAILED, "on_complete": When.ENDED}
_HUMP: Final = re.compile(r"(?<=[a-z0-9])([A-Z])")

Jobs = Annotated[list[Any], Meta(min_length=1, max_length=10_000)]


Kind = Literal["chain", "group", "batch", "dag", "workflow"]
KINDS: Final = get_args(Kind)


class CallbacksBody(Struct, forbid_unknown_fields=True):
    """Which job tells how a batch ended."""

    on_success: JobBody | None = None
    on_failure: JobBody | None = None
    on_complete: JobBody | None = None


class WorkflowBody(Struct):
    """A chain has *steps*, a group or a batch has *jobs*; without a type, steps name what they depend on.

    A workflow may stand in the place of a job.
    """

    type: Kind | None = None
    name: Annotated[str, Meta(max_length=255)] = ""
    steps: Jobs | None = None
    jobs: Jobs | None = None
    callbacks: CallbacksBody | None = None
    meta: dict[str, Any] | None = None


class StepReader:
    """Reads jobs of a workflow in each of the ways they are written."""

    def __init__(self, tenant: str | None, now: int) -> None:
        self._tenant = tenant
        self._now = now

    def steps(self, body: WorkflowBody, plain: dict[str, Any], at: str = "", depth: int = 1) -> Shape[NewJob]:
        """Return the steps that a request describes, or a workflow inside it that stands *at* this place."""
        name, jobs = _jobs_of(body)
        places = [f"{at}{name}[{n}]" for n in range(len(jobs))]
        if body.type in (None, "dag", "workflow"):
            return self._dag(jobs, places, depth)
        read = [self._member(each, place, depth) for each, place in zip(jobs, places, strict=True)]
        if body.type == "batch":
            told = plain.get("callbacks") or {}
            return batch(
                read,
                **{n: self._job(each, f"{at}callbacks.{n}") for n, each in told.items() if each is not None},
            )
        return chain(read) if body.type == "chain" else group(read)

    def _member(self, plain: object, at: str, depth: int) -> NewJob | Shape[NewJob]:
        """Return a job, or the workflow that stands in its place."""
        if not _is_workflow(plain):
            return self._job(plain, at)
        if depth == MAX_DEPTH:
            raise InvalidError(
                at, f"is nested too deeply: at most {MAX_DEPTH} workflows may stand one in another"
            )
        try:
            body = converted(plain, WorkflowBody)
            _jobs_of(body)
        except InvalidError as error:
            raise InvalidError(f"{at}.{error.field}", error.problem) from None
        return self.steps(body, plain, f"{at}.", depth + 1)

    def _dag(self, steps: Sequence[object], places: Sequence[str], depth: int) -> Shape[NewJob]:
        found = [self._step(each, n, places[n], depth) for n, each in enumerate(steps)]
        others = tuple(step.id for step in found if not step.callback)
        return dag(
            [
                msgspec.structs.replace(step, depends_on=others)
                if step.callback and not step.depends_on
                else step
                for step in found
            ]
        )

    def _step(self, plain: object, n: int, at: str, depth: int) -> Step[NewJob | Shape[NewJob]]:
        if not isinstance(plain, dict):
            raise InvalidError(at, "must be a JSON object")
        id_, parents = plain.get("id", f"step-{n}"), plain.get("depends_on") or []
        if not isinstance(id_, str):
            raise InvalidError(f"{at}.id", "must be text")
        if not isinstance(parents, list) or not all(isinstance(parent, str) for parent in parents):
            raise InvalidError(f"{at}.depends_on", "must be a list of the ids of other steps")
        options = plain.get("options")
        told = options.get("callback_type") if isinstance(options, dict) else None
        if told is not None and told not in CALLBACKS:
            known = ", ".join(CALLBACKS)
            raise InvalidError(f"{at}.options.callback_type", f"{told!r} must be one of: {known}")
        if told is not None:
            return Step(id_, self._job(plain, at), tuple(parents), CALLBACKS[told], callback=True)
        return Step(id_, self._member(plain, at, depth), tuple(parents))

    def _job(self, plain: object, at: str) -> NewJob:
        if isinstance(plain, dict):
            # In a workflow an id names a step.
            plain = {name: value for name, value in plain.items() if name not in ("id", "depends_on")}
            options = plain.get("options")
            if isinstance(options, dict) and isinstance(options.get("retry"), dict):
                plain["options"] = options | {
                    "retry": {_HUMP.sub(_snake, n): v for n, v in options["retry"].items()}
                }
        job = new_job(plain, self._tenant, self._now, at)
        if job.unique is not None:
            raise InvalidError(f"{at}.options.unique", "is not possible for a job of a workflow")
        return job


def _is_workflow(plain: object) -> TypeGuard[dict[str, Any]]:
    """Tell whether a workflow stands in the place of a job; a job has args, whatever its type is called."""
    if not isinstance(plain, dict) or "args" in plain:
        return False
    return plain["type"] in KINDS if "type" in plain else "steps" in plain


def _jobs_of(body: WorkflowBody) -> tuple[str, list[Any]]:
    """Return the jobs of a workflow, and the name of the field that has them."""
    jobs = body.jobs if body.steps is None else body.steps
    if jobs is None:
        raise InvalidError("jobs" if body.type in ("group", "batch") else "steps", "is missing")
    if body.steps is not None and body.jobs is not None:
        raise InvalidError("jobs", "goes with no steps: give one of them")
    if body.callbacks is not None and body.type != "batch":
        raise InvalidError("callbacks", "belong to a batch")
    return "jobs" if body.steps is None else "steps", jobs


def _snake(hump: re.Match[str]) -> str:
    return f"_{hump[1].lower()}"
