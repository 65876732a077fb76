"""The bodies of answers, as types for the OpenAPI page."""

from typing import Any

from msgspec import Struct


class JobShape(Struct):
    """A job, with whatever other fields it came with."""

    id: str
    type: str
    queue: str
    state: str
    args: list[Any]
    meta: dict[str, Any]
    priority: int
    attempt: int
    max_attempts: int
    created_at: str
    enqueued_at: str


class ErrorShape(Struct):
    """What went wrong, and what to do about it."""

    code: str
    type: str
    message: str
    retryable: bool
    hint: str
    docs_url: str
    request_id: str


class ErrorAnswer(Struct):
    error: ErrorShape


class JobAnswer(Struct):
    job: JobShape


class CancelledJob(Struct):
    job: JobShape


class JobsAnswer(Struct):
    jobs: list[JobShape]


class SettledAnswer(Struct):
    id: str
    job_id: str
    state: str
    job: JobShape


class ConcurrencyShape(Struct):
    limit: int
    active: int
    available: int


class RateShape(Struct):
    limit: int
    period: str
    current_count: int
    window_resets_at: str


class ThrottleShape(Struct):
    limit: int
    period: str
    next_allowed_at: str
    burst: int = 1


class KeyShape(Struct, omit_defaults=True):
    """A key: those of its numbers that are limited, and how many jobs wait for it."""

    key: str
    waiting_count: int
    active: int
    waiting: int
    tenant_id: str | None = None
    concurrency: ConcurrencyShape | None = None
    rate: RateShape | None = None
    throttle: ThrottleShape | None = None
    limit: int | None = None
    period: str | None = None
    override: dict[str, Any] | None = None
    configured: dict[str, Any] | None = None
    rate_limit_until: str | None = None


class PageShape(Struct):
    total: int
    page: int
    per_page: int


class KeysAnswer(Struct):
    items: list[KeyShape]
    pagination: PageShape


class CountsShape(Struct):
    """A queue, and how many of its jobs are in each state."""

    name: str
    status: str
    paused: bool
    available: int
    active: int
    scheduled: int
    retryable: int
    completed: int
    discarded: int
    cancelled: int
    depth: int


class QueueAnswer(Struct):
    queue: CountsShape


class QueuesAnswer(Struct):
    queues: list[CountsShape]
    pagination: PageShape


class PoolShape(Struct):
    name: str
    strategy: str
    queues: dict[str, Any]
    weights: dict[str, int]


class PoolAnswer(Struct):
    pool: PoolShape
