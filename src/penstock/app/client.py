"""Enqueue jobs without an app: for scripts that know a task by its name only."""

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Self, Unpack

from penstock.app.backend import AnyEngine, named_url, open_backend
from penstock.app.codec import UNWRITABLE, decode, encode
from penstock.app.connection import Connection
from penstock.app.handle import JobHandle
from penstock.app.options import CheckedOptions, JobOptions, change
from penstock.app.task import Task
from penstock.errors import InvalidJobError
from penstock.job import NewJob
from penstock.lifecycle.checks import check_task_name
from penstock.lifecycle.states import State
from penstock.limits.durations import Duration


class Client:
    """A producer: enqueues jobs at a server, waits for their results, cancels them.

    *url* is a server's "http://host:8080" or whatever an `App` takes; left out, it is read from PENSTOCK_URL.
    *token* is sent to the server; left out, it is read from the url, as in "http://:token@host:8080", or from
    PENSTOCK_TOKEN.  Nothing is opened before it is needed.
    """

    def __init__(self, url: str | os.PathLike[str] | None = None, *, token: str | None = None) -> None:
        self._url = None if url is None else os.fspath(url)
        self._token = token
        self._connection = Connection(self._open)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def engine(self) -> AnyEngine:
        """Every other verb, such as `pause` or `why`; opened at first use."""
        return self._connection.engine

    def enqueue(
        self,
        task: str | Task[..., Any, Any],
        /,
        *args: object,
        kwargs: Mapping[str, object] | None = None,
        **options: Unpack[JobOptions],
    ) -> JobHandle[Any]:
        """Enqueue a call of *task* with *args* and, by name, *kwargs*; return when it is durable.

        *options* are those of `Task.with_options`: queue, limits, priority, retry, unique and so on.  Keys may name
        what is in *kwargs*.  Raises an `InvalidError` for what can never run, `DuplicateJobError` if another job
        stands for this one, `StoreDownError` if the server cannot be reached and `AccessError` if it refuses the token.
        """
        engine = self._connection.engine
        job = self._made(task, args, dict(kwargs or {}), options, engine.clock.now())
        (added,) = engine.enqueue([job], connection=options.get("connection"))
        read = decode if isinstance(task, str) else task.parameters.decode_result
        return JobHandle(self._connection, added.id, read, tenant=job.tenant, reused=added.reused)

    def job(self, id: str, *, tenant: str | None = None) -> JobHandle[Any]:  # noqa: A002 - as everywhere else
        """Return the handle of a job; without a *tenant* of no tenant, or else the only one with this id.

        Raises `NotFoundError` if there is none, and `InvalidError` if several tenants have one.
        """
        found = self._connection.engine.job(id, tenant)
        return JobHandle(self._connection, found.id, decode, tenant=found.tenant)

    def result(self, id: str, timeout: Duration | None = None, *, tenant: str | None = None) -> Any:  # noqa: A002 - as above
        """Wait for a job to end and return what its handler returned; as `JobHandle.result` does."""
        return self.job(id, tenant=tenant).result(timeout)

    def cancel(self, id: str, *, tenant: str | None = None) -> State:  # noqa: A002 - as above
        """Cancel a job and return its state: a running job is asked to stop, and runs until it does."""
        return self._connection.engine.cancel(id, tenant=tenant)

    def close(self) -> None:
        """Close the connections; the next use connects again."""
        self._connection.close()

    def _open(self) -> AnyEngine:
        return open_backend(self._url or named_url("Client('http://127.0.0.1:8080')"), token=self._token)

    def _made(
        self,
        task: str | Task[..., Any, Any],
        args: tuple[object, ...],
        kwargs: dict[str, object],
        options: JobOptions,
        now: int,
    ) -> NewJob:
        if not isinstance(task, str):
            return task.with_options(**options).new_job(args, kwargs, now)
        check_task_name(task)
        try:
            text = encode({"args": args, "kwargs": kwargs})
        except UNWRITABLE as error:
            raise InvalidJobError("args", f"cannot be written as JSON: {error}") from error
        checked = change(CheckedOptions(), options, task, _Given(args, kwargs))
        return checked.new_job(task, text, kwargs, now)


@dataclass(frozen=True, slots=True)
class _Given:
    """What a task takes of which no more is known than the *args* and *kwargs* of one call."""

    args: tuple[object, ...]
    kwargs: Mapping[str, object]

    @property
    def names(self) -> Collection[str]:
        return self.kwargs.keys()

    def fitted(self, function: Callable[..., Any]) -> Callable[[Mapping[str, object]], Any]:
        return lambda arguments: function(*self.args, **arguments)
