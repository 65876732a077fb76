"""A policy around calls that holds nothing of its own while they wait: a decorator, and what is called within it."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from penstock.policies.forms import is_async, refuse_generators

P = ParamSpec("P")
R = TypeVar("R")


class Around(ABC):
    """What `Retry`, `Timeout` and `Breaker` have in common."""

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
