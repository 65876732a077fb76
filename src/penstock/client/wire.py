"""What is said on the wire: one body for each verb, sent to `POST /penstock/v1/{verb}` as JSON.

The nouns are the engine's own.  Every answer says in a header what time it was at the server when the
request arrived.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Annotated, Any, Final

from msgspec import Meta, Raw, Struct, ValidationError, field
from msgspec.json import Decoder, Encoder

from penstock.job import (
    FOLLOWERS_MOST,
    LEASE,
    START_GRACE,
    Ahead,
    Claim,
    Command,
    FloatingView,
    GateView,
    ImportedJob,
    InstanceState,
    InstanceView,
    NewInstance,
    NewJob,
    Refresh,
    Settled,
    Settlement,
    WorkerReport,
)
from penstock.lifecycle.outcomes import (
    Again,
    Cancelled,
    Conducted,
    Done,
    Failed,
    HandedBack,
    Limited,
    Outcome,
)
from penstock.lifecycle.states import State
from penstock.limits.rules import MAX_NUMBER, Numbers
from penstock.names import MAX_NAME

PATH: Final = "/penstock/v1/"
PROTOCOL: Final = 1
NOW: Final = "x-penstock-now"
KEY: Final = "idempotency-key"

MOST_JOBS: Final = 100_000
MOST_ATTEMPTS: Final = 10_000
MOST_BYTES: Final = 8 * 2**20  # of outcomes in one request; servers read 10 MiB
DAY: Final = 86_400_000_000
LONGEST_WAIT: Final = 30.0

Number = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Whole = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
# Not every database can store the character NUL.
Name = Annotated[str, Meta(max_length=MAX_NAME, pattern=r"^[^\x00]*$")]
Text = Annotated[str, Meta(pattern=r"^[^\x00]*$")]
Span = Annotated[int, Meta(ge=1, le=DAY)]
Used = Annotated[dict[Name, Annotated[int, Meta(ge=0, le=MAX_NUMBER)]], Meta(max_length=1_000)]
Tasks = Annotated[Sequence[Name], Meta(max_length=1_000)]
AtOnce = Annotated[int, Meta(ge=1, le=MOST_ATTEMPTS)]

encode: Final = Encoder().encode


class Hello(Struct):
    """What a server says of itself."""

    protocol: int
    version: str


class EmptyRequest(Struct):
    """The body of a verb that takes nothing."""


class EnqueueRequest(Struct):
    jobs: Annotated[list[NewJob], Meta(max_length=MOST_JOBS)]


class AttemptReport(Struct):
    """A `Settlement`: *how* names its outcome."""

    seq: Number
    fence: Number
    how: str
    outcome: Raw
    began_after: Whole | None = None
    used: Used | None = None


class SettleRequest(Struct):
    """*sequels* asks to be told what follows attempts that failed."""

    reports: Annotated[list[AttemptReport], Meta(max_length=MOST_ATTEMPTS)]
    sequels: bool = False


class ClaimRequest(Struct):
    queues: Annotated[Sequence[Name], Meta(min_length=1, max_length=1_000)]
    count: Annotated[int, Meta(ge=0, le=MOST_ATTEMPTS)]
    worker: Name
    lease: Span = LEASE
    grace: Span = START_GRACE
    tenant: Name | None = None
    tasks: Tasks | None = None
    ahead: Ahead | None = None
    relay: Annotated[Sequence[tuple[Name, Span]], Meta(max_length=1_000)] = ()
    standby: Annotated[int, Meta(ge=0, le=FOLLOWERS_MOST)] = 0


class ClaimOneRequest(Struct):
    job_id: Name = field(name="id")
    worker: Name
    lease: Span = LEASE
    grace: Span = START_GRACE
    tenant: Name | None = None


class ImportRequest(Struct):
    jobs: Annotated[list[ImportedJob], Meta(max_length=MOST_JOBS)]


class ExchangeRequest(Struct):
    reports: Annotated[list[AttemptReport], Meta(max_length=MOST_ATTEMPTS)]
    take: ClaimRequest
    sequels: bool = False


class Exchanged(Struct):
    accepted: list[Settled]
    claim: Claim


class BegunRequest(Struct):
    reports: Annotated[Sequence[tuple[Number, Number, Whole]], Meta(max_length=MOST_ATTEMPTS)]


class HeartbeatRequest(Struct):
    attempts: Annotated[Sequence[tuple[Number, Number]], Meta(max_length=MOST_ATTEMPTS)]
    lease: Span


class ProgressRequest(Struct):
    seq: Number
    fence: Number
    value: Text


class SpendRequest(Struct):
    """What running attempts used: the seq, the fence and the amount of each key."""

    reports: Annotated[Sequence[tuple[Number, Number, Used]], Meta(max_length=MOST_ATTEMPTS)]


class RefreshesRequest(Struct):
    handlers: Annotated[Collection[Name], Meta(max_length=1_000)]
    count: AtOnce
    worker: Name
    lease: Span = LEASE
    queues: Annotated[Collection[Name], Meta(max_length=1_000)] = ()
    tenant: Name | None = None


class RenewRefreshesRequest(Struct):
    """Refreshes that a worker is still about, as (gate, fence)."""

    lent: Annotated[Sequence[tuple[Number, Number]], Meta(max_length=MOST_ATTEMPTS)]
    lease: Span = LEASE


class RefreshedRequest(Struct):
    refresh: Refresh
    value: Number | None = None
    error: Text = ""


class JobRequest(Struct):
    """The job of a tenant that has this id; without one of no tenant, or else the only one."""

    job_id: Name = field(name="id")
    tenant: Name | None = None


class CancelRequest(Struct):
    job_id: Name = field(name="id")
    reason: Text = "cancelled on request"
    tenant: Name | None = None


class JobsRequest(Struct):
    state: State | None = None
    queue: Name | None = None
    task: Name | None = None
    tenant: Name | None = None
    key: Name | None = None
    before: Number | None = None
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 50
    begins: Name | None = None


class CountRequest(Struct):
    queue: Name | None = None
    task: Name | None = None
    tenant: Name | None = None
    tasks: Tasks | None = None


class UnknownTasksRequest(Struct):
    queues: Annotated[Sequence[Name], Meta(max_length=1_000)] | None = None


class CreateInstancesRequest(Struct):
    new: Annotated[list[NewInstance], Meta(max_length=MOST_JOBS)]


class InstanceRequest(Struct):
    """The instance of a tenant that has this id; without one of no tenant, or else the only one."""

    instance_id: Name = field(name="id")
    tenant: Name | None = None


class InstanceViewRequest(Struct):
    instance_id: Name = field(name="id")
    tenant: Name | None = None
    steps: bool = True


class SignalRequest(Struct):
    instance_id: Name = field(name="id")
    name: Name
    payload: Text = "null"
    tenant: Name | None = None


class CancelInstanceRequest(Struct):
    instance_id: Name = field(name="id")
    reason: Text = "cancelled on request"
    tenant: Name | None = None


class TimersRequest(Struct):
    queues: Annotated[Sequence[Name], Meta(max_length=1_000)]
    tenant: Name | None = None


class InstancesRequest(Struct):
    tenant: Name | None = None
    offset: Number = 0
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 50
    workflow: Name | None = None
    state: InstanceState | None = None


class InstancePage(Struct):
    instances: list[InstanceView]
    total: int


class GateRequest(Struct):
    key: Name
    tenant: Name = ""


class GatesRequest(Struct):
    prefix: Name = ""
    offset: Number = 0
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 50


class FloatingLimitsRequest(Struct):
    tenant: Name | None = None
    prefix: Name = ""
    offset: Number = 0
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 50


class GatePage(Struct):
    gates: list[GateView]
    total: int


class QueueRequest(Struct):
    queue: Name
    tenant: Name = ""


class ConfigureRequest(Struct):
    scope: str
    name: Name
    numbers: Numbers | None
    tenant: Name = ""


class OverrideRequest(Struct):
    key: Name
    numbers: Numbers
    until: Number | None = None
    tenant: Name = ""


class ShutRequest(Struct):
    key: Name
    until: Number
    tenant: Name = ""
    reason: Text = ""


class SetFloatingRequest(Struct):
    key: Name
    value: Number | None = None
    every: Number | None = None
    metadata: Text | None = None
    least: Number | None = None
    most: Number | None = None
    tenant: Name = ""


class FloatingPage(Struct):
    limits: list[FloatingView]
    total: int


class HearRequest(Struct):
    """What workers tell of themselves."""

    reports: Annotated[Sequence[WorkerReport], Meta(max_length=1_000)]


class WorkersRequest(Struct):
    tenant: Text | None = None


class AuditRequest(Struct):
    """Which changes are meant; those *before* a number come next after it."""

    kind: Text | None = None
    subject: Text | None = None
    verb: Text | None = None
    who: Text | None = None
    through: Text | None = None
    tenant: Text | None = None
    since: Number | None = None
    until: Number | None = None
    before: Number | None = None
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 50


class PruneRequest(Struct):
    older_than: Number
    most: Number | None = None


class WaitRequest(Struct):
    """Wait until something happened about *topic* after *revision*; without one, say what it is now."""

    topic: str
    revision: Number | None = None
    timeout: Annotated[float, Meta(ge=0, le=LONGEST_WAIT)] = 0.0


class Problem(Struct):
    """What went wrong: the *code* of an error of `penstock.errors`, and what it was made of."""

    code: str
    message: str
    facts: dict[str, str | int] = {}


class ErrorReport(Struct):
    error: Problem


_OUTCOMES: Final[dict[str, type[Outcome]]] = {
    "done": Done,
    "failed": Failed,
    "again": Again,
    "limited": Limited,
    "cancelled": Cancelled,
    "handed_back": HandedBack,
    "conducted": Conducted,
}
_NAMES: Final = {kind: name for name, kind in _OUTCOMES.items()}


class _Commands(Struct):
    """`Conducted` as it is read: outcomes know no commands."""

    commands: Annotated[tuple[Command, ...], Meta(max_length=MOST_ATTEMPTS)]
    seen: Number | None = None


_DECODERS: Final[dict[str, Decoder[Any]]] = {
    **{name: Decoder(kind) for name, kind in _OUTCOMES.items()},
    "conducted": Decoder(_Commands),
}


def reports_of(settlements: Sequence[Settlement]) -> list[AttemptReport]:
    """Return settlements as they are sent."""
    return [
        AttemptReport(s.seq, s.fence, _NAMES[type(s.outcome)], Raw(encode(s.outcome)), s.began_after, s.used)
        for s in settlements
    ]


def pieces(reports: Sequence[AttemptReport]) -> Iterator[list[AttemptReport]]:
    """Divide reports into as many as fit into one request each."""
    piece, size = list[AttemptReport](), 0
    for report in reports:
        size += len(memoryview(report.outcome))
        if piece and (size > MOST_BYTES or len(piece) == MOST_ATTEMPTS):
            yield piece
            piece, size = [], len(memoryview(report.outcome))
        piece.append(report)
    if piece:
        yield piece


def settlements_of(reports: Sequence[AttemptReport]) -> list[Settlement]:
    """Return what was sent as settlements.

    Raises `msgspec.ValidationError` for an outcome that is none.
    """
    return [Settlement(r.seq, r.fence, _outcome(r), r.began_after, used=r.used) for r in reports]


def _outcome(report: AttemptReport) -> Outcome:
    decoder = _DECODERS.get(report.how)
    if decoder is None:
        raise ValidationError(f"{report.how!r} is no outcome")
    read: Any = decoder.decode(report.outcome)
    return Conducted(read.commands, read.seen) if isinstance(read, _Commands) else read
