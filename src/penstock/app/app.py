"""The app: where tasks are declared, jobs enqueued and workers run."""

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, ParamSpec, Protocol, Self, TypedDict, TypeVar, Unpack, overload

from penstock.app.backend import AnyEngine, named_url, open_backend
from penstock.app.codec import decode
from penstock.app.connection import Connection
from penstock.app.floating import Compute, refresher
from penstock.app.flows import built_in
from penstock.app.handle import JobHandle
from penstock.app.options import TaskOptions
from penstock.app.plan import Call
from penstock.app.run import Run
from penstock.app.task import Task, send, task_name
from penstock.app.workflow import Workflow, WorkflowOptions
from penstock.errors import InvalidJobError, InvalidLimitError
from penstock.limits.durations import Duration, parse_duration
from penstock.worker import Handler, Worker
from penstock.worker.floating import Refresher
from penstock.worker.queues import Queues

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

ComputeT = TypeVar("ComputeT", bound=Compute)


class WorkerOptions(TypedDict, total=False):
    """How a worker works: on which queues, how many jobs at once, and when it gives up on them."""

    queues: Queues
    strict: bool
    tenant: str | None
    concurrency: int
    threads: int
    lease: Duration
    drain_timeout: Duration | None
    keep: Duration | None
    log_arguments: bool
    name: str | None


class TaskDecorator(Protocol):
    """Makes a task of a function."""

    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, T]], /
    ) -> Task[P, Coroutine[Any, Any, T], T]: ...

    @overload
    def __call__(self, function: Callable[P, T], /) -> Task[P, T, T]: ...


class WorkflowDecorator(Protocol):
    """Makes a workflow of an async function."""

    def __call__(self, function: Callable[P, Coroutine[Any, Any, T]], /) -> Workflow[P, T]: ...


class App:
    """Tasks, and the store their jobs live in.

    *url* is a path, "sqlite:///path", ":memory:", "postgresql://host/database", or a server's
    "http://host:8080", to which PENSTOCK_TOKEN is sent; left out, it is read from PENSTOCK_URL.
    Nothing is opened before it is needed.
    """

    def __init__(
        self,
        url: str | os.PathLike[str] | None = None,
        *,
        engine: AnyEngine | None = None,
        lease: Duration = 15,
        threads: int = 8,
    ) -> None:
        if url is not None and engine is not None:
            raise TypeError("App takes a url or an engine, not both")
        self._url = None if url is None else os.fspath(url)
        self._lease = lease
        self._threads = threads
        self._tasks: dict[str, Task[..., Any, Any]] = {}
        self._refreshers: dict[str, Refresher] = {}
        self.connection = Connection((lambda: engine) if engine else self._open, owned=engine is None)
        self._workflows = {each.name: each for each in built_in(self.connection, lambda: self._tasks)}
        self._own = frozenset(self._workflows)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def engine(self) -> AnyEngine:
        """The engine, opened at first use."""
        return self.connection.engine

    @property
    def lease(self) -> Duration:
        """How long a worker, or a process that borrowed slots, may be silent before it counts as lost."""
        return self._lease

    @property
    def handlers(self) -> dict[str, Handler]:
        """What a worker needs to run this app's jobs, by task, and the passes of its workflows."""
        found = {name: task.handler() for name, task in self._tasks.items()}
        # Where all tasks are async, a pass that took a thread would keep them to the number of threads.
        is_async = all(handler.is_async for handler in found.values())
        return found | {
            name: workflow.handler(is_async=is_async, built_in=name in self._own)
            for name, workflow in self._workflows.items()
        }

    @property
    def refreshers(self) -> dict[str, Refresher]:
        """What a worker needs to compute this app's floating limits, by name."""
        return dict(self._refreshers)

    @property
    def queues(self) -> tuple[str, ...]:
        """The queues that this app's tasks and workflows name."""
        named = {task.queue for task in self._tasks.values()}
        named |= {each.queue for name, each in self._workflows.items() if name not in self._own}
        return tuple(sorted(named)) or ("default",)

    @overload
    def task(
        self,
        function: Callable[P, Coroutine[Any, Any, T]],
        /,
        *,
        name: str | None = None,
        **options: Unpack[TaskOptions],
    ) -> Task[P, Coroutine[Any, Any, T], T]: ...

    @overload
    def task(
        self, function: Callable[P, T], /, *, name: str | None = None, **options: Unpack[TaskOptions]
    ) -> Task[P, T, T]: ...

    @overload
    def task(
        self, function: None = None, /, *, name: str | None = None, **options: Unpack[TaskOptions]
    ) -> TaskDecorator: ...

    def task(
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        name: str | None = None,
        **options: Unpack[TaskOptions],
    ) -> Any:
        """Make a task of *function*: `@app.task`, or `@app.task(queue="mail", limits=[...])`.

        It is called "module.function" unless *name* says otherwise.
        """
        if function is None:
            return partial(self.task, name=name, **options)
        return self._add(Task(self.connection, function, name or task_name(function), options))

    @overload
    def workflow(
        self,
        function: Callable[P, Coroutine[Any, Any, T]],
        /,
        *,
        name: str | None = None,
        **options: Unpack[WorkflowOptions],
    ) -> Workflow[P, T]: ...

    @overload
    def workflow(
        self, function: None = None, /, *, name: str | None = None, **options: Unpack[WorkflowOptions]
    ) -> WorkflowDecorator: ...

    def workflow(
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        name: str | None = None,
        **options: Unpack[WorkflowOptions],
    ) -> Any:
        """Make a workflow of an `async def`: `@app.workflow`, or `@app.workflow(limits=[...])`.

        It is called "module.function" unless *name* says otherwise.  Its *limits* are held from its first step to its
        end.
        """
        if function is None:
            return partial(self.workflow, name=name, **options)
        made = Workflow(self.connection, function, name or task_name(function), options)
        self._check_name(made.name)
        self._workflows[made.name] = made
        return made

    def floating(self, name: str, *, timeout: Duration = "30s") -> Callable[[ComputeT], ComputeT]:
        """Register a function that computes floating limits from what a `FloatingLimit` tells.

        If it takes longer than *timeout* it has failed.
        """
        patience = parse_duration(timeout, "timeout")

        def decorate(compute: ComputeT) -> ComputeT:
            if name in self._refreshers:
                raise InvalidLimitError("handler", f"there are two called {name!r}")
            self._refreshers[name] = refresher(name, compute, patience)
            return compute

        return decorate

    def enqueue_many(self, calls: Iterable[Call[Any]], *, connection: object = None) -> list[JobHandle[Any]]:
        """Enqueue calls of any tasks, made by `task.call(...)`, all of them or none.

        With a database *connection* of yours they exist if and only if its transaction commits.
        """
        return send(self.connection, calls, connection)

    def job(self, id: str, *, tenant: str | None = None) -> JobHandle[Any]:  # noqa: A002 - as everywhere else
        """Return the handle of a job; without a *tenant* of no tenant, or else the only one with this id.

        Raises `NotFoundError` if there is none, and `InvalidError` if several tenants have one.
        """
        found = self.engine.job(id, tenant)
        task = self._tasks.get(found.task)
        read = task.parameters.decode_result if task else decode
        return JobHandle(self.connection, found.id, read, tenant=found.tenant)

    def run(self, id: str, *, tenant: str = "") -> Run[Any]:  # noqa: A002 - as everywhere else
        """Return the handle of a run of a workflow.

        Raises `NotFoundError` if there is none.
        """
        found = self.engine.instance(id, tenant)
        workflow = self._workflows.get(found.workflow)
        read = workflow.parameters.decode_result if workflow else decode
        return Run(self.connection, found.id, read, tenant=found.tenant)

    def worker(self, **options: Unpack[WorkerOptions]) -> Worker:
        """Return a worker for this app's tasks, from the queues they name unless told otherwise."""
        chosen: WorkerOptions = {"queues": self.queues, "threads": self._threads, "lease": self._lease}
        chosen.update(options)
        return Worker(self.engine, self.handlers, refreshers=self.refreshers, **chosen)

    def work(self, *, until_idle: bool = False, **options: Unpack[WorkerOptions]) -> None:
        """Run jobs in this process until a signal asks to stop, or *until_idle*."""
        self.worker(**options).run(until_idle=until_idle, signals=True)

    async def awork(self, *, until_idle: bool = False, **options: Unpack[WorkerOptions]) -> None:
        """Run jobs until cancelled, or *until_idle*; handlers run beside this event loop, not on it."""
        worker = self.worker(**options)
        thread = ThreadPoolExecutor(1, thread_name_prefix="penstock-worker")
        ended = asyncio.get_running_loop().run_in_executor(thread, partial(worker.run, until_idle=until_idle))
        try:
            await asyncio.shield(ended)
        except asyncio.CancelledError:
            worker.stop()
            await ended
            raise
        finally:
            thread.shutdown(wait=False)

    def close(self) -> None:
        """Close the store; the next use opens it again."""
        self.connection.close()

    def _add(self, task: Task[P, R, T]) -> Task[P, R, T]:
        self._check_name(task.name)
        self._tasks[task.name] = task
        return task

    def _check_name(self, name: str) -> None:
        if name in self._tasks or name in self._workflows:
            raise InvalidJobError("name", f"there are two tasks called {name!r}; give one another name")

    def _open(self) -> AnyEngine:
        return open_backend(self._url or named_url("App('jobs.db')"))
