"""What a handler can see and say of its own job."""

from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from penstock.engine.workflows import PARENT_RESULTS
from penstock.errors import InvalidError, LeaseLostError
from penstock.lifecycle.checks import MAX_NUMBER, check_whole
from penstock.limits.spec import limits_from_json
from penstock.worker.attempt import Attempt, HandBack
from penstock.worker.handler import plain_result
from penstock.worker.handler_outcomes import Cancel

_EPOCH: Final = datetime.fromtimestamp(0, UTC)


class Job:
    """The job a handler is running."""

    __slots__ = ("_attempt",)

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt

    def __repr__(self) -> str:
        return f"<Job {self.id} {self.task}, attempt {self.attempt}>"

    @property
    def id(self) -> str:
        return self._attempt.claimed.id

    @property
    def task(self) -> str:
        return self._attempt.claimed.task

    @property
    def queue(self) -> str:
        return self._attempt.claimed.queue

    @property
    def tenant(self) -> str:
        return self._attempt.claimed.tenant

    @property
    def resource(self) -> str | None:
        """The key of the resource that this attempt took, if the job names a resource group."""
        return self._attempt.claimed.resource

    @property
    def attempt(self) -> int:
        """Which attempt this is; the first is 1."""
        return self._attempt.claimed.attempt

    @property
    def failures(self) -> int:
        """How many attempts failed before this one; those that were lost with their worker do not count."""
        return self._attempt.claimed.attempt - self._attempt.claimed.lost - 1

    @property
    def meta(self) -> dict[str, Any]:
        """What was noted on the job when it was enqueued."""
        return msgspec.json.decode(self._attempt.claimed.meta, type=dict[str, Any])

    @property
    def parents(self) -> list[Any]:
        """What came before: the results of the earlier steps of its chain, the last one last.

        Raises `LookupError` if they have more than 64 KiB together.
        """
        found: list[Any] | None = self.meta.get(PARENT_RESULTS, [])
        if found is None:
            raise LookupError(
                "the results of the earlier steps are too large; hand on what is needed as arguments"
            )
        return found

    @property
    def enqueued(self) -> datetime:
        """When the job was enqueued."""
        return _moment(self._attempt.claimed.enqueued)

    @property
    def deadline(self) -> datetime | None:
        """When this attempt's time is up, if it has a timeout."""
        attempt = self._attempt
        if attempt.timeout is None:
            return None
        return _moment(attempt.began - attempt.offset + attempt.timeout)

    @property
    def lease_lost(self) -> bool:
        """Whether another worker may hold the job now, so that what this attempt does counts for nothing."""
        return self._attempt.lease_lost

    @property
    def cancel_asked(self) -> bool:
        """Whether the job shall be cancelled."""
        return self._attempt.cancel_asked

    @property
    def stopping(self) -> bool:
        """Whether the worker has been asked to stop and waits for this attempt to end."""
        return self._attempt.shift.stopping

    def progress(self, value: object) -> None:
        """Show how far the job is: *value* is anything JSON can hold.

        Costs little: a value given soon after another replaces it before it is written.
        """
        self._attempt.progress = plain_result(value)
        self._attempt.shift.note_progress(self._attempt)

    def spend(self, key: str, used: int) -> None:
        """Report what this attempt really *used* of a key, in place of what was estimated or reported before.

        Less gives budget back at once; more may fill a window beyond its limit, and nothing else starts until it fits
        again.  An attempt that reports nothing keeps its estimate.  The call does not block: the report is written
        soon, at the latest with the end of the attempt.
        """
        limits = self._attempt.claimed.limits
        keys = [limit.key for limit in limits_from_json(limits)] if limits else []
        if key not in keys:
            carried = ", ".join(map(repr, keys)) or "none"
            raise InvalidError("key", f"{key!r} is no key of this job, whose keys are: {carried}")
        check_whole("used", used, 0, MAX_NUMBER)
        self._attempt.used = {**(self._attempt.used or {}), key: used}
        self._attempt.shift.note_spending(self._attempt)

    def raise_if_stopped(self) -> None:
        """Leave the handler if its lease is lost, its cancelling was asked or its worker must end now."""
        if self._attempt.shift.over:
            raise HandBack
        if self.lease_lost:
            raise LeaseLostError(self.id)
        if self.cancel_asked:
            raise Cancel("cancelled while running")


CURRENT: Final[ContextVar[Attempt]] = ContextVar("penstock-attempt")


def current_job() -> Job:
    """Return the job that the calling handler runs.

    Raises `LookupError` outside a handler.
    """
    try:
        return Job(CURRENT.get())
    except LookupError:
        raise LookupError("current_job() has an answer only inside a handler that a worker runs") from None


def _moment(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)
