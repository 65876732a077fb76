"""Calls that are yet to be made, and how they follow each other."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, Unpack

from penstock.app.run import Run
from penstock.app.workflow import RunOptions, Workflow
from penstock.errors import InvalidWorkflowError
from penstock.lifecycle.retry import policy_to_json

if TYPE_CHECKING:
    from penstock.app.task import Task

T = TypeVar("T")

# The workflows that every app has for them.
CHAIN: Final = "penstock.chain"
GROUP: Final = "penstock.group"
# What may be changed of a task for one step; the rest is said on the task itself.
CHANGEABLE: Final = ("queue", "priority", "delay", "expires", "timeout", "retry", "meta", "secret")


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """A call that is not enqueued yet; made by `Task.call`."""

    task: "Task[..., Any, T]"
    args: tuple[object, ...]
    kwargs: Mapping[str, object]

    @property
    def is_secret(self) -> bool:
        """Whether its values are for operators only."""
        return self.task.is_secret

    def plan(self, *, fed: bool) -> dict[str, Any]:  # noqa: ARG002 - it takes nothing from before
        """Return the call so that it can travel."""
        return _written(self.task, self.args, self.kwargs, ())


@dataclass(frozen=True, slots=True)
class Partial(Generic[T]):
    """A call whose first argument is what came before it; made by `Task.partial`."""

    task: "Task[..., Any, T]"
    args: tuple[object, ...]
    kwargs: Mapping[str, object]

    @property
    def is_secret(self) -> bool:
        """Whether its values are for operators only."""
        return self.task.is_secret

    def plan(self, *, fed: bool) -> dict[str, Any]:
        """Return the call so that it can travel; it is *fed* unless nothing comes before it."""
        return {**_written(self.task, self.args, self.kwargs, (None,) if fed else ()), "fed": fed}


@dataclass(frozen=True, slots=True)
class Flow(Generic[T]):
    """Calls that follow each other, or are made at once; from `chain`, `group` and `Task.map`."""

    kind: str  # chain, group; or over, the one part for each element of what came before
    parts: "tuple[Call[Any] | Partial[Any] | Flow[Any], ...]"
    leading: "Task[..., Any, Any]"

    @property
    def is_secret(self) -> bool:
        """Whether its values are for operators only: what one part is given or returns may go to all."""
        return any(part.is_secret for part in self.parts)

    def start(self, **options: Unpack[RunOptions]) -> Run[T]:
        """Start it, and return when that is durable.

        Its passes stand in the queue of its first task, unless *options* name another.
        """
        plan = self.plan(fed=False)
        workflow = Workflow(
            self.leading.connection, _played_by_workers, GROUP if self.kind == "group" else CHAIN, {}
        )
        if self.is_secret:
            workflow = workflow.with_options(secret=True)
        return workflow.with_options(queue=self.leading.queue).with_options(**options).start(plan)

    async def astart(self, **options: Unpack[RunOptions]) -> Run[T]:
        """Start it as `start` does, without holding up the event loop."""
        return await self.leading.connection.in_thread(lambda: self.start(**options))

    def plan(self, *, fed: bool) -> dict[str, Any]:
        """Return it so that it can travel."""
        if self.kind == "over":
            if not fed:
                raise InvalidWorkflowError("map", "without arguments it needs a step before it, in a chain")
            return {"over": self.parts[0].plan(fed=True)}
        return {self.kind: list(self._parts(fed=fed))}

    def _parts(self, *, fed: bool) -> Iterator[dict[str, Any]]:
        for part in self.parts:
            yield part.plan(fed=fed)
            fed = fed or self.kind == "chain"


async def _played_by_workers(plan: dict[str, Any]) -> Any: ...


def _written(
    task: "Task[..., Any, Any]",
    args: tuple[object, ...],
    kwargs: Mapping[str, object],
    fed: tuple[object, ...],
) -> dict[str, Any]:
    task.parameters.bind((*fed, *args), kwargs)
    return {"task": task.name, "args": args, "kwargs": kwargs, **_options(task)}


def _options(task: "Task[..., Any, Any]") -> dict[str, Any]:
    """Return what was changed of a task for this step."""
    changed = dict(task.changes)
    for name, value in changed.items():
        if name not in CHANGEABLE or isinstance(value, datetime):
            problem = f"cannot be changed for one step of a chain or a group; say it on {task.name}, or write a body"
            raise InvalidWorkflowError(name, problem)
        if isinstance(value, timedelta):
            changed[name] = value.total_seconds()
    if "retry" in changed:
        changed["retry"] = policy_to_json(task.retry)
    return {"options": changed} if changed else {}
