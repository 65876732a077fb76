"""The nouns that the engine and its callers share.  Plain data: no behaviour, no store.

Those made once for every job are structs, which take a fraction of a dataclass's time to make.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from typing import Final

from msgspec import Struct

from penstock.clock import MILLISECOND, SECOND
from penstock.lifecycle.outcomes import Outcome
from penstock.lifecycle.overlap import Overlap
from penstock.lifecycle.retry import RetryPolicy
from penstock.lifecycle.states import State
from penstock.lifecycle.unique import Unique
from penstock.limits.rules import Limit, Numbers, Window
from penstock.workflows.steps import Step, StepState, When, WorkflowState

LEASE: Final = 15 * SECOND
# Where starts are remembered a claim lets the handler begin within this time, and remembers its last
# moment until the worker tells the true one.  So the memory is never earlier than the handler.
# A worker that finds itself slower than that asks for more.
START_GRACE: Final = 50 * MILLISECOND
# Why a job was discarded without a start: by a limit with `on_limit="drop"`, or by a queue that was full.
DROPPED_BY_LIMIT: Final = "limit"
DROPPED_FOR_ROOM: Final = "dropped to make room"


class Topic(Enum):
    """What a transaction may bring about that threads and processes wait for."""

    WORK = auto()  # a job may start that could not before, or an attempt should stop
    ENDS = auto()  # a job ended
    ROOM = auto()  # there may be room again in a queue that was full
    SLOTS = auto()  # a process was lent slots that it waited for


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


class Enqueued(Struct, frozen=True):
    """What became of a `NewJob`, added *at* that moment; *reused* means an earlier job stands for it."""

    id: str
    reused: bool = False
    at: int = 0  # unknown where an earlier job stands for it


class Claimed(Struct, frozen=True, gc=False):
    """An attempt handed to a worker, to be settled with its *fence* before *lease* runs out.

    The handler must begin before *begin_by* (0: any time) or be handed back unbegun.
    """

    seq: int
    id: str
    task: str
    args: str
    queue: str
    attempt: int
    fence: int
    lease: int
    begin_by: int
    timeout: int | None
    meta: str
    tenant: str
    enqueued: int
    lost: int = 0
    started: int = 0
    limits: str = ""  # as JSON text
    expires: int | None = None
    workflow: str | None = None  # the id of the one it belongs to


@dataclass(frozen=True, slots=True)
class Claim:
    """The answer to a claim: *more* asks to claim again at once; *next_at* is when to look again at the latest."""

    jobs: list[Claimed]
    more: bool
    next_at: int | None


class Order(StrEnum):
    """Which of several queues a claim serves first."""

    PRIORITY = "priority"  # the best of all of them
    STRICT = "strict"  # the first queue, and the next only gets what it leaves
    ROUND_ROBIN = "round_robin"
    WEIGHTED = "weighted"
    LEAST_LOADED = "least_loaded"  # the queue of which the fewest run


class ClaimFor(Struct, frozen=True):
    """What a claim asks for.  *timed* has the store itself end attempts that take longer than their timeout.

    *weights* are those of the queues, for `Order.WEIGHTED`.  Where starts are remembered, handlers must begin
    within *grace*; None if their true begin is never reported.  Without a *tenant* the queues of all tenants are meant.
    """

    queues: tuple[str, ...]
    count: int
    worker: str
    lease: int = LEASE
    grace: int | None = None
    timed: bool = False
    order: Order = Order.PRIORITY
    weights: tuple[int, ...] = ()
    tenant: str | None = None


class TenantLimits(Struct, frozen=True):
    """What one tenant may have: so many jobs at once, *waiting* or scheduled, *scheduled*, and added per window."""

    slots: int | None = None
    waiting: int | None = None
    scheduled: int | None = None
    rate: Window | None = None


class Maintenance(Struct, frozen=True):
    """Nothing starts since *at*, perhaps *until* then: a guess, which ends nothing."""

    at: int
    reason: str = ""
    until: int | None = None


class Running(Struct, frozen=True):
    """An attempt that runs now; its *deadline* is when the store itself ends it."""

    id: str
    seq: int
    fence: int
    worker: str
    queue: str
    task: str
    tenant: str
    meta: str
    attempt: int = 1
    cancel_at: int = 0  # when it was asked to stop
    own_lease: int | None = None
    lease: int = 0
    started: int = 0
    deadline: int | None = None


class OnFull(StrEnum):
    """What becomes of a job for a queue that is full."""

    REJECT = "reject"
    BLOCK = "block"  # refused as well; a server lets the producer wait for room
    DROP_OLDEST = "drop_oldest"


class Bound(Struct, frozen=True):
    """How many jobs may wait in a queue; from the part *warning* of it on (at most 1), producers are warned."""

    max_depth: int
    strategy: OnFull = OnFull.REJECT
    warning: float | None = None


class Settlement(Struct, frozen=True, gc=False):
    """How one attempt ended.  *began_after* is how long after the claim its handler began, if known.

    A span, not a date: the clock may be set between the claim and the report.

    With *heed_cancel* an attempt whose cancelling was asked for ends as cancelled, and this outcome does not count.
    """

    seq: int
    fence: int
    outcome: Outcome
    began_after: int | None = None
    heed_cancel: bool = False


class Sequel(Struct, frozen=True):
    """What follows an attempt that failed: the job's *state*, how many *attempts* it has, how long *after* the next.

    An attempt that was cancelled meanwhile has no attempts to speak of.
    """

    state: State
    attempts: int = 0
    after: int | None = None


# The answer to a settlement: False if the lease was lost, so that the outcome does not count; True, or what follows.
Settled = bool | Sequel


class Beat(Struct, frozen=True):
    """The answer to a heartbeat for one attempt."""

    seq: int
    alive: bool
    cancel_asked: bool = False


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


@dataclass(frozen=True, slots=True)
class GateView:
    """A gate as people and programs see it: its numbers in force and where they come from.

    Of those *running* so many are *lent* to calls that are no jobs.
    """

    key: str
    tenant: str
    running: int
    recent: int
    waiting: int
    numbers: Numbers
    lent: int = 0
    configured: Numbers | None = None
    floating: int | None = None
    override: Numbers | None = None
    override_until: int | None = None
    shut_until: int | None = None
    shut_reason: str = ""
    opens_at: int | None = None
    next_start: int | None = None
    window_resets_at: int | None = None


@dataclass(frozen=True, slots=True)
class Reason:
    """One gate that keeps a job waiting: *rule* in words, *opens_at* None when only a release opens it."""

    gate: str
    rule: str
    opens_at: int | None


@dataclass(frozen=True, slots=True)
class Why:
    """Why a job waits: its gates that are shut, its place in line and its earliest start (None: unknown)."""

    job: str
    state: State
    reasons: tuple[Reason, ...]
    place: int | None
    earliest: int | None
    sentence: str


@dataclass(frozen=True, slots=True)
class Refresh:
    """A floating limit that a worker must recompute."""

    gate: int
    key: str
    tenant: str
    handler: str
    current: int
    metadata: str
    fence: int
    refreshed: int | None


@dataclass(frozen=True, slots=True)
class FloatingView:
    """A floating limit as people see it."""

    key: str
    tenant: str
    handler: str
    value: int
    default: int
    every: int
    metadata: str
    refreshed: int | None
    next_at: int
    failures: int
    last_error: str


class Schedule(Struct, frozen=True):
    """A job to enqueue whenever the moment of a cron *expression* comes; *ttl* is how long each is worth starting.

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


class NewWorkflow(Struct, frozen=True):
    """A workflow to start.  *kind* says for people how it was written down; *meta* is JSON text.

    Its jobs belong to its *tenant*, whatever their templates say.
    """

    steps: tuple[Step[NewJob], ...]
    kind: str = "dag"
    name: str = ""
    tenant: str = ""
    id: str | None = None
    meta: str = "{}"


class StepView(Struct, frozen=True):
    """A step as people and programs see it; *job_id* is None until its job is enqueued."""

    id: str
    task: str
    queue: str
    state: StepState
    job_id: str | None
    depends_on: tuple[str, ...]
    when: When
    callback: bool


class WorkflowView(Struct, frozen=True):
    """A workflow as people and programs see it; callbacks are none of the steps that are counted.

    Lists of workflows come without their *steps*.
    """

    id: str
    tenant: str
    kind: str
    name: str
    meta: str
    state: WorkflowState
    created: int
    finished: int | None
    steps_total: int
    steps_completed: int
    steps: tuple[StepView, ...] = ()
    started: int | None = None  # when the first of its jobs began
    steps_failed: int = 0  # of those counted; those cancelled are not among them

    @property
    def jobs_total(self) -> int:
        """Each step is one job."""
        return self.steps_total

    @property
    def jobs_completed(self) -> int:
        """The same."""
        return self.steps_completed


class Pool(Struct, frozen=True):
    """Queues from which workers fetch in one order; *slots* is how many of all their jobs may run at once.

    There is a weight for each queue, or none.
    """

    name: str
    queues: tuple[str, ...]
    order: Order = Order.STRICT
    weights: tuple[int, ...] = ()
    slots: int | None = None
    tenant: str = ""


class QueueCounts(Struct, frozen=True):
    """How many jobs of one queue are in each state; those to be tried again count as `retrying`."""

    tenant: str
    queue: str
    counts: dict[str, int]


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


class KeyGauge(Struct, frozen=True):
    """How many jobs of a key run and wait."""

    tenant: str
    key: str
    running: int
    waiting: int


class Gauges(Struct, frozen=True):
    """How full everything is: *queues* as (queue, state, jobs); the busiest *keys*, and all others together."""

    queues: list[tuple[str, str, int]]
    keys: list[KeyGauge]
    other_running: int
    other_waiting: int


class Webhook(Struct, frozen=True):
    """A URL to which events are posted, and which of them; empty lists stand for all queues and all tasks.

    The *previous* secret signs too, until then.  Secrets are never shown.
    """

    url: str
    events: tuple[str, ...]
    secret: str
    id: str = ""
    tenant: str = ""
    queues: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    active: bool = True
    previous: str = ""
    previous_until: int = 0
    meta: str = "{}"
    created: int = 0
    changed: int = 0

    def __repr__(self) -> str:
        return f"<Webhook {self.id} {self.url}>"


class Event(Struct, frozen=True):
    """Something that happened, told after it was committed."""

    name: str
    at: int
    facts: dict[str, object] = {}


Listener = Callable[[Event], None]
