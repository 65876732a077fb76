"""What a caller holds of a job."""

import asyncio
from collections.abc import Callable
from math import inf
from typing import Final, Generic, TypeVar

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
from penstock.job import DROPPED_BY_LIMIT, JobView, PastAttempt, Topic, Why
from penstock.lifecycle.states import LIVE, State
from penstock.limits.durations import Duration, parse_duration

T = TypeVar("T")

_SLICE: Final = 60.0
_LONGEST_REST: Final = 50 * MILLISECOND


class JobHandle(Generic[T]):
    """A job, by its *id* and *tenant*; *reused* tells that an earlier job stands for the one enqueued."""

    __slots__ = ("_connection", "_decode", "id", "reused", "tenant")

    def __init__(
        self,
        connection: Connection,
        job: str,
        decode: Callable[[str], T],
        *,
        tenant: str = "",
        reused: bool = False,
    ) -> None:
        self._connection = connection
        self._decode = decode
        self.id = job
        self.tenant = tenant
        self.reused = reused

    def __repr__(self) -> str:
        return f"<JobHandle {self.id}{', reused' if self.reused else ''}>"

    def result(self, timeout: Duration | None = None) -> T:
        """Wait for the job to end and return what its handler returned.

        Raises a `JobEndedError` such as `JobFailedError` or `JobDroppedError` when there is no value,
        and `ResultTimeoutError` when *timeout* has passed, which does not stop the job.
        """
        engine = self._connection.engine
        patience = ResultWait(f"job {self.id}", timeout)
        revision = engine.revision(Topic.ENDS)
        while (view := engine.job(self.id, self.tenant)).state in LIVE:
            pause(patience.rest())
            revision = engine.wait(revision, patience.left(), Topic.ENDS)
        return self._value(view)

    async def aresult(self, timeout: Duration | None = None) -> T:
        """Wait as `result` does, without holding up the event loop."""
        patience = ResultWait(f"job {self.id}", timeout)
        revision, view = await self._connection.in_thread(self._look)
        while view.state in LIVE:
            await asyncio.sleep(patience.rest())
            await self._connection.ends.changed(revision, patience.left())
            revision, view = await self._connection.in_thread(self._look)
        return self._value(view)

    @property
    def state(self) -> State:
        """Where the job stands now."""
        return self.refresh().state

    def refresh(self) -> JobView:
        """Return the job as it stands now."""
        return self._connection.engine.job(self.id, self.tenant)

    def cancel(self) -> State:
        """Cancel the job and return its state: a running job is asked to stop, and runs until it does."""
        return self._connection.engine.cancel(self.id, tenant=self.tenant)

    def retry(self) -> None:
        """Put the ended job back in line, with all its attempts again; those it has made are kept."""
        self._connection.engine.retry(self.id, self.tenant)

    def expedite(self) -> State:
        """Let the scheduled job be due now, also between attempts: it stands in line like any that arrives."""
        return self._connection.engine.expedite(self.id, self.tenant)

    def attempts(self) -> list[PastAttempt]:
        """Return the attempts at the job, the first one first and the one that runs last.

        The oldest of more than a hundred are forgotten: the first `number`, less one, says how many.
        """
        return self._connection.engine.history(self.id, self.tenant)

    def why(self) -> Why:
        """Return why the job waits: which gates are shut, its place in line, its earliest start."""
        return self._connection.engine.why(self.id, self.tenant)

    def _look(self) -> tuple[int, JobView]:
        # In this order, so that a change after the look is a change of the revision.
        revision = self._connection.ends.look()
        return revision, self._connection.engine.job(self.id, self.tenant)

    def _value(self, view: JobView) -> T:
        if view.state is State.DONE:
            return self._decode(view.result or "null")
        raise ended(view)


def ended(view: JobView) -> JobEndedError:
    """Return the error that says how a job without a value ended."""
    error = view.error or {}
    because = f": {view.reason}" if view.reason else ""
    match view.state:
        case State.FAILED:
            kind = error.get("kind", "")
            problem = f"{kind}: {error.get('message', '')}" if kind else view.reason
            said = f"job {view.id} ({view.task}) failed: {problem}"
            return JobFailedError(view.id, said, kind, error.get("traceback", ""))
        case State.DISCARDED if view.reason == DROPPED_BY_LIMIT:
            return JobDroppedError(view.id, f"job {view.id} ({view.task}) was dropped: a limit was full")
        case State.DISCARDED:
            return JobDiscardedError(view.id, f"job {view.id} ({view.task}) was discarded{because}")
        case State.CANCELLED:
            return JobCancelledError(view.id, f"job {view.id} ({view.task}) was cancelled{because}")
        case _:
            return JobExpiredError(
                view.id, f"job {view.id} ({view.task}) expired before it could start{because}"
            )


class ResultWait:
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
