"""Workflows without a body: chains of calls and groups of them, nested as you like."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from penstock.app.connection import Connection
from penstock.app.passes import UnknownStep
from penstock.app.plan import CHAIN, GROUP, Call, Flow, Partial
from penstock.app.task import Task
from penstock.app.workflow import Workflow
from penstock.engine.workflows import PARENT_RESULTS
from penstock.errors import InvalidWorkflowError
from penstock.lifecycle.retry import policy_from_json
from penstock.replay import gather

MOST_PARENTS: Final = 64 * 1024

Tasks = Mapping[str, Task[..., Any, Any]]
Part = Call[Any] | Partial[Any] | Task[..., Any, Any] | Flow[Any]


def chain(*parts: Part) -> Flow[Any]:
    """Return *parts* one after another; what the last one returns is the result.

    A task, or a `Task.partial`, gets what the part before it returned as its first argument; a `Task.call` has all its
    arguments and gets nothing.  A group hands it to each of its parts, and returns the list of their results.
    """
    return _flow("chain", parts)


def group(*parts: Part) -> Flow[list[Any]]:
    """Return *parts* all at once; the result is the list of theirs, in their order.

    If one fails the group fails, once those before it are done; the others are cancelled.
    """
    return _flow("group", parts)


def built_in(connection: Connection, tasks: Callable[[], Tasks]) -> list[Workflow[..., Any]]:
    """Return the workflows that play chains and groups of *tasks*."""

    async def play(plan: dict[str, Any]) -> Any:
        return await _play(plan, tasks(), [])

    return [Workflow(connection, play, name, {}) for name in (CHAIN, GROUP)]


def _flow(kind: str, parts: Sequence[Part]) -> Flow[Any]:
    if not parts:
        raise InvalidWorkflowError(kind, "give at least one call")
    made = tuple(_part(kind, part) for part in parts)
    first = made[0]
    return Flow(kind, made, first.leading if isinstance(first, Flow) else first.task)


def _part(kind: str, part: object) -> Call[Any] | Partial[Any] | Flow[Any]:
    match part:
        case Task():
            return part.partial()
        case Call() | Partial() | Flow():
            return part
        case _:
            problem = f"{part!r} is no task, nor task.call(...), task.partial(...), task.map(...), a chain or a group"
            raise InvalidWorkflowError(kind, problem)


async def _play(plan: Mapping[str, Any], tasks: Tasks, before: Sequence[Any]) -> Any:
    """Play a *plan* after what came *before*: the results of the earlier steps of its chains."""
    match plan:
        case {"chain": parts}:
            results = list(before)
            for part in parts:
                results.append(await _begin(part, tasks, results))
            return results[-1]
        case {"group": parts}:
            return await gather(*[_begin(part, tasks, before) for part in parts])
        case {"over": part}:
            return await gather(*[_begin(part, tasks, [*before, each]) for each in _elements(before)])
        case _:
            return await _begin(plan, tasks, before)


def _begin(plan: Mapping[str, Any], tasks: Tasks, before: Sequence[Any]) -> Awaitable[Any]:
    if "task" not in plan:
        return _play(plan, tasks, before)
    task = tasks.get(plan["task"])
    if task is None:
        raise UnknownStep(f"this worker does not know task {plan['task']!r}; start or deploy one that does")
    options = dict(plan.get("options", {}))
    if "retry" in options:
        options["retry"] = policy_from_json(options["retry"])
    options["meta"] = {**options.get("meta", task.meta), PARENT_RESULTS: _parents(before)}
    first = before[-1:] if plan.get("fed") else ()
    return task.with_options(**options).step(*first, *plan["args"], **plan["kwargs"])


def _parents(before: Sequence[Any]) -> Sequence[Any] | None:
    return before if len(msgspec.json.encode(before)) <= MOST_PARENTS else None


def _elements(before: Sequence[Any]) -> list[Any]:
    found = before[-1]
    if not isinstance(found, list):
        raise InvalidWorkflowError("map", f"what came before must be a list, not {type(found).__name__}")
    return found
