"""Gates: how they stand, which of them keep a job waiting, floating limits, and slots lent to other processes."""

from dataclasses import dataclass

from msgspec import Struct

from penstock.job.attempts import LEASE
from penstock.lifecycle.states import State
from penstock.limits.rules import Numbers


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
class RateResourceView:
    """A key whose rate was set from outside, and how its gate stands."""

    id: str
    tenant: str
    key: str
    created: int
    updated: int
    gate: GateView


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
    """A floating limit that a worker must recompute, and what it knows of it; *refreshed* is when that last succeeded.

    *queue* is one of those for which the worker asked and in which the key is in use.
    """

    gate: int
    key: str
    tenant: str
    handler: str
    current: int
    metadata: str
    fence: int
    refreshed: int | None
    failures: int = 0
    least: int = 0
    most: int | None = None
    queue: str = ""


class RefreshesFor(Struct, frozen=True):
    """What a worker can recompute, and how many at once.

    Floating limits that name one of *handlers*; and those that name none, if their key is in use in one of *queues*.
    With a *tenant*, only its own.
    """

    count: int
    worker: str
    handlers: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    lease: int = LEASE
    tenant: str | None = None


class RefreshReport(Struct, frozen=True):
    """What a worker computed for a refresh that was lent under a *fence*: a value, or why it has none.

    With a *tenant*, only if the key is its own.
    """

    gate: int
    fence: int
    value: int | None = None
    error: str = ""
    tenant: str | None = None


@dataclass(frozen=True, slots=True)
class FloatingView:
    """A floating limit as people see it; it is refreshed only while it is *in_use*, at present by *worker*, if any."""

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
    least: int = 0
    most: int | None = None
    in_use: bool = True
    worker: str = ""


class Want(Struct, frozen=True):
    """One call that wants *slots* of a key, all of them at once; up to *most* are welcome.

    If it cannot have them now it waits in line, unless it does not want to *stay*.
    """

    id: int
    key: str
    numbers: Numbers
    slots: int = 1
    most: int = 1
    stay: bool = True


class Lending(Struct, frozen=True):
    """What a process gives back, no longer wants, and wants, in this order; *holder* is 0 the first time.

    With *look* it is told what it got since, and with *audit* of all that it has.  All times, here and in the answer,
    are spans: the borrower measures them by its own clock, from before its request.
    """

    holder: int
    lease: int
    name: str = ""
    returned: tuple[tuple[int, int], ...] = ()  # (gate, slots)
    withdrawn: tuple[int, ...] = ()
    wanted: tuple[Want, ...] = ()
    renew: bool = False
    look: bool = False
    audit: bool = False


class Loan(Struct, frozen=True):
    """What a want got.  Where starts are remembered its call must begin within *grace* (0: any time)."""

    want: int
    gate: int
    slots: int
    grace: int = 0


class Audit(Struct, frozen=True):
    """All slots that a holder has, by gate, and its wants that stand in line."""

    held: dict[int, int]
    asking: frozenset[int]


class Lent(Struct, frozen=True):
    """The answer to a `Lending`; *holder* is 0 if the lease had run out, and with it all that was held or asked for."""

    holder: int
    loans: tuple[Loan, ...] = ()
    refused: tuple[int, ...] = ()
    waiting: tuple[int, ...] = ()  # those of the wants that stand in line now
    audit: Audit | None = None
