"""Invocations: what a call of a task returns."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from penstock.app.handle import JobHandle, job_ended
from penstock.dialects.pynenc.errors import original
from penstock.dialects.pynenc.options import canonical
from penstock.errors import JobDroppedError, JobFailedError
from penstock.lifecycle.states import State

if TYPE_CHECKING:
    from penstock.dialects.pynenc.task import PynencTask

T = TypeVar("T")


class InvocationStatus(StrEnum):
    """The states of an invocation, in pynenc's words."""

    REGISTERED = "registered"
    PENDING = "pending"
    RUNNING = "running"
    SUCCESS = "success"
    FAILED = "failed"
    RETRY = "retry"
    REROUTED = "rerouted"
    CONCURRENCY_CONTROLLED = "concurrency_controlled"
    CONCURRENCY_CONTROLLED_FINAL = "concurrency_controlled_final"

    def is_final(self) -> bool:
        """Tell whether nothing more will happen."""
        return self in _FINAL


_FINAL: Final = {
    InvocationStatus.SUCCESS,
    InvocationStatus.FAILED,
    InvocationStatus.CONCURRENCY_CONTROLLED_FINAL,
}


class Invocation(Generic[T]):
    """A call of *task* that some worker runs."""

    def __init__(
        self, task: "PynencTask[..., T]", handle: JobHandle[T], arguments: Mapping[str, object]
    ) -> None:
        self.task = task
        self.arguments = arguments
        self._handle = handle

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.invocation_id} of {self.task.task_id}>"

    @property
    def invocation_id(self) -> str:
        return self._handle.id

    @property
    def status(self) -> InvocationStatus:
        """The state of the invocation now."""
        return status_of(self._handle)

    @property
    def num_retries(self) -> int:
        """How often it was tried again."""
        return max(0, self._handle.refresh().attempt - 1)

    @property
    def result(self) -> T:
        """What the task returned, once it has.

        Raises what the task raised (a built-in error as itself, any other as `JobFailedError`), and a
        `KeyError` if the call was dropped because its key was busy.
        """
        with self._told_as_raised():
            return self._handle.result()

    async def async_result(self) -> T:
        """Wait for the `result` without blocking the event loop."""
        with self._told_as_raised():
            return await self._handle.aresult()

    @contextmanager
    def _told_as_raised(self) -> Iterator[None]:
        try:
            yield
        except JobFailedError as error:
            told = self._handle.refresh().error or {}
            known = original(error.kind, told.get("message", ""))
            if known is None:
                raise
            raise known from error


class ReusedInvocation(Invocation[T]):
    """An earlier call that stands for this one."""

    @cached_property
    def diff_arg(self) -> Mapping[str, object] | None:
        """The arguments of this call if the earlier one has others, which are then the ones that count."""
        # As JSON, in which both have travelled: a tuple and a list are the same there.
        same = canonical(self.existing_arguments) == canonical(self.arguments)
        return None if same else self.arguments

    @cached_property
    def existing_arguments(self) -> Mapping[str, object]:
        """The arguments of the call that counts."""
        return self.task.arguments_in(self._handle.refresh().args)


class InvocationGroup(Generic[T]):
    """Calls that were enqueued together."""

    def __init__(self, task: "PynencTask[..., T]", invocations: Sequence[Invocation[T]]) -> None:
        self.task = task
        self.invocations = list(invocations)

    def __iter__(self) -> Iterator[Invocation[T]]:
        return iter(self.invocations)

    def __len__(self) -> int:
        return len(self.invocations)

    @property
    def results(self) -> Iterator[T]:
        """Yield the results in order, each as soon as it is there."""
        return (invocation.result for invocation in self.invocations)

    async def async_results(self) -> AsyncIterator[T]:
        """Yield the results without blocking the event loop."""
        for invocation in self.invocations:
            yield await invocation.async_result()


def status_of(handle: JobHandle[T]) -> InvocationStatus:
    """Return the state of a job in pynenc's words."""
    view = handle.refresh()
    match view.state:
        case State.RUNNING:
            return InvocationStatus.RUNNING
        case State.DONE:
            return InvocationStatus.SUCCESS
        case State.WAITING | State.SCHEDULED if handle.why().reasons:
            return InvocationStatus.REROUTED
        case State.WAITING | State.SCHEDULED:
            return InvocationStatus.RETRY if view.attempt else InvocationStatus.REGISTERED
        case _:
            # pynenc knows neither cancelling nor expiry, and a caller that waits for an end must see one.
            dropped = isinstance(job_ended(view), JobDroppedError)
            return InvocationStatus.CONCURRENCY_CONTROLLED_FINAL if dropped else InvocationStatus.FAILED
