"""The bodies of requests, as types: checked on the way in and shown on the OpenAPI page."""

from typing import Annotated, Any, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from penstock.dialects.ojs.format.patterns import (
    Dimension,
    Id,
    Key,
    Moment,
    Queue,
    Span,
    StateName,
    Type,
    TypePattern,
)
from penstock.job import Order

Milliseconds = Annotated[int, Meta(ge=1, le=31_536_000_000)]
Count = Annotated[int, Meta(ge=1, le=1_000)]
Name = Annotated[str, Meta(max_length=256)]
Used = Annotated[
    dict[str, Annotated[int, Meta(ge=0, le=9_007_199_254_740_991)]],
    Meta(max_length=100, description="what the attempt really used of each key, in place of the cost"),
]
Strategy = Literal["strict", "round-robin", "round_robin", "weighted", "least-loaded", "least_loaded"]

ORDERS: Final = {
    "strict": Order.STRICT,
    "round-robin": Order.ROUND_ROBIN,
    "round_robin": Order.ROUND_ROBIN,
    "weighted": Order.WEIGHTED,
    "least-loaded": Order.LEAST_LOADED,
    "least_loaded": Order.LEAST_LOADED,
}
# The states of a worker that wants no more jobs.
RESTING: Final = ("draining", "shutting_down", "quiet", "terminate", "terminating", "stopping")
DRAINING: Final = {"drain": "draining", "shutdown": "shutting_down"}  # other words for some of them


class WindowBody(Struct, forbid_unknown_fields=True):
    """So many starts per period."""

    limit: Annotated[int, Meta(ge=0, le=9_007_199_254_740_991)]
    period: Annotated[Span, Meta(description="an ISO 8601 duration")]


class ThrottleBody(WindowBody, forbid_unknown_fields=True):
    """Starts evenly spaced, so many per period; with a burst a bucket of so many, which fills at that pace."""

    burst: Annotated[int, Meta(ge=1, le=9_007_199_254_740_991)] = 1


class RateLimitBody(Struct, forbid_unknown_fields=True):
    """A limit of a job: so many at once, per window, evenly spaced; per key."""

    key: Annotated[Key, Meta(description="jobs with the same key share the limit")] | None = None
    concurrency: Annotated[int, Meta(ge=0, le=9_007_199_254_740_991)] | None = None
    rate: WindowBody | Annotated[int, Meta(ge=0, le=9_007_199_254_740_991)] | None = None
    throttle: ThrottleBody | None = None
    on_limit: Literal["wait", "reschedule", "drop"] = "wait"
    period: (
        Annotated[str, Meta(description="of a rate given as a number: second, minute, hour or day")] | None
    ) = None
    max_per_second: Annotated[float, Meta(ge=0.00001, le=1_000_000)] | None = None
    scope: Literal["tenant", "global"] = "tenant"
    cost: (
        Annotated[int, Meta(ge=1, le=9_007_199_254_740_991, description="what a start counts for; else 1")]
        | None
    ) = None


class RetryBody(Struct):
    """How often and when a failed job is tried again."""

    max_attempts: int = 3
    initial_interval: Span | None = None
    backoff_coefficient: float = 2.0
    max_interval: Span | None = None
    jitter: bool = True
    non_retryable_errors: list[str] = []
    on_exhaustion: Literal["discard", "dead_letter"] = "discard"
    backoff_strategy: Literal["exponential", "linear", "constant", "none", "polynomial"] | None = None
    initial_interval_ms: int | None = None
    max_interval_ms: int | None = None


class UniqueBody(Struct):
    """What makes two jobs the same, and what becomes of the second."""

    keys: list[Dimension] | None = None
    key: list[Dimension] | Dimension | None = None
    args_keys: list[str] = []
    meta_keys: list[str] = []
    period: Span | None = None
    states: list[StateName] | None = None
    on_conflict: Literal["reject", "ignore", "replace"] = "reject"


class OptionsBody(Struct):
    """How a job is treated."""

    queue: Queue = "default"
    priority: Annotated[int, Meta(ge=-100, le=100)] = 0
    timeout_ms: Milliseconds | None = None
    delay_until: Moment | None = None
    scheduled_at: Moment | None = None
    expires_at: Moment | None = None
    retry: RetryBody | None = None
    unique: UniqueBody | None = None
    tags: list[str] | None = None
    visibility_timeout_ms: Milliseconds | None = None
    metadata: dict[str, Any] | None = None
    rate_limit: RateLimitBody | list[RateLimitBody] | None = None
    pending: bool = False


class JobBody(Struct):
    """A job to enqueue.  Fields that are not known here stay with the job."""

    type: Type
    args: list[Any]
    id: Id | UnsetType = UNSET
    meta: dict[str, Any] | None = None
    options: OptionsBody | None = None
    rate_limit: RateLimitBody | list[RateLimitBody] | None = None


class BatchBody(Struct):
    """Jobs to enqueue together, all or none."""

    jobs: Annotated[list[JobBody], Meta(min_length=1, max_length=1_000)]


class FetchBody(Struct):
    """A worker asks for work."""

    queues: Annotated[list[Queue], Meta(min_length=1, max_length=1_000)]
    count: Count = 1
    worker_id: Name = ""
    visibility_timeout_ms: Milliseconds | None = None
    wait_ms: Annotated[int, Meta(ge=0, le=60_000, description="how long to wait for a job")] = 0
    strategy: Strategy | None = None
    weights: dict[str, Annotated[int, Meta(ge=1, le=1_000_000)]] | None = None
    pool: str | None = None
    types: (
        Annotated[
            list[TypePattern], Meta(max_length=1_000, description="what the worker knows; all unless told")
        ]
        | None
    ) = None


class AckBody(Struct):
    """A job was done."""

    job_id: Id
    result: Any = None
    worker_id: Name = ""
    used: Used | None = None


class ErrorBody(Struct, frozen=True):
    """Why an attempt failed."""

    code: str = "handler_error"
    message: str = ""
    retryable: bool | None = None
    type: str | None = None
    details: Any = None
    rate_limit_until: Moment | None = None
    rate_limit_key: Key | None = None


class NackBody(Struct):
    """A job failed, or is given back."""

    job_id: Id
    error: ErrorBody = ErrorBody()
    requeue: bool = False
    worker_id: Name = ""
    used: Used | None = None


class HeartbeatBody(Struct):
    """A worker is alive, and so are its jobs."""

    worker_id: Name = ""
    active_jobs: list[str] | Annotated[int, Meta(ge=0, le=1_000_000_000)] | None = None
    active_job_ids: list[str] | None = None
    state: Annotated[str, Meta(max_length=64)] | None = None
    visibility_timeout_ms: Milliseconds | None = None
    hostname: Name | None = None
    pid: Annotated[int, Meta(ge=0, le=2**53)] | None = None
    queues: Annotated[list[Name], Meta(max_length=1_000)] | None = None
    concurrency: Annotated[int, Meta(ge=0, le=1_000_000_000)] | None = None
    labels: (
        Annotated[list[Name], Meta(max_length=100)] | Annotated[dict[Name, Name], Meta(max_length=100)] | None
    ) = None
