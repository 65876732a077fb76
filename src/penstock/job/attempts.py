"""Attempts: claimed by a worker, kept alive by its heartbeats, settled with an outcome."""

from dataclasses import dataclass
from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from penstock.clock import MILLISECOND, SECOND
from penstock.job.queues import Order
from penstock.lifecycle.outcomes import Ending, Outcome
from penstock.lifecycle.states import State

LEASE: Final = 15 * SECOND
# Where starts are remembered a claim lets the handler begin within this time, and remembers its last
# moment until the worker tells the true one.  So the memory is never earlier than the handler.
# A worker that finds itself slower than that asks for more.
START_GRACE: Final = 50 * MILLISECOND
# When a claim should look again if another transaction, not committed yet, brings about what is due.
AT_ONCE: Final = 0


# How far ahead a claim may grant starts that the clock will allow, and how long before the last of them begins the
# next claim should come: time enough for a transaction.
AHEAD: Final = 80 * MILLISECOND
LEAD: Final = 40 * MILLISECOND

# How long the handlers of a relay may take together by what its caller expects, how many there are at most, and how
# many jobs at most a claim starts beyond its count.
RELAY: Final = 20 * MILLISECOND
RELAY_MOST: Final = 16
FOLLOWERS_MOST: Final = 1_000

# How long a job may be expected to stand by in its worker until a hand is free for it.
STANDBY: Final = 40 * MILLISECOND


_Whole = Annotated[int, Meta(ge=0, le=2**63 - 1)]
_Reports = Annotated[tuple[tuple[_Whole, _Whole, _Whole], ...], Meta(max_length=10_000)]


class Ahead(Struct, frozen=True):
    """Asks a claim to grant up to *most* starts *within* so long, each for the moment at which its gates open.

    The caller begins each no earlier than that moment.  *held* are attempts of the caller that have not begun, as
    (seq, fence, span): each is expected to begin so long after its claim.  If one begins later than expected, the
    caller begins everything at its gates that is granted for later by as much later.
    *begun* are attempts that have begun, as for `begun`.
    *alone* is for jobs that begin together: a claim starts either what may begin at once, or one job for its moment.
    """

    within: Annotated[int, Meta(ge=0, le=AHEAD)] = AHEAD
    most: Annotated[int, Meta(ge=0)] = 1
    held: _Reports = ()
    begun: _Reports = ()
    alone: bool = False


class ClaimFor(Struct, frozen=True):
    """What a claim asks for.  *timed* has the store itself end attempts that take longer than their timeout.

    *weights* are those of the queues, for `Order.WEIGHTED`.  Where starts are remembered, handlers must begin
    within *grace*.  Without a *tenant* the queues of all tenants are meant.
    Jobs of other tasks than *tasks* are left alone; None means all, and a `*` in a name any text.
    Without *ahead* only what may begin at once is started.  A *numbered* one has all attempts of a job counted.
    *relay* lists tasks and how long their handlers take: jobs of these may be started as a relay, see `Claimed`; and
    up to *standby* of them beyond *count*, for which a hand will be free soon.
    """

    queues: tuple[str, ...]
    count: int
    worker: str
    lease: int = LEASE
    grace: int = START_GRACE
    timed: bool = False
    order: Order = Order.PRIORITY
    weights: tuple[int, ...] = ()
    tenant: str | None = None
    tasks: tuple[str, ...] | None = None
    ahead: Ahead | None = None
    numbered: bool = False
    relay: tuple[tuple[str, int], ...] = ()
    standby: int = 0


class Claimed(Struct, frozen=True, gc=False):
    """An attempt handed to a worker, to be settled with its *fence* before *lease* runs out.

    The handler must begin before *begin_by* (0: any time) or be handed back unbegun; not before *begin_from*.
    In a relay one begins *after* another (its seq; 0: at once): when that one's handler has ended and not before.
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
    costs: str | None = None  # at each of its limits, if they differ
    begin_from: int = 0
    gates: str = ""  # those that it passes, if its start is remembered
    spaced: str = ""  # those of them at which it keeps a distance to the starts before it
    resource: str | None = None  # the key of the one that it took of a resource group
    number: int = (
        0  # goes on when the job is retried by hand, as that of a `PastAttempt`; 0 if it was not asked for
    )
    after: int = 0


@dataclass(frozen=True, slots=True)
class Claim:
    """The answer to a claim: *more* asks to claim again at once; *next_at* is when to look again at the latest."""

    jobs: list[Claimed]
    more: bool
    next_at: int | None

    @property
    def at_once(self) -> int:
        """How many of the jobs begin at once; the others follow them."""
        return sum(not job.after for job in self.jobs)


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


class Settlement(Struct, frozen=True, gc=False):
    """How one attempt ended.  *began_after* is how long after the claim its handler began, if known.

    A span, not a date: the clock may be set between the claim and the report.  *used* is what it used of each key, in
    place of what was estimated.

    With *heed_cancel* an attempt whose cancelling was asked for ends as cancelled, and this outcome does not count.
    """

    seq: int
    fence: int
    outcome: Outcome
    began_after: int | None = None
    heed_cancel: bool = False
    used: dict[str, int] | None = None


# What a running attempt used: its seq, its fence, and how much of each key.
Spending = tuple[int, int, dict[str, int]]


class Sequel(Struct, frozen=True):
    """What follows an attempt that failed: the job's *state*, how many *attempts* it has, how long *after* the next.

    An attempt that was cancelled meanwhile has no attempts to speak of.
    """

    state: State
    attempts: int = 0
    after: int | None = None


# The answer to a settlement: False if the lease was lost, so that the outcome does not count; True, or what follows.
Settled = bool | Sequel


class PastAttempt(Struct, frozen=True):
    """An attempt at a job and what became of it.

    Its *number* goes on for as long as the job is kept; *attempt* is the number by which its handler knew it, which
    begins again when the job is retried by hand.  *started* is when it was claimed, *began* when its handler began, if
    its worker told.  It *held* a slot at those gates; *waited_for* is the gate in whose line its job stood when it
    started, empty if it stood in none.
    """

    number: int
    attempt: int
    outcome: Ending
    started: int | None = None  # unknown of attempts made before this was kept
    began: int | None = None
    ended: int | None = None
    worker: str = ""
    held: tuple[str, ...] = ()
    waited_for: str = ""
    reason: str = ""
    result: str | None = None
    error: dict[str, Any] | None = None
    retried: int | None = None  # when its job was retried by hand after it


class ImportedAttempt(Struct, frozen=True):
    """An attempt that was made elsewhere: what became of it, and when.  An *error* has a `kind` and a `message`."""

    outcome: Ending
    ended: int
    started: int | None = None
    began: int | None = None
    worker: str = ""
    reason: str = ""
    result: str | None = None
    error: dict[str, str] | None = None
    retried: int | None = None


class Renewal(Struct, frozen=True):
    """A heartbeat for one attempt.  It counts if a *worker* that is named has the attempt."""

    seq: int
    fence: int
    lease: int = LEASE
    worker: str | None = None


class Beat(Struct, frozen=True):
    """The answer to a heartbeat for one attempt; *holder* is the other worker that has it, if one was named."""

    seq: int
    alive: bool
    cancel_asked: bool = False
    cancel_at: int = 0  # when that was asked
    holder: str | None = None
