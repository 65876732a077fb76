"""Several at once: all of them, or the first to end."""

from collections.abc import Awaitable, Sequence
from inspect import iscoroutine
from typing import Any, Generic, Literal, NamedTuple, TypeVar, overload

import msgspec

from penstock.errors import InvalidWorkflowError
from penstock.replay.awaited import Awaited, Branch, Error, Result, Value
from penstock.replay.recorder import Recorder, Scope, current

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Winner(NamedTuple, Generic[T]):
    """What `first` returns: which of its arguments ended first, counted from 0, and its *value*."""

    which: int
    value: T


@overload
def gather(*steps: Awaitable[T], return_exceptions: Literal[False] = False) -> "Awaited[list[T]]": ...


@overload
def gather(*steps: Awaitable[T], return_exceptions: bool) -> "Awaited[list[T | BaseException]]": ...


def gather(*steps: Awaitable[Any], return_exceptions: bool = False) -> Awaited[Any]:
    """Wait for all *steps* and return their values as a list, in the order of the arguments.

    If some fail, the error of the first of them in that order is raised, once those before it are done; the others
    go on.  So the same error is raised however often the body is replayed.  With *return_exceptions* errors are
    returned in place of values.
    """
    recorder = current("gather()")
    name = recorder.count("gather")
    parts = [_part(recorder, each, f"{name}[{n}]") for n, each in enumerate(steps)]
    return Gather(parts, return_exceptions=return_exceptions)


def first(*steps: Awaitable[T]) -> "Awaited[Winner[T]]":
    """Wait until one of *steps* has ended and return which, and its value; the others are cancelled.

    If several have ended, the first of them in the order of the arguments wins.  If the winner failed, its error is
    raised.
    """
    if not steps:
        raise InvalidWorkflowError("first", "give at least one step")
    return First(current("first()"), steps)


class Gather(Awaited[list[Any]]):
    def __init__(self, parts: Sequence[Awaited[Any]], *, return_exceptions: bool) -> None:
        self._parts = parts
        self._return_exceptions = return_exceptions

    def look(self) -> Result[list[Any]] | None:
        ended = [part.look() for part in self._parts]
        values: list[Any] = []
        for each in ended:
            match each:
                case None:
                    return None
                case Error(error) if self._return_exceptions:
                    values.append(error)
                case Error():
                    return each
                case Value(value):
                    values.append(value)
        return Value(values)

    def cancel(self) -> None:
        for part in self._parts:
            part.cancel()


class First(Awaited[Winner[T]]):
    def __init__(self, recorder: Recorder, steps: Sequence[Awaitable[T]]) -> None:
        self._recorder = recorder
        self._scope = recorder.scope
        # The winner is noted: when the body is replayed, others may have ended too.
        self._key = recorder.count("first")
        noted = recorder.noted(self._key)
        self._winner: int | None = None if noted is None else msgspec.json.decode(noted, type=int)
        self._parts = [
            _part(recorder, each, f"{self._key}[{n}]", shut=self._winner not in (None, n))
            for n, each in enumerate(steps)
        ]
        if self._winner is not None:
            self._cancel_others(self._winner)

    def look(self) -> Result[Winner[T]] | None:
        if self._winner is None:
            if self._scope.shut:
                return None
            self._winner = next((n for n, part in enumerate(self._parts) if part.look() is not None), None)
            if self._winner is None:
                return None
            self._recorder.note(self._key, msgspec.json.encode(self._winner).decode())
            self._cancel_others(self._winner)
        ended = self._parts[self._winner].look()
        return Value(Winner(self._winner, ended.value)) if isinstance(ended, Value) else ended

    def cancel(self) -> None:
        for part in self._parts:
            part.cancel()

    def _cancel_others(self, winner: int) -> None:
        for n, part in enumerate(self._parts):
            if n != winner:
                part.cancel()


def _part(recorder: Recorder, step: object, name: str, *, shut: bool = False) -> Awaited[Any]:
    """Return one of several as something to look at; a coroutine counts its calls for itself, under *name*."""
    if isinstance(step, Awaited):
        return step
    if iscoroutine(step):
        return Branch(recorder, step, Scope(f"{name}/", shut=shut or recorder.scope.shut))
    raise InvalidWorkflowError("await", f"{step!r} is no step, nor a coroutine made of steps")
