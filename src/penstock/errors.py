"""What can go wrong, drawn as a tree.

PenstockError
├── InvalidError          the request can never succeed as written
│   ├── InvalidJobError
│   ├── InvalidLimitError
│   └── InvalidWorkflowError
├── NotFoundError         no such job, queue or gate
├── ConflictError         a good request at a bad moment
│   ├── DuplicateJobError     .existing
│   ├── WrongStateError       .state, .wanted
│   ├── QueueFullError        .tenant, .queue, .depth, .bound
│   ├── TenantLimitError      .tenant, .limit, .current, .maximum, .retry_after
│   ├── GateShutError         .job, .gates, .opens_at
│   └── LeaseLostError        another worker may hold the job now
├── JobEndedError         what JobHandle.result() raises when there is no value
│   ├── JobFailedError        the handler failed for good           .traceback_text
│   ├── JobDroppedError       a limit that says `drop` refused the job (also a KeyError)
│   ├── JobDiscardedError     its attempts were used up and its policy was to discard
│   ├── JobCancelledError
│   └── JobExpiredError
├── StepFailedError       what the body of a workflow sees of a step without a value    .step, .kind, .job
│   ├── StepCancelledError
│   └── SignalTimeoutError    no signal came in time (also a TimeoutError)
├── DivergedError         the body of a workflow no longer fits what is remembered      .remembered, .asked
├── ResultTimeoutError    the job was not finished in time (also a TimeoutError)
└── StoreError            the database failed; trying again may help
    ├── StoreBusyError        locked for too long
    ├── TooLongError          a look at much of it was given up
    ├── StoreDownError        cannot open or reach it
    ├── AccessError           the server refuses the token, or this request
    ├── SchemaError           made by another version of penstock
    └── StoreBrokenError      trying again does not help: stop, and put the file right
        ├── StoreReplacedError    it was removed or replaced while it was open    .file
        └── StoreDamagedError     it cannot be read as it was written             .found
"""

from collections.abc import Sequence
from typing import ClassVar


class PenstockError(Exception):
    """Anything penstock raises on purpose."""

    code: ClassVar[str] = "error"


class InvalidError(PenstockError):
    """The request can never succeed as written."""

    code = "invalid"

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem


class InvalidJobError(InvalidError):
    """A job that can never be enqueued as written."""

    code = "invalid_job"


class InvalidLimitError(InvalidError):
    """A limit that can never be kept as written."""

    code = "invalid_limit"


class InvalidWorkflowError(InvalidError):
    """A workflow that can never run as written."""

    code = "invalid_workflow"


class NotFoundError(PenstockError):
    """There is no such thing."""

    code = "not_found"

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"no {kind} {name!r}")
        self.kind = kind
        self.name = name


class ConflictError(PenstockError):
    """A good request at a bad moment."""

    code = "conflict"


class DuplicateJobError(ConflictError):
    """Another job holds the unique key, or the id is taken."""

    code = "duplicate"

    def __init__(self, existing: str, kind: str = "job") -> None:
        super().__init__(f"{kind} {existing} already stands for this request")
        self.existing = existing


class QueueFullError(ConflictError):
    """The queue has as many jobs as it may have."""

    code = "queue_full"

    def __init__(self, queue: str, depth: int, bound: int, tenant: str = "") -> None:
        super().__init__(f"queue {queue} is full: {depth} jobs wait in it, and {bound} may")
        self.tenant = tenant
        self.queue = queue
        self.depth = depth
        self.bound = bound


class TenantLimitError(ConflictError):
    """The tenant has as many jobs as it may have: that wait, are scheduled, or were added in its window.

    *retry_after* is in microseconds, where the clock alone makes room.
    """

    code = "tenant_limit"

    def __init__(
        self, tenant: str, limit: str, current: int, maximum: int, retry_after: int | None = None
    ) -> None:
        what = {"waiting": "wait", "scheduled": "are scheduled", "rate": "were added in its window"}[limit]
        super().__init__(f"tenant {tenant} may have no more: {current} of its jobs {what}, and {maximum} may")
        self.tenant = tenant
        self.limit = limit
        self.current = current
        self.maximum = maximum
        self.retry_after = retry_after


class WrongStateError(ConflictError):
    """The job is not in a state that allows this."""

    code = "wrong_state"

    def __init__(self, job: str, state: str, wanted: str, kind: str = "job") -> None:
        super().__init__(f"{kind} {job} is {state}; this needs {wanted}")
        self.job = job
        self.state = state
        self.wanted = wanted


class GateShutError(ConflictError):
    """The job that was to start may not: so says each of *gates*, until *opens_at* if the clock alone decides that."""

    code = "gate_shut"

    def __init__(self, job: str, gates: Sequence[str], opens_at: int | None, why: str = "") -> None:
        super().__init__(f"job {job} may not start now: {why or ', '.join(gates)}")
        self.job = job
        self.gates = tuple(gates)
        self.opens_at = opens_at


class LeaseLostError(ConflictError):
    """The lease ran out or was taken back, so another worker may hold the job now."""

    code = "lease_lost"

    def __init__(self, job: str) -> None:
        super().__init__(f"the lease of job {job} is lost; what this attempt does now counts for nothing")
        self.job = job


class JobEndedError(PenstockError):
    """The job ended without a value."""

    code = "ended"

    def __init__(self, job: str, message: str) -> None:
        super().__init__(message)
        self.job = job

    def __str__(self) -> str:
        # KeyError would show the repr of its argument.
        return str(self.args[0])


class JobFailedError(JobEndedError):
    """The handler failed for good."""

    code = "failed"

    def __init__(self, job: str, message: str, kind: str = "", traceback_text: str = "") -> None:
        super().__init__(job, message)
        self.kind = kind
        self.traceback_text = traceback_text

    def __str__(self) -> str:
        return f"{self.args[0]}\n\n{self.traceback_text}" if self.traceback_text else str(self.args[0])


class JobDroppedError(JobEndedError, KeyError):
    """A limit was full and the job asked to be dropped rather than wait."""

    code = "dropped"


class JobDiscardedError(JobEndedError):
    """Its attempts were used up and its policy was to discard."""

    code = "discarded"


class JobCancelledError(JobEndedError):
    """The job was cancelled."""

    code = "cancelled"


class JobExpiredError(JobEndedError):
    """The job was not started before its time to live ran out."""

    code = "expired"


class StepFailedError(PenstockError):
    """A step of a workflow ended without a value.

    *kind* is the name of the error's class, *job* the id of the step's job, if it is known.
    """

    code = "step_failed"

    def __init__(self, step: str, message: str, kind: str = "", job: str | None = None) -> None:
        super().__init__(f"step {step} {message}")
        self.step = step
        self.kind = kind
        self.job = job


class StepCancelledError(StepFailedError):
    """A step of a workflow was cancelled."""

    code = "step_cancelled"

    def __init__(self, step: str, job: str | None = None) -> None:
        super().__init__(step, "was cancelled", "Cancelled", job)


class SignalTimeoutError(StepFailedError, TimeoutError):
    """No signal came before the time for it was up."""

    code = "signal_timeout"

    def __init__(self, step: str) -> None:
        super().__init__(step, "gave up: no signal came in time", "SignalTimeout")


class DivergedError(PenstockError):
    """The body of a workflow no longer fits what its instance remembers."""

    code = "diverged"

    def __init__(self, remembered: str, asked: str | None = None) -> None:
        instead = f"asks for {asked} instead" if asked else "ends or waits without it"
        super().__init__(
            f"the instance remembers step {remembered}, but the body {instead}; deploy a body that begins with the "
            "same steps, or cancel the instance"
        )
        self.remembered = remembered
        self.asked = asked


class ResultTimeoutError(PenstockError, TimeoutError):
    """The job had not finished when the caller's patience ended; it goes on."""

    code = "timeout"


class StoreError(PenstockError):
    """The database failed; trying again may help."""

    code = "store"


class StoreBusyError(StoreError):
    """The database was locked for too long."""

    code = "store_busy"


class TooLongError(StoreError):
    """A look at much of the database took longer than it was given."""

    code = "too_long"


class StoreDownError(StoreError):
    """The database cannot be opened or reached."""

    code = "store_down"


class AccessError(StoreError):
    """The server wants another token, or one that allows more."""

    code = "access"


class SchemaError(StoreError):
    """The database was made by another version of penstock."""

    code = "schema"


class StoreBrokenError(StoreError):
    """The database is not what it was: all work on it must stop until its file was put right."""

    code = "store_broken"


class StoreReplacedError(StoreBrokenError):
    """A file of the database was removed or replaced while it was open."""

    code = "store_replaced"

    def __init__(self, file: str, happened: str) -> None:
        super().__init__(
            f"{file} was {happened} while it was in use, and what is written to it now would be lost; "
            "stop every process that uses it, put the right file back, then start them again"
        )
        self.file = file


class StoreDamagedError(StoreBrokenError):
    """The database cannot be read as it was written."""

    code = "store_damaged"

    def __init__(self, store: str, found: Sequence[str]) -> None:
        more = f", and {len(found) - 1} more" if len(found) > 1 else ""
        super().__init__(
            f"{store} is damaged ({found[0]}{more}); stop every process that uses it, then put a copy back, "
            f"or rescue what can be read with `sqlite3 {store} .recover`"
        )
        self.found = tuple(found)
