"""Wait for the end of a job, or of a run of a workflow, and return its value or tell how it ended."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from math import inf
from typing import ClassVar, Final, Generic, TypeVar

from penstock.app.connection import Connection
from penstock.clock import MILLISECOND, SECOND, monotonic, pause
from penstock.errors import (
    JobCancelledError,
    JobDiscardedError,
    JobDroppedError,
    JobEndedError,
    JobExpiredError,
    JobFailedError,
    ResultTimeoutError,
)
from penstock.job import DROPPED_BY_LIMIT, InstanceView, JobView, Topic, Why
from penstock.lifecycle.states import State
from penstock.limits.durations import Duration, parse_duration

T = TypeVar("T")
V = TypeVar("V", JobView, InstanceView)

# A wait without a timeout is made of waits of this many seconds.
_SLICE: Final = 60.0
_LONGEST_REST: Final = 50 * MILLISECOND


class Handle(ABC, Generic[T, V]):
    """What a caller holds of something that ends with a value."""

    __slots__ = ("_connection", "_decode", "id", "reused", "tenant")
    _kind: ClassVar[str]
    _live: ClassVar[frozenset[str]]

    def __init__(
        self,
        connection: Connection,
        id_: str,
        decode: Callable[[str], T],
        *,
        tenant: str = "",
        reused: bool = False,
    ) -> None:
        self._connection = connection
        self._decode = decode
        self.id = id_
        self.tenant = tenant
        self.reused = reused

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}{', reused' if self.reused else ''}>"

    def result(self, timeout: Duration | None = None) -> T:
        """Wait for the end and return what the handler, or the body of the workflow, returned.

        Raises a `JobEndedError` such as `JobFailedError` or `JobDroppedError` when there is no value,
        and `ResultTimeoutError` when *timeout* has passed, which stops nothing.
        """
        engine = self._connection.engine
        patience = _ResultWait(f"{self._kind} {self.id}", timeout)
        revision = engine.revision(Topic.ENDS)
        while (view := self._view()).state in self._live:
            pause(patience.rest())
            revision = engine.wait(revision, patience.left(), Topic.ENDS)
        return self._value(view)

    async def aresult(self, timeout: Duration | None = None) -> T:
        """Wait as `result` does, without holding up the event loop."""
        patience = _ResultWait(f"{self._kind} {self.id}", timeout)
        revision, view = await self._connection.in_thread(self._look)
        while view.state in self._live:
            await asyncio.sleep(patience.rest())
            await self._connection.ends.changed(revision, patience.left())
            revision, view = await self._connection.in_thread(self._look)
        return self._value(view)

    def why(self) -> Why:
        """Return why it waits for its slots: which gates are shut, its place in line, its earliest start."""
        return self._connection.engine.why(self.id, self.tenant)

    @abstractmethod
    def _view(self) -> V:
        """Return how it stands now, as briefly as it can be told."""

    @abstractmethod
    def _ended(self, view: V) -> JobEndedError:
        """Return the error that says how it ended without a value."""

    def _look(self) -> tuple[int, V]:
        # In this order, so that a change after the look is a change of the revision.
        revision = self._connection.ends.look()
        return revision, self._view()

    def _value(self, view: V) -> T:
        if view.state.value == State.DONE.value:
            return self._decode(view.result or "null")
        raise self._ended(view)


def ended(view: JobView | InstanceView, what: str, reason: str) -> JobEndedError:
    """Return the error that says how *what* ended without a value."""
    error, because = view.error or {}, f": {reason}" if reason else ""
    match view.state.value:
        case "failed":
            kind = error.get("kind", "")
            problem = f"{kind}: {error.get('message', '')}" if kind else reason
            return JobFailedError(view.id, f"{what} failed: {problem}", kind, error.get("traceback", ""))
        case "discarded" if reason == DROPPED_BY_LIMIT:
            return JobDroppedError(view.id, f"{what} was dropped: a limit was full")
        case "discarded":
            return JobDiscardedError(view.id, f"{what} was discarded{because}")
        case "cancelled":
            return JobCancelledError(view.id, f"{what} was cancelled{because}")
        case _:
            return JobExpiredError(view.id, f"{what} expired before it could start{because}")


class _ResultWait:
    """How long a caller waits for a job, or a run of a workflow, and how often it looks."""

    def __init__(self, what: str, timeout: Duration | None) -> None:
        self._what = what
        self._span = None if timeout is None else parse_duration(timeout, "timeout", zero=True)
        self._began = monotonic()

    def left(self) -> float:
        """Return how many seconds to wait for the next change.

        Raises `ResultTimeoutError` when the time is up.
        """
        if self._span is None:
            return _SLICE
        left = self._began + self._span - monotonic()
        if left <= 0:
            raise ResultTimeoutError(
                f"{self._what} had not ended after {self._span / SECOND:g} s; it goes on"
            )
        return min(left / SECOND, _SLICE)

    def rest(self) -> float:
        """Return how many seconds not to look, however much changes: a fiftieth of those waited so far.

        In a busy store nearly every change concerns another job.
        """
        left = inf if self._span is None else self._began + self._span - monotonic()
        return max(0.0, min((monotonic() - self._began) / 50, _LONGEST_REST, left)) / SECOND
