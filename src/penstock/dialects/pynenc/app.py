"""The app in pynenc's manner: as penstock's, but calling a task enqueues it."""

import logging
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any, ParamSpec, Protocol, TypedDict, TypeVar, Unpack, overload

from penstock.app import App, Task
from penstock.app.parameters import Parameters
from penstock.app.task import task_name
from penstock.dialects.pynenc.options import ConcurrencyControlType, PynencOptions, translate
from penstock.dialects.pynenc.task import PynencTask, retrying

P = ParamSpec("P")
T = TypeVar("T")


class GivenOptions(TypedDict, total=False):
    """The options of `@app.task`."""

    running_concurrency: ConcurrencyControlType | str
    registration_concurrency: ConcurrencyControlType | str
    key_arguments: tuple[str, ...]
    reroute_on_concurrency_control: bool
    on_diff_non_key_args_raise: bool
    max_retries: int
    retry_for: tuple[type[Exception], ...]
    queue: str
    priority: int
    parallel_batch_size: int
    disable_cache_args: tuple[str, ...]


class TaskDecorator(Protocol):
    """Makes a task of a function."""

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, T]], /) -> PynencTask[P, T]: ...

    @overload
    def __call__(self, function: Callable[P, T], /) -> PynencTask[P, T]: ...


class Pynenc(App):
    """An app made by `PynencBuilder`; `penstock worker tasks:app` works it."""

    def __init__(
        self,
        url: str | None = ":memory:",
        *,
        app_id: str = "pynenc",
        threads: int = 8,
        defaults: Mapping[str, ConcurrencyControlType] | None = None,
    ) -> None:
        super().__init__(url, threads=threads)
        self.app_id = app_id
        self.logger = logging.getLogger(f"pynenc.{app_id}")
        self._defaults = dict(defaults or {})

    @overload  # type: ignore[override]
    def task(
        self, function: Callable[P, Coroutine[Any, Any, T]], /, **options: Unpack[GivenOptions]
    ) -> PynencTask[P, T]: ...

    @overload
    def task(self, function: Callable[P, T], /, **options: Unpack[GivenOptions]) -> PynencTask[P, T]: ...

    @overload
    def task(self, function: None = None, /, **options: Unpack[GivenOptions]) -> TaskDecorator: ...

    def task(self, function: Callable[..., Any] | None = None, /, **options: Unpack[GivenOptions]) -> Any:
        """Make a task of *function*: `@app.task`, or `@app.task(running_concurrency=Mode.KEYS, ...)`."""
        if function is None:
            return partial(self.task, **options)
        name = task_name(function)
        parameters = Parameters(function, name)
        read = PynencOptions.of(name, {**self._defaults, **options}, parameters.names)
        task: Task[..., Any, Any] = Task(
            self.connection, retrying(function, read), name, translate(read, name, parameters)
        )
        return PynencTask(self, self._add(task), function, read)
