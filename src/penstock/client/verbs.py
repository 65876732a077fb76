"""The verbs of the native protocol, one record for each: `POST /penstock/v1/{name}`.

Both sides are made from this table.  The client takes from it the signature of a method, the type of the answer
and whether it keeps trying while the server is away; the server takes the type of the body, the roles and
whether it remembers answers.

A connection can break between a request and its answer, so any request may be sent twice.  `Repeat` says why
that is safe.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final, Generic, Literal, ParamSpec, TypeVar

from msgspec import Struct

from penstock.client import wire
from penstock.job import (
    AuditEntry,
    Beat,
    Claim,
    CreatedInstance,
    Enqueued,
    Failure,
    FloatingView,
    GateView,
    InstanceView,
    JobView,
    Memo,
    PastAttempt,
    Refresh,
    Settled,
    UnknownTask,
    Why,
    WorkerView,
)
from penstock.lifecycle.states import State

P = ParamSpec("P")
B = TypeVar("B", bound=Struct)
A = TypeVar("A")

Roles = tuple[Literal["producer", "worker", "operator"], ...]

PRODUCER: Final[Roles] = ("producer",)
WORKER: Final[Roles] = ("worker",)
EITHER: Final[Roles] = ("producer", "worker")
OPERATOR: Final[Roles] = ("operator",)


class Repeat(Enum):
    """Why a request may be sent again although the first one may have arrived."""

    READ = auto()  # it changes nothing
    SAME = auto()  # the second changes nothing more, and has the same answer
    REMEMBERED = auto()  # the server remembers its answer, and does it once


@dataclass(frozen=True, slots=True)
class Verb(Generic[P, B, A]):
    """A verb, for tokens with one of *roles*; `body(...)` makes what is sent."""

    name: str
    summary: str
    body: Callable[P, B]
    answer: type[A]
    roles: Roles
    repeat: Repeat
    patient: bool = True

    @property
    def keeps_trying(self) -> bool:
        """Whether the client keeps trying while the server is away; a worker does so by itself."""
        return self.patient and self.roles != WORKER


_NOTHING: Final = type(None)
_READ, _SAME, _REMEMBERED = Repeat.READ, Repeat.SAME, Repeat.REMEMBERED

HELLO = Verb(
    "hello", "Say which protocol is spoken", wire.EmptyRequest, wire.Hello, EITHER, _READ, patient=False
)
WAIT = Verb("wait", "Wait until something changes", wire.WaitRequest, int, EITHER, _READ, patient=False)

ENQUEUE = Verb("enqueue", "Add jobs, all or none", wire.EnqueueRequest, list[Enqueued], PRODUCER, _REMEMBERED)
CANCEL = Verb("cancel", "Cancel a job", wire.CancelRequest, State, PRODUCER, _REMEMBERED)
RETRY = Verb("retry", "Run an ended job again", wire.JobRequest, _NOTHING, PRODUCER, _REMEMBERED)
EXPEDITE = Verb("expedite", "Let a scheduled job be due now", wire.JobRequest, State, PRODUCER, _REMEMBERED)
IMPORT_JOBS = Verb(
    "import_jobs",
    "Bring in jobs with attempts made elsewhere",
    wire.ImportRequest,
    list[Enqueued],
    OPERATOR,
    _REMEMBERED,
)
JOB = Verb("job", "Look at a job", wire.JobRequest, JobView, EITHER, _READ)
FAILURES = Verb("failures", "Look at the failures of a job", wire.JobRequest, list[Failure], EITHER, _READ)
HISTORY = Verb("history", "Look at the attempts at a job", wire.JobRequest, list[PastAttempt], EITHER, _READ)
JOBS = Verb("jobs", "Look at jobs", wire.JobsRequest, list[JobView], EITHER, _READ)
COUNT = Verb("count", "Count jobs", wire.CountRequest, dict[State, int], EITHER, _READ)
UNKNOWN_TASKS = Verb(
    "unknown_tasks",
    "Look at tasks of waiting jobs that no worker asks for",
    wire.UnknownTasksRequest,
    list[UnknownTask],
    EITHER,
    _READ,
)
WHY = Verb("why", "Say why a job waits", wire.JobRequest, Why, EITHER, _READ)

CLAIM = Verb("claim", "Start jobs for a worker", wire.ClaimRequest, Claim, WORKER, _REMEMBERED)
CLAIM_ONE = Verb("claim_one", "Start one job by its id", wire.ClaimOneRequest, Claim, WORKER, _REMEMBERED)
SETTLE = Verb("settle", "Record how attempts ended", wire.SettleRequest, list[Settled], WORKER, _REMEMBERED)
EXCHANGE = Verb("exchange", "Settle, then claim", wire.ExchangeRequest, wire.Exchanged, WORKER, _REMEMBERED)
BEGUN = Verb("begun", "Tell when handlers began", wire.BegunRequest, _NOTHING, WORKER, _SAME)
HEARTBEAT = Verb("heartbeat", "Renew leases", wire.HeartbeatRequest, list[Beat], WORKER, _SAME)
PROGRESS = Verb("progress", "Tell how far an attempt is", wire.ProgressRequest, bool, WORKER, _SAME)
SPEND = Verb("spend", "Tell what attempts used", wire.SpendRequest, list[bool], WORKER, _SAME)
REFRESHES = Verb(
    "refreshes", "Take due floating limits", wire.RefreshesRequest, list[Refresh], WORKER, _REMEMBERED
)
RENEW_REFRESHES = Verb(
    "renew_refreshes",
    "Keep floating limits that were taken",
    wire.RenewRefreshesRequest,
    list[bool],
    WORKER,
    _SAME,
)
REFRESHED = Verb(
    "refreshed", "Give a floating limit its value", wire.RefreshedRequest, bool, WORKER, _REMEMBERED
)

CREATE_INSTANCES = Verb(
    "create_instances",
    "Start workflows, all or none",
    wire.CreateInstancesRequest,
    list[CreatedInstance],
    PRODUCER,
    _REMEMBERED,
)
INSTANCE = Verb(
    "instance", "Look at a run of a workflow", wire.InstanceViewRequest, InstanceView, EITHER, _READ
)
INSTANCES = Verb(
    "instances", "Look at runs of workflows", wire.InstancesRequest, wire.InstancePage, EITHER, _READ
)
MEMO = Verb("memo", "Read what a run remembers of its steps", wire.InstanceRequest, Memo, WORKER, _READ)
TIMERS = Verb("timers", "Count the timers of runs", wire.TimersRequest, int, EITHER, _READ)
SIGNAL = Verb("signal", "Send a signal to a run", wire.SignalRequest, str, EITHER, _REMEMBERED)
CANCEL_INSTANCE = Verb(
    "cancel_instance", "Cancel a run", wire.CancelInstanceRequest, InstanceView, PRODUCER, _REMEMBERED
)
PAUSE_INSTANCE = Verb("pause_instance", "Pause a run", wire.InstanceRequest, _NOTHING, PRODUCER, _SAME)
RESUME_INSTANCE = Verb(
    "resume_instance", "Let a paused run go on", wire.InstanceRequest, _NOTHING, PRODUCER, _REMEMBERED
)
RETRY_INSTANCE = Verb(
    "retry_instance", "Let a run that failed go on", wire.InstanceRequest, _NOTHING, PRODUCER, _REMEMBERED
)

GATE = Verb("gate", "Look at a gate", wire.GateRequest, GateView, EITHER, _READ)
GATES = Verb("gates", "Look at gates", wire.GatesRequest, wire.GatePage, EITHER, _READ)
QUEUES = Verb("queues", "Look at queues", wire.EmptyRequest, list[dict[str, Any]], EITHER, _READ)
FLOATING = Verb("floating", "Look at a floating limit", wire.GateRequest, FloatingView, EITHER, _READ)
FLOATING_LIMITS = Verb(
    "floating_limits", "Look at floating limits", wire.FloatingLimitsRequest, wire.FloatingPage, EITHER, _READ
)
PAUSE = Verb("pause", "Pause a queue", wire.QueueRequest, _NOTHING, OPERATOR, _SAME)
RESUME = Verb("resume", "Resume a queue", wire.QueueRequest, _NOTHING, OPERATOR, _SAME)
CONFIGURE = Verb(
    "configure", "Set numbers for a key, a queue or a type", wire.ConfigureRequest, _NOTHING, OPERATOR, _SAME
)
OVERRIDE = Verb("override", "Override the numbers of a key", wire.OverrideRequest, _NOTHING, OPERATOR, _SAME)
CLEAR_OVERRIDE = Verb("clear_override", "End an override", wire.GateRequest, _NOTHING, OPERATOR, _SAME)
SHUT = Verb("shut", "Shut a gate for a while", wire.ShutRequest, _NOTHING, OPERATOR, _SAME)
SET_FLOATING = Verb(
    "set_floating", "Change a floating limit", wire.SetFloatingRequest, _NOTHING, OPERATOR, _SAME
)
REFRESH_FLOATING = Verb(
    "refresh_floating", "Have a floating limit refreshed at once", wire.GateRequest, _NOTHING, OPERATOR, _SAME
)
DELETE_FLOATING = Verb(
    "delete_floating", "Let a key float no longer", wire.GateRequest, _NOTHING, OPERATOR, _REMEMBERED
)
HEAR = Verb("hear", "Tell of a worker", wire.HearRequest, list[str], WORKER, _SAME)
WORKERS = Verb("workers", "Look at workers", wire.WorkersRequest, list[WorkerView], EITHER, _READ)
AUDIT = Verb(
    "audit", "Look at what was changed, by whom", wire.AuditRequest, list[AuditEntry], OPERATOR, _READ
)
PRUNE = Verb("prune", "Forget jobs that ended long ago", wire.PruneRequest, int, OPERATOR, _REMEMBERED)
DOCTOR = Verb("doctor", "Examine the database", wire.EmptyRequest, list[str], OPERATOR, _READ)
ADVICE = Verb("advice", "Ask what the database needs", wire.EmptyRequest, list[str], OPERATOR, _READ)

VERBS: Final[dict[str, Verb[..., Any, Any]]] = {
    each.name: each for each in list(globals().values()) if isinstance(each, Verb)
}
