"""A workflow: an `async def` whose steps are jobs, and which goes on where it was whatever happens to its worker."""

from collections.abc import Callable, Coroutine, Mapping
from contextvars import copy_context
from copy import copy
from datetime import datetime
from functools import update_wrapper
from inspect import iscoroutinefunction
from typing import Any, Final, Generic, ParamSpec, Self, TypedDict, TypeVar, Unpack

from penstock.app.codec import encode
from penstock.app.connection import Connection
from penstock.app.options import CheckedOptions, change
from penstock.app.parameters import Parameters
from penstock.app.passes import Passing
from penstock.app.run import Run
from penstock.app.uniqueness import UniqueOption
from penstock.errors import InvalidWorkflowError
from penstock.job import Child, NewInstance
from penstock.lifecycle.checks import check_task_name
from penstock.limits.durations import Duration
from penstock.limits.spec import Spec, resolve
from penstock.replay import Step, ask
from penstock.worker.handler import Handler

P = ParamSpec("P")
T = TypeVar("T")


class WorkflowOptions(TypedDict, total=False):
    """What can be said of every run of a workflow.

    Its *limits* are held from its first step to its end, whatever it waits for meanwhile.  Its passes stand in *queue*;
    each step stands in the queue of its task.  What a *secret* run and its steps are given is shown to operators only.
    """

    queue: str
    tenant: str
    priority: int
    limits: Spec | list[Spec] | tuple[Spec, ...]
    delay: Duration | None
    expires: Duration | datetime | None
    unique: UniqueOption
    meta: Mapping[str, Any]
    secret: bool


class RunOptions(WorkflowOptions, total=False):
    """What can be said of one run."""

    id: str | None
    due: datetime | None


OPTIONS: Final = RunOptions.__optional_keys__


class Workflow(Generic[P, T]):
    """A body, known to workers by its *name*.

    Called, it is just the function.  Started, it becomes an instance: its steps are jobs, what they return is
    remembered, and the body is replayed over that whenever a step has ended.
    """

    def __init__(
        self,
        connection: Connection,
        function: Callable[P, Coroutine[Any, Any, T]],
        name: str,
        given: Mapping[str, Any],
    ) -> None:
        check_task_name(name)
        if not iscoroutinefunction(function):
            raise InvalidWorkflowError("function", f"{function!r} must be an `async def`")
        update_wrapper(self, function, updated=())
        self.function = function
        self.name = name
        self.parameters = Parameters(function, name)
        self._connection = connection
        self._options = self._changed(CheckedOptions(), given)

    def __repr__(self) -> str:
        return f"<Workflow {self.name}>"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]:
        return self.function(*args, **kwargs)

    @property
    def queue(self) -> str:
        """The queue its passes go to."""
        return self._options.queue

    def start(self, *args: Any, **kwargs: Any) -> Run[T]:
        """Start the workflow with these arguments, and return when that is durable.

        Options may be among those given by name, as in `start(email, unique="camp-42", delay="1h")`, unless the body
        has a parameter of that name: then `with_options` takes them.
        """
        workflow, given = self._apart(kwargs)
        return workflow._start(args, given)  # noqa: SLF001 - its own

    async def astart(self, *args: Any, **kwargs: Any) -> Run[T]:
        """Start as `start` does, without holding up the event loop."""
        return await self._connection.in_thread(lambda: self.start(*args, **kwargs))

    def step(self, *args: P.args, **kwargs: P.kwargs) -> Step[T]:
        """Start the workflow as a step of another; for the body of a workflow only."""
        return ask(
            f"{self.name}.step()",
            self.name,
            lambda key: Child(key, self.new_instance(args, kwargs, child=True)),
            self.parameters.decode_result,
        )

    def with_options(self, **options: Unpack[RunOptions]) -> Self:
        """Return this workflow with other options, for some of its runs."""
        changed = copy(self)
        changed._options = self._changed(self._options, options)  # noqa: SLF001 - its own
        return changed

    def run(self, id: str, *, tenant: str = "", reused: bool = False) -> Run[T]:  # noqa: A002 - as everywhere else
        """Return the handle of a run of this workflow."""
        return Run(self._connection, id, self.parameters.decode_result, tenant=tenant, reused=reused)

    def handler(self, *, is_async: bool, built_in: bool = False) -> Handler:
        """Return what a worker needs to run the passes of this workflow, in a thread or from its event loop."""
        passing = Passing(self.name, self.function, self.parameters)

        def conduct() -> object:
            return passing.conduct(self._connection.engine)

        async def conduct_in_thread() -> object:
            context = copy_context()
            return await self._connection.in_thread(lambda: context.run(conduct))

        call = conduct_in_thread if is_async else conduct
        return Handler(call, is_async, lambda _: ((), {}), encode, built_in=built_in)

    def new_instance(
        self, args: tuple[object, ...], kwargs: Mapping[str, object], *, child: bool = False
    ) -> NewInstance:
        """Return the instance that a start comes to; that of a *child* is never another's."""
        options, now = self._options, self._connection.engine.clock.now()
        arguments = self.parameters.bind(args, kwargs)
        unique = (
            None
            if child or options.unique is None
            else options.unique.of_call(self.name, arguments, None, None)
        )
        return NewInstance(
            self.name,
            self.parameters.encode(args, kwargs),
            id=options.id,
            queue=options.queue,
            tenant=options.tenant,
            priority=options.priority,
            limits=resolve(options.limits, arguments) if options.limits else (),
            unique=unique,
            due=None if options.due is None else options.due.at(now),
            meta=options.noted,
            expires=None if options.expires is None else options.expires.at(now),
        )

    def _start(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> Run[T]:
        new = self.new_instance(args, kwargs)
        (made,) = self._connection.engine.create_instances([new])
        return self.run(made.id, tenant=new.tenant, reused=made.reused)

    def _apart(self, kwargs: dict[str, Any]) -> tuple[Self, dict[str, Any]]:
        """Return the workflow with the options among *kwargs*, and the arguments among them."""
        names = OPTIONS - self.parameters.names
        options = {name: value for name, value in kwargs.items() if name in names}
        if not options:
            return self, kwargs
        return self.with_options(**options), {name: kwargs[name] for name in kwargs.keys() - options.keys()}

    def _changed(self, options: CheckedOptions, given: Mapping[str, Any]) -> CheckedOptions:
        for name in given:
            if name not in OPTIONS:
                raise TypeError(
                    f"{self.name}: a workflow has no option {name!r}; it has: {', '.join(sorted(OPTIONS))}"
                )
        return change(options, given, self.name, self.parameters)
