"""What the server answers, as types for the OpenAPI page."""

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
