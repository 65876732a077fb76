"""What a caller holds of a run of a workflow."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from penstock.app.codec import UNWRITABLE, encode
from penstock.app.connection import Connection
from penstock.app.handle import JobHandle
from penstock.errors import InvalidWorkflowError
from penstock.job import EntryView, InstanceState, InstanceView, Why
from penstock.limits.durations import Duration

T = TypeVar("T")


class Run(Generic[T]):
    """A run of a workflow, by its *id* and *tenant*; *reused* tells that an earlier one stands for the one started."""

    __slots__ = ("_connection", "_job", "id", "reused", "tenant")

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
        # An instance is a job that the store runs.
        self._job = JobHandle(connection, run, decode, tenant=tenant)
        self.id = run
        self.tenant = tenant
        self.reused = reused

    def __repr__(self) -> str:
        return f"<Run {self.id}{', reused' if self.reused else ''}>"

    @property
    def state(self) -> InstanceState:
        """Where the run stands now."""
        return self.refresh().state

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
        return self._job.result(timeout)

    async def aresult(self, timeout: Duration | None = None) -> T:
        """Wait as `result` does, without holding up the event loop."""
        return await self._job.aresult(timeout)

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
        return self._job.why()

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


def _written(payload: Any) -> str:
    try:
        return encode(payload)
    except UNWRITABLE as error:
        raise InvalidWorkflowError("payload", f"cannot be written as JSON: {error}") from error
