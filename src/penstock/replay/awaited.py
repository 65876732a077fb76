"""What a body may wait for, and a coroutine driven by hand that waits for such things."""

from abc import ABC, abstractmethod
from collections.abc import Coroutine, Generator
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from penstock.errors import InvalidWorkflowError, StepCancelledError
from penstock.replay.recorder import Recorder, Scope

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_ADVICE: Final = (
    "await only steps (task.step(...)), sleep, signal, note, gather, first and functions made of them; "
    "put anything else, such as a call over the network, into a task, and await its step"
)


@dataclass(frozen=True, slots=True)
class Value(Generic[T_co]):
    """It ended with a value."""

    value: T_co

    def get(self) -> T_co:
        return self.value


@dataclass(frozen=True, slots=True)
class Error:
    """It ended with an error."""

    error: BaseException

    def get(self) -> Any:
        raise self.error


Result = Value[T] | Error


class Awaited(ABC, Generic[T_co]):
    """Something that the body of a workflow can await, as often as it likes."""

    @abstractmethod
    def look(self) -> Result[T_co] | None:
        """Return how it ended; None if it has not."""

    @abstractmethod
    def cancel(self) -> None:
        """Give it up: it counts as cancelled from now on."""

    def __await__(self) -> "Generator[Awaited[T_co], Result[T_co], T_co]":
        ended = self.look()
        if ended is None:
            ended = yield self
        return ended.get()


class Branch(Awaited[T_co]):
    """A coroutine, run as far as it gets: the whole body, or one that `gather` or `first` was given."""

    def __init__(self, recorder: Recorder, coroutine: Coroutine[Any, Any, T_co], scope: Scope) -> None:
        self._recorder = recorder
        self._coroutine = coroutine
        self._scope = scope
        self._waits: Awaited[Any] | None = None
        self._ended: Result[T_co] | None = None
        recorder.drives(coroutine)
        self._run(None)

    @property
    def ended(self) -> Result[T_co] | None:
        """How it ended, as far as it was run."""
        return self._ended

    def look(self) -> Result[T_co] | None:
        while self._ended is None and self._waits is not None:
            ended = self._waits.look()
            if ended is None:
                return None
            self._run(ended)
        return self._ended

    def cancel(self) -> None:
        self._scope.shut = True
        if self._waits is not None and self._ended is None:
            self._waits.cancel()
        self._ended = Error(StepCancelledError(getattr(self._coroutine, "__name__", "a branch")))

    def _run(self, ended: Result[Any] | None) -> None:
        try:
            with self._recorder.within(self._scope):
                asked = self._coroutine.send(ended)
                while not isinstance(asked, Awaited):
                    problem = f"the body of a workflow awaited {type(asked).__name__}; {_ADVICE}"
                    asked = self._coroutine.throw(InvalidWorkflowError("await", problem))
            self._waits = asked
        except StopIteration as stop:
            self._ended = Value(stop.value)
        except BaseException as error:  # noqa: BLE001 - it belongs to whatever awaits this branch
            self._ended = Error(_explained(error))


def _explained(error: BaseException) -> BaseException:
    """Return *error*; one that says no more than that there is no event loop says what to do."""
    if isinstance(error, RuntimeError) and "running event loop" in str(error):
        told = InvalidWorkflowError("await", f"the body of a workflow runs without an event loop; {_ADVICE}")
        told.__cause__ = error
        return told.with_traceback(error.__traceback__)
    return error
