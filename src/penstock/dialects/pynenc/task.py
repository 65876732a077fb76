"""A task in pynenc's manner: calling it enqueues."""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import update_wrapper, wraps
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from penstock.app import Call, JobHandle, Task
from penstock.dialects.pynenc.errors import InvocationConcurrencyWithDifferentArgumentsError, RetryError
from penstock.dialects.pynenc.invocation import Invocation, InvocationGroup, ReusedInvocation
from penstock.dialects.pynenc.options import PynencOptions, gate_key
from penstock.worker import Retry, current_job

if TYPE_CHECKING:
    from penstock.dialects.pynenc.app import Pynenc

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of one call, made by `task.args(...)` for `parallelize`."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


class PynencTask(Generic[P, T]):
    """A function whose calls are run by workers."""

    def __init__(
        self, app: "Pynenc", task: Task[P, Any, T], function: Callable[P, Any], options: PynencOptions
    ) -> None:
        update_wrapper(self, function, updated=())
        self.app = app
        self.func = function
        self.options = options
        self.task_id = task.name
        self.logger: logging.Logger = app.logger
        self._task = task

    def __repr__(self) -> str:
        return f"<PynencTask {self.task_id}>"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Invocation[T]:
        """Enqueue a call, and return when it is durable."""
        return self._invocation(self._task.call(*args, **kwargs), self._task.enqueue(*args, **kwargs))

    def args(self, *args: P.args, **kwargs: P.kwargs) -> Arguments:
        """Return arguments for `parallelize`."""
        return Arguments(args, kwargs)

    def parallelize(
        self, param_iter: Iterable[tuple[Any, ...] | Mapping[str, Any] | Arguments]
    ) -> InvocationGroup[T]:
        """Enqueue many calls at once: each a tuple of arguments, a mapping of named ones, or `args(...)`."""
        calls = [self._call(each) for each in param_iter]
        handles = self._task.enqueue_many(calls)
        return InvocationGroup(self, [self._invocation(*each) for each in zip(calls, handles, strict=True)])

    @property
    def invocation(self) -> Invocation[T]:
        """The call that is being run, seen from inside the function."""
        handle = self.app.job(current_job().id, tenant=current_job().tenant)
        return Invocation(self, handle, self.arguments_in(handle.refresh().args))

    def arguments_in(self, text: str) -> dict[str, object]:
        """Return each parameter's value in an enqueued call."""
        args, kwargs = self._task.parameters.decode(text)
        return self._task.parameters.bind(args, kwargs)

    def _call(self, given: tuple[Any, ...] | Mapping[str, Any] | Arguments) -> Call[T]:
        match given:
            case Arguments(args, kwargs):
                return Call(self._task, args, kwargs)
            case tuple():
                return Call(self._task, given, {})
            case _:
                return Call(self._task, (), given)

    def _invocation(self, call: Call[T], handle: JobHandle[T]) -> Invocation[T]:
        arguments = self._task.parameters.bind(call.args, call.kwargs)
        if not handle.reused:
            return Invocation(self, handle, arguments)
        reused = ReusedInvocation(self, handle, arguments)
        if self.options.on_diff_non_key_args_raise and reused.diff_arg is not None:
            raise InvocationConcurrencyWithDifferentArgumentsError(
                self.task_id,
                handle.id,
                gate_key(self.task_id, arguments),
                _difference(reused.existing_arguments, arguments),
            )
        return reused


def retrying(function: Callable[..., Any], options: PynencOptions) -> Callable[..., Any]:
    """Return *function* so that it asks for another attempt after the errors in its options."""
    if not options.max_retries:
        return function
    kinds: tuple[type[Exception], ...] = (*options.retry_for, RetryError)

    def again(error: Exception) -> Retry:
        if current_job().failures >= options.max_retries:
            raise error
        return Retry(0, f"{type(error).__name__}: {error}")

    @wraps(function)
    def run(*args: object, **kwargs: object) -> object:
        try:
            return function(*args, **kwargs)
        except kinds as error:
            return again(error)

    @wraps(function)
    async def run_async(*args: object, **kwargs: object) -> object:
        try:
            return await function(*args, **kwargs)
        except kinds as error:
            return again(error)

    return run_async if iscoroutinefunction(function) else run


def _difference(before: Mapping[str, object], after: Mapping[str, object]) -> str:
    changed = [name for name in after if before.get(name) != after[name]]
    return "\n".join(f"  {name}: {before.get(name)!r} -> {after[name]!r}" for name in changed)
