"""Jobs: what is asked for, once or by a schedule, what is seen of them, and a filter for many of them."""

from dataclasses import dataclass
from typing import Final

from msgspec import Struct

from penstock.job.attempts import ImportedAttempt
from penstock.lifecycle.overlap import Overlap
from penstock.lifecycle.retry import RetryPolicy
from penstock.lifecycle.states import State
from penstock.lifecycle.unique import Unique
from penstock.limits.rules import Limit

# Why a job was discarded without a start: by a limit with `on_limit="drop"`, or by a queue that was full.
DROPPED_BY_LIMIT: Final = "limit"
DROPPED_FOR_ROOM: Final = "dropped to make room"
# What meta says of a job, or of an instance, whose values are for operators only.
SECRET: Final = "secret"  # noqa: S105 - the name of a field


class NewJob(Struct, frozen=True):
    """A job to enqueue.  *args* and *meta* are JSON text; times are microseconds since the epoch.

    Its own *lease*, if it has one, counts in place of what a claim or a heartbeat names.
    """

    task: str
    args: str = "{}"
    queue: str = "default"
    tenant: str = ""
    id: str | None = None
    priority: int = 0
    limits: tuple[Limit, ...] = ()
    cost: int = 1
    due: int | None = None
    expires: int | None = None
    timeout: int | None = None
    retry: RetryPolicy = RetryPolicy()
    unique: Unique | None = None
    meta: str = "{}"
    lease: int | None = None


class ImportedJob(Struct, frozen=True):
    """A job from elsewhere, with the attempts it made there, and when it was *enqueued*.

    With a *state* it has ended so, *finished* then and for this *reason*; without one it waits, or is scheduled if it
    is due later.
    """

    job: NewJob
    attempts: tuple[ImportedAttempt, ...] = ()
    state: State | None = None
    enqueued: int | None = None
    finished: int | None = None
    reason: str = ""


class Enqueued(Struct, frozen=True):
    """What became of a `NewJob`, added *at* that moment; *reused* means an earlier job stands for it."""

    id: str
    reused: bool = False
    at: int = 0  # unknown where an earlier job stands for it


class Schedule(Struct, frozen=True):
    """A job to enqueue whenever the moment of a cron *expression* comes; *ttl* is how long each is worth starting.

    With the number of a *sequence* the job stands for an instance of it, and its arguments are the context.
    The engine fills in what follows *meta*; *next_at* is None while it is not *enabled*, *fired* counts its jobs.
    """

    name: str
    expression: str
    job: NewJob
    timezone: str = "UTC"
    tenant: str = ""
    overlap: Overlap = Overlap.ALLOW
    enabled: bool = True
    ttl: int | None = None
    meta: str = "{}"
    created: int = 0
    next_at: int | None = None
    last_at: int | None = None
    last_job: str | None = None
    fired: int = 0
    sequence: int | None = None


@dataclass(frozen=True, slots=True)
class JobView:
    """A job as people and programs see it."""

    id: str
    seq: int
    task: str
    queue: str
    tenant: str
    state: State
    priority: int
    cost: int
    attempt: int
    max_attempts: int
    args: str
    meta: str
    limits: tuple[Limit, ...]
    enqueued: int
    due: int | None = None
    started: int | None = None
    finished: int | None = None
    worker: str | None = None
    lease: int | None = None
    result: str | None = None
    error: dict[str, str] | None = None
    reason: str = ""
    progress: str | None = None
    cancel_asked: bool = False
    expires: int | None = None
    cancel_at: int | None = None
    timeout: int | None = None
    retry: RetryPolicy = RetryPolicy()
    own_lease: int | None = None
    fence: int | None = None  # of the attempt that runs
    lost: int = 0  # of its attempts, with their workers
    workflow: str | None = None  # the id of the one it belongs to
    rescheduled: bool = False  # by a limit: it is scheduled but keeps its place, and *due* is only expected
    resource: str | None = None  # the key of the one that the attempt that runs took of a resource group

    @property
    def used(self) -> int:
        """How many of its attempts count, the one that runs included: a lost worker uses up none."""
        return self.attempt - self.lost


@dataclass(frozen=True, slots=True)
class Failure:
    """One attempt that failed or was lost with its worker."""

    attempt: int
    at: int
    kind: str
    message: str
    traceback: str
    details: str = ""
    delay: int | None = None  # until the next attempt, if one followed


class JobFilter(Struct, frozen=True):
    """Which jobs are meant: all that is given must fit.  *states* are names, `retrying` apart from `scheduled`."""

    states: frozenset[str] | None = None
    queues: frozenset[str] | None = None
    task: str | None = None
    task_prefix: str | None = None
    tenant: str | None = None
    since: int | None = None
    until: int | None = None
    ended_before: int | None = None
