"""What a caller holds of a run of a workflow."""

from typing import Any, TypeVar

from penstock.app.codec import UNWRITABLE, encode
from penstock.app.result import Handle, ended
from penstock.errors import InvalidWorkflowError, JobEndedError
from penstock.job import EntryView, InstanceState, InstanceView

T = TypeVar("T")


class Run(Handle[T, InstanceView]):
    """A run of a workflow, by its *id* and *tenant*; *reused* tells that an earlier one stands for the one started."""

    __slots__ = ()
    _kind = "run"
    _live = frozenset(
        {InstanceState.SCHEDULED, InstanceState.DEFERRED, InstanceState.RUNNING, InstanceState.PAUSED}
    )

    @property
    def state(self) -> InstanceState:
        """Where the run stands now."""
        return self._view().state

    def refresh(self) -> InstanceView:
        """Return the run as it stands now, with its steps."""
        return self._connection.engine.instance(self.id, self.tenant)

    def steps(self) -> tuple[EntryView, ...]:
        """Return what the run remembers of its steps, in the order in which they began."""
        return self.refresh().steps

    def signal(self, name: str, payload: object = None) -> str:
        """Send a signal, which the body awaits with `signal(name)`, and return its id.

        One that comes before the body waits for it is kept.
        """
        return self._connection.engine.signal(self.id, name, _written(payload), self.tenant)

    async def asignal(self, name: str, payload: object = None) -> str:
        """Send as `signal` does, without holding up the event loop."""
        return await self._connection.in_thread(lambda: self.signal(name, payload))

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

    def _view(self) -> InstanceView:
        return self._connection.engine.instance(self.id, self.tenant, steps=False)

    def _ended(self, view: InstanceView) -> JobEndedError:
        reason = view.reason
        if view.state is InstanceState.CANCELLED:
            reason = reason or (view.error or {}).get("message", "")
        return ended(view, f"run {view.id} ({view.workflow})", reason)


def _written(payload: Any) -> str:
    try:
        return encode(payload)
    except UNWRITABLE as error:
        raise InvalidWorkflowError("payload", f"cannot be written as JSON: {error}") from error
