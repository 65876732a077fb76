"""Background jobs, no faster than you allow."""

from penstock.app import App, Call, Client, FloatingLimit, JobHandle, Task
from penstock.errors import (
    AccessError,
    ConflictError,
    DuplicateJobError,
    GateShutError,
    InvalidError,
    InvalidJobError,
    InvalidLimitError,
    InvalidWorkflowError,
    JobCancelledError,
    JobDiscardedError,
    JobDroppedError,
    JobEndedError,
    JobExpiredError,
    JobFailedError,
    LeaseLostError,
    NotFoundError,
    PenstockError,
    QueueFullError,
    ResultTimeoutError,
    SchemaError,
    StoreBrokenError,
    StoreBusyError,
    StoreDamagedError,
    StoreDownError,
    StoreError,
    StoreReplacedError,
    TenantLimitError,
    WrongStateError,
)
from penstock.lifecycle.retry import RetryPolicy
from penstock.lifecycle.states import State
from penstock.lifecycle.unique import Unique
from penstock.limits.spec import Concurrency, Rate, Throttle
from penstock.worker import Cancel, Job, RateLimited, Retry, Worker, current_job

__all__ = [
    "AccessError",
    "App",
    "Call",
    "Cancel",
    "Client",
    "Concurrency",
    "ConflictError",
    "DuplicateJobError",
    "FloatingLimit",
    "GateShutError",
    "InvalidError",
    "InvalidJobError",
    "InvalidLimitError",
    "InvalidWorkflowError",
    "Job",
    "JobCancelledError",
    "JobDiscardedError",
    "JobDroppedError",
    "JobEndedError",
    "JobExpiredError",
    "JobFailedError",
    "JobHandle",
    "LeaseLostError",
    "NotFoundError",
    "PenstockError",
    "QueueFullError",
    "Rate",
    "RateLimited",
    "ResultTimeoutError",
    "Retry",
    "RetryPolicy",
    "SchemaError",
    "State",
    "StoreBrokenError",
    "StoreBusyError",
    "StoreDamagedError",
    "StoreDownError",
    "StoreError",
    "StoreReplacedError",
    "Task",
    "TenantLimitError",
    "Throttle",
    "Unique",
    "Worker",
    "WrongStateError",
    "current_job",
]


def __getattr__(name: str) -> str:
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415 - few ask, and it takes a while

        return version("penstock")
    raise AttributeError(name)
