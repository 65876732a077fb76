"""What a caller holds of a job."""

from typing import TypeVar

from penstock.app.result import Handle, ended
from penstock.errors import JobEndedError
from penstock.job import JobView, PastAttempt
from penstock.lifecycle.states import LIVE, State

T = TypeVar("T")


class JobHandle(Handle[T, JobView]):
    """A job, by its *id* and *tenant*; *reused* tells that an earlier job stands for the one enqueued."""

    __slots__ = ()
    _kind = "job"
    _live = frozenset(LIVE)

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

    def _view(self) -> JobView:
        return self.refresh()

    def _ended(self, view: JobView) -> JobEndedError:
        return job_ended(view)


def job_ended(view: JobView) -> JobEndedError:
    """Return the error that says how a job without a value ended."""
    return ended(view, f"job {view.id} ({view.task})", view.reason)
