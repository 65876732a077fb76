"""What policies have in common that hold nothing while a call waits: a decorator, and a call within it."""

import inspect
from abc import ABC, abstractmethod
from asyncio import iscoroutinefunction
from collections.abc import Awaitable, Callable
from functools import partial, wraps
from typing import Any, Generic, ParamSpec, TypeVar

from penstock.policies.waiter import myself

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


def is_async(function: Callable[..., Any]) -> bool:
    """Tell whether calling *function* gives something to await."""
    while isinstance(function, partial):
        function = function.func
    return iscoroutinefunction(function) or iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


def refuse_generators(function: Callable[..., Any]) -> None:
    """Raise if *function* returns before its work is done."""
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(
            f"{function!r} is a generator, whose work goes on after the call; use a `with` block inside"
        )


class Entered(Generic[T]):
    """What tasks and threads got at the beginning of blocks, for the ends of the same blocks."""

    def __init__(self) -> None:
        self.stacks: dict[object, list[T]] = {}

    def push(self, value: T) -> T:
        """Keep *value* until the running task or thread leaves its innermost block, and return it."""
        self.stacks.setdefault(myself()[0], []).append(value)
        return value

    def pop(self) -> T:
        """Return what the running task or thread pushed last."""
        owner = myself()[0]
        stack = self.stacks[owner]
        value = stack.pop()
        if not stack:
            del self.stacks[owner]
        return value


class Wrapper(ABC):
    """What `Retrying`, `Timeout` and `Breaker` have in common."""

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Return *function* within this policy."""
        refuse_generators(function)
        wrapped: Any = self._around_async(function) if is_async(function) else self._around(function)
        return wraps(function)(wrapped)

    def call(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call *function* within this policy; await the answer if *function* is async."""
        return self(function)(*args, **kwargs)

    async def acall(self, function: Callable[P, Awaitable[R]], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call *function*, which returns something to await, within this policy."""
        result: R = await self._around_async(function)(*args, **kwargs)
        return result

    @abstractmethod
    def _around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a plain *function* within this policy."""

    @abstractmethod
    def _around_async(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return an async *function* within this policy."""
