"""What a caller holds of a run of a workflow."""

import asyncio
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from penstock.app.codec import UNWRITABLE, encode
from penstock.app.connection import Connection
from penstock.app.handle import ResultWait
from penstock.clock import pause
from penstock.errors import (
    InvalidWorkflowError,
    JobCancelledError,
    JobDiscardedError,
    JobDroppedError,
    JobEndedError,
    JobExpiredError,
    JobFailedError,
)
from penstock.job import DROPPED_BY_LIMIT, EntryView, InstanceState, InstanceView, Topic, Why
from penstock.limits.durations import Duration

T = TypeVar("T")

_LIVE: Final = frozenset(
    {InstanceState.SCHEDULED, InstanceState.DEFERRED, InstanceState.RUNNING, InstanceState.PAUSED}
)


class Run(Generic[T]):
    """A run of a workflow, by its *id* and *tenant*; *reused* tells that an earlier one stands for the one started."""

    __slots__ = ("_connection", "_decode", "id", "reused", "tenant")

    def __init__(
        self,
        connection: Connection,
        run: str,
        decode: Callable[[str], T],
        *,
        tenant: str = "",
        reused: bool = False,
    ) -> None:
        self._connection = connection
        self._decode = decode
        self.id = run
        self.tenant = tenant
        self.reused = reused

    def __repr__(self) -> str:
        return f"<Run {self.id}{', reused' if self.reused else ''}>"

    @property
    def state(self) -> InstanceState:
        """Where the run stands now."""
        return self._brief().state

    def refresh(self) -> InstanceView:
        """Return the run as it stands now, with its steps."""
        return self._connection.engine.instance(self.id, self.tenant)

    def steps(self) -> tuple[EntryView, ...]:
        """Return what the run remembers of its steps, in the order in which they began."""
        return self.refresh().steps

    def result(self, timeout: Duration | None = None) -> T:
        """Wait for the run to end and return what the body returned.

        Raises a `JobEndedError` such as `JobFailedError` or `JobCancelledError` when there is no value, and
        `ResultTimeoutError` when *timeout* has passed, which does not stop the run.
        """
        engine = self._connection.engine
        patience = ResultWait(f"run {self.id}", timeout)
        revision = engine.revision(Topic.ENDS)
        while (view := self._brief()).state in _LIVE:
            pause(patience.rest())
            revision = engine.wait(revision, patience.left(), Topic.ENDS)
        return self._value(view)

    async def aresult(self, timeout: Duration | None = None) -> T:
        """Wait as `result` does, without holding up the event loop."""
        patience = ResultWait(f"run {self.id}", timeout)
        revision, view = await self._connection.in_thread(self._look)
        while view.state in _LIVE:
            await asyncio.sleep(patience.rest())
            await self._connection.ends.changed(revision, patience.left())
            revision, view = await self._connection.in_thread(self._look)
        return self._value(view)

    def signal(self, name: str, payload: object = None) -> str:
        """Send a signal, which the body awaits with `signal(name)`, and return its id.

        One that comes before the body waits for it is kept.
        """
        return self._connection.engine.signal(self.id, name, _written(payload), self.tenant)

    async def asignal(self, name: str, payload: object = None) -> str:
        """Send as `signal` does, without holding up the event loop."""
        return await self._connection.in_thread(lambda: self.signal(name, payload))

    def why(self) -> Why:
        """Return why the run waits for its slots: which gates are shut, its place in line, its earliest start."""
        return self._connection.engine.why(self.id, self.tenant)

    def cancel(self, reason: str = "cancelled on request") -> InstanceState:
        """Cancel the run and return its state: it ends after its steps, which are cancelled or asked to stop."""
        return self._connection.engine.cancel_instance(self.id, reason, self.tenant).state

    def pause(self) -> None:
        """Let no further step begin; those that run go on, and the slots of the run are kept."""
        self._connection.engine.pause_instance(self.id, self.tenant)

    def resume(self) -> None:
        """Let the run go on after a pause."""
        self._connection.engine.resume_instance(self.id, self.tenant)

    def retry(self) -> None:
        """Let a run that failed or was cancelled go on from there; what is done stays done."""
        self._connection.engine.retry_instance(self.id, self.tenant)

    def _brief(self) -> InstanceView:
        return self._connection.engine.instance(self.id, self.tenant, steps=False)

    def _look(self) -> tuple[int, InstanceView]:
        # In this order, so that a change after the look is a change of the revision.
        revision = self._connection.ends.look()
        return revision, self._brief()

    def _value(self, view: InstanceView) -> T:
        if view.state is InstanceState.DONE:
            return self._decode(view.result or "null")
        raise _ended(view)


def _ended(view: InstanceView) -> JobEndedError:
    """Return the error that says how a run without a value ended."""
    what = f"run {view.id} ({view.workflow})"
    error, because = view.error or {}, f": {view.reason}" if view.reason else ""
    match view.state:
        case InstanceState.FAILED:
            kind = error.get("kind", "")
            problem = f"{kind}: {error.get('message', '')}" if kind else view.reason
            return JobFailedError(view.id, f"{what} failed: {problem}", kind, error.get("traceback", ""))
        case InstanceState.DISCARDED if view.reason == DROPPED_BY_LIMIT:
            return JobDroppedError(view.id, f"{what} was dropped: a limit was full")
        case InstanceState.DISCARDED:
            return JobDiscardedError(view.id, f"{what} was discarded{because}")
        case InstanceState.CANCELLED:
            reason = because or (f": {error['message']}" if error.get("message") else "")
            return JobCancelledError(view.id, f"{what} was cancelled{reason}")
        case _:
            return JobExpiredError(view.id, f"{what} expired before it could start{because}")


def _written(payload: Any) -> str:
    try:
        return encode(payload)
    except UNWRITABLE as error:
        raise InvalidWorkflowError("payload", f"cannot be written as JSON: {error}") from error
