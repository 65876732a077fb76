"""A function whose calls can be enqueued."""

import sys
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from functools import update_wrapper
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any, Generic, ParamSpec, Self, TypeVar, Unpack

from msgspec.structs import replace

from penstock.app.codec import decode, encode
from penstock.app.connection import Connection
from penstock.app.handle import JobHandle
from penstock.app.options import CheckedOptions, JobOptions, change
from penstock.app.parameters import Parameters
from penstock.app.plan import Call, Flow, Partial
from penstock.errors import InvalidJobError
from penstock.job import NewJob, Start
from penstock.lifecycle.checks import check_task_name
from penstock.lifecycle.retry import RetryPolicy
from penstock.replay import Step, ask
from penstock.worker.handler import Handler

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class Task(Generic[P, R, T]):
    """A function, known to workers by its *name*.

    Called, it is just the function.  Enqueued, the call becomes a job that a worker runs.
    """

    def __init__(
        self, connection: Connection, function: Callable[P, R], name: str, given: Mapping[str, Any]
    ) -> None:
        check_task_name(name)
        update_wrapper(self, function, updated=())
        self.function = function
        self.name = name
        self.parameters = Parameters(function, name)
        self._connection = connection
        self._options = change(CheckedOptions(), given, name, self.parameters)
        self._changes: Mapping[str, Any] = {}

    @property
    def queue(self) -> str:
        """The queue its jobs go to."""
        return self._options.queue

    def __repr__(self) -> str:
        return f"<Task {self.name}>"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[T]:
        """Enqueue a call, and return when it is durable."""
        return send(self._connection, [Call(self, args, kwargs)])[0]

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[T]:
        """Enqueue as `enqueue` does, without holding up the event loop."""
        call = Call(self, args, kwargs)
        handles = await self._connection.in_thread(lambda: send(self._connection, [call]))
        return handles[0]

    def enqueue_many(
        self, calls: "Iterable[tuple[Any, ...] | Mapping[str, Any] | Call[T]]", *, connection: object = None
    ) -> list[JobHandle[T]]:
        """Enqueue many calls at once, all of them or none.

        Each is a tuple of arguments, a mapping of named ones, or a `call`.  With a database *connection* of
        yours they exist if and only if its transaction commits.
        """
        return send(self._connection, [self._as_call(each) for each in calls], connection)

    def call(self, *args: P.args, **kwargs: P.kwargs) -> Call[T]:
        """Return a call for `enqueue_many`."""
        return Call(self, args, kwargs)

    def with_options(self, **options: Unpack[JobOptions]) -> Self:
        """Return this task with other options, for some of its jobs."""
        changed = copy(self)
        changed._options = change(self._options, options, self.name, self.parameters)  # noqa: SLF001 - its own
        changed._changes = {**self._changes, **options}  # noqa: SLF001 - its own
        return changed

    def step(self, *args: P.args, **kwargs: P.kwargs) -> Step[T]:
        """Make the call a step of a workflow, to be awaited; for the body of a workflow only.

        It is a job like any other, with the task's limits, queue and retries; it belongs to the tenant of its workflow,
        and stands for no other job, whatever `unique` says.
        """
        return ask(
            f"{self.name}.step()",
            self.name,
            lambda key: Start(key, self._step_job(args, kwargs)),
            self.parameters.decode_result,
        )

    def partial(self, *args: Any, **kwargs: Any) -> Partial[T]:
        """Return a call for `chain` whose first argument is what came before; these are the others."""
        return Partial(self, args, kwargs)

    def map(self, *iterables: Iterable[Any], **kwargs: Any) -> Flow[list[T]]:
        """Return a group: a call for each element of *iterables*, as `map` makes them, with *kwargs* for all of them.

        Without iterables, in a chain, it is a call for each element of the list that came before.
        """
        if not iterables:
            return Flow("over", (Partial(self, (), kwargs),), self)
        calls = tuple(Call(self, args, kwargs) for args in zip(*iterables, strict=True))
        return Flow("group", calls, self)

    def handler(self) -> Handler:
        """Return what a worker needs to run the jobs of this task."""
        convert, is_async = self.parameters.decode, iscoroutinefunction(self.function)
        return Handler(self.function, is_async, convert, encode, self._options.timeout)

    @property
    def connection(self) -> Connection:
        """The connection of its app."""
        return self._connection

    @property
    def changes(self) -> Mapping[str, Any]:
        """The options that were given by `with_options`."""
        return self._changes

    @property
    def retry(self) -> RetryPolicy:
        """The retry policy of its jobs."""
        return self._options.retry

    @property
    def meta(self) -> dict[str, Any]:
        """What is noted on its jobs."""
        return dict(decode(self._options.meta))

    @property
    def is_secret(self) -> bool:
        """Whether what its jobs are given and come to is shown to operators only."""
        return self._options.is_secret

    @property
    def within(self) -> object:
        """The caller's own database connection, in whose transaction its jobs are enqueued."""
        return self._options.connection

    def new_job(self, args: tuple[object, ...], kwargs: Mapping[str, object], now: int) -> NewJob:
        """Return the job that a call at *now* comes to."""
        arguments = self.parameters.bind(args, kwargs)
        text = self.parameters.encode(args, kwargs)
        return self._options.new_job(self.name, text, arguments, now)

    def _step_job(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> NewJob:
        for name, value in (("id", self._options.id), ("connection", self._options.connection)):
            if value is not None:
                raise InvalidJobError(name, "a step has none of its own")
        return replace(self.new_job(args, kwargs, self._connection.engine.clock.now()), unique=None)

    def _as_call(self, given: object) -> Call[T]:
        match given:
            case Call():
                return given
            case tuple():
                return Call(self, given, {})
            case Mapping():
                return Call(self, (), given)
            case _:
                problem = "is neither a tuple of arguments, nor a mapping of named ones, nor a call"
                raise TypeError(f"{self.name}: {given!r} {problem}")


def send(connection: Connection, calls: Iterable[Call[T]], within: object = None) -> list[JobHandle[T]]:
    """Enqueue *calls*, all of them or none; *within* the transaction of a connection, if one is given."""
    engine = connection.engine
    now = engine.clock.now()
    sent = list(calls)
    jobs = [call.task.new_job(call.args, call.kwargs, now) for call in sent]
    asked = [each for each in (within, *(call.task.within for call in sent)) if each is not None]
    if any(each is not asked[0] for each in asked):
        raise TypeError("calls that are enqueued together must name the same connection")
    made = engine.enqueue(jobs, connection=asked[0] if asked else None) if jobs else ()
    return [
        JobHandle(
            connection, each.id, call.task.parameters.decode_result, tenant=job.tenant, reused=each.reused
        )
        for call, job, each in zip(sent, jobs, made, strict=True)
    ]


def task_name(function: Callable[..., object]) -> str:
    """Return "module.function", the same whether its module is imported or run."""
    if not callable(function):
        raise TypeError(f"{function!r} is not a function; options are named, as in @app.task(name='sync')")
    name, module = getattr(function, "__qualname__", None), getattr(function, "__module__", None)
    if name is None or module is None:
        problem = "has no name of its own, or no module; give it one: app.task(function, name='sync')"
        raise InvalidJobError("name", f"{function!r} {problem}")
    return f"{_main() if module == '__main__' else module}.{name}"


def _main() -> str:
    """Return the name by which a worker would import the module that is being run."""
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return str(spec.name)
    file = getattr(main, "__file__", None)
    return Path(file).stem if file else "__main__"
