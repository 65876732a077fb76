"""What a person sees who looks at a store: counts that stop somewhere, and lists that go on by cursor."""

from dataclasses import dataclass

from msgspec import Struct

from penstock.job.gates import FloatingView
from penstock.job.instances import InstanceView
from penstock.job.jobs import JobView, Schedule
from penstock.job.workflows import WorkflowView
from penstock.lifecycle.states import State
from penstock.limits.rules import Numbers


class Count(Struct, frozen=True):
    """How many there are; with *more* at least so many."""

    number: int = 0
    more: bool = False

    def __add__(self, other: "Count") -> "Count":
        return Count(self.number + other.number, self.more or other.more)


class Totals(Struct, frozen=True):
    """How many jobs have not ended."""

    running: Count
    waiting: Count
    scheduled: Count


class Tally(Struct, frozen=True):
    """How many there are: keys with a gate, jobs and runs of workflows that have not ended, and of the other things."""

    gates: Count
    jobs: Count
    queues: Count
    workers: Count
    schedules: Count
    workflows: Count


class Place(Struct, frozen=True):
    """Where a list goes on: after this key of this tenant."""

    tenant: str
    key: str


class GateLook(Struct, frozen=True):
    """A key's gate as a person sees it in a list.

    *numbers* are in force for jobs that bring what the newest lane brings, *own*.  Of those that *wait* for it some
    may be kept by other gates; *held* is how many this one keeps, if that was looked at, the oldest *since* then.
    """

    tenant: str
    key: str
    numbers: Numbers
    own: Numbers
    running: int
    recent: int  # starts in the window of its rate
    waiting: Count
    held: Count | None = None
    since: int | None = None
    configured: Numbers | None = None
    floating: int | None = None
    override: Numbers | None = None
    override_until: int | None = None
    shut_until: int | None = None
    shut_reason: str = ""
    opens_at: int | None = None  # None: only a release or a person opens it
    last_start: int | None = None
    next_start: int | None = None  # by its throttle


class GatePage(Struct, frozen=True):
    """A part of a list of gates, and where it goes on."""

    gates: list[GateLook]
    after: Place | None = None


class PastStart(Struct, frozen=True):
    """Starts that a gate remembers, merged into one where they are many."""

    at: int
    weight: int


class Waiting(Struct, frozen=True):
    """A job in the line of a gate, and when it starts: if *exact*, the clock alone decides it.

    An instance has no task, but a *workflow*.
    """

    id: str
    tenant: str
    task: str
    args: str
    meta: str
    enqueued: int
    also: list[str]  # the other keys that it needs
    starts: int | None
    exact: bool
    workflow: str | None = None


class Through(Struct, frozen=True):
    """An attempt that holds a slot of a gate, or an instance of a *workflow*."""

    id: str
    tenant: str
    task: str
    worker: str
    started: int
    workflow: str | None = None


class Elsewhere(Struct, frozen=True):
    """A gate that keeps jobs which need another one too."""

    kind: str
    tenant: str
    name: str
    jobs: int


class GateDetail(Struct, frozen=True):
    """One gate, with all that it remembers and those who have to do with it."""

    gate: GateLook
    starts: list[PastStart]
    line: list[Waiting]
    through: list[Through]
    elsewhere: list[Elsewhere]
    elsewhere_more: bool


class JobQuery(Struct, frozen=True):
    """Which jobs are looked for: all that is given must fit.  *since* and *until* are about when they were enqueued."""

    state: State | None = None
    queue: str | None = None
    task: str | None = None
    key: str | None = None
    tenant: str | None = None
    worker: str | None = None
    words: str | None = None  # in the arguments
    error: str | None = None  # a part of the kind or the message
    unmarked: str | None = None  # what their meta does not name
    since: int | None = None
    until: int | None = None

    @property
    def picks(self) -> bool:
        """Whether few of the jobs of its state may fit."""
        picked = (
            self.queue, self.task, self.key, self.tenant, self.worker, self.words, self.error, self.since, self.until,
        )  # fmt: skip
        return any(value is not None for value in picked) or self.state not in (None, State.RUNNING)


@dataclass(frozen=True, slots=True)
class JobPage:
    """Jobs that were found among the *looked* at, newest first, and the number before which the list goes on."""

    jobs: list[JobView]
    looked: int
    before: int | None
    full: bool  # whether the page has as many as it may, so that it may have looked at fewer


class QueueLook(Struct, frozen=True):
    """A queue: how many of its jobs have not ended, and what was decided about it."""

    tenant: str
    queue: str
    running: Count
    waiting: Count
    scheduled: Count
    paused: int | None = None  # since when
    numbers: Numbers | None = None
    most: int | None = None  # jobs that may wait in it


class WorkerLook(Struct, frozen=True):
    """A worker, as far as its attempts tell: how many run, the *oldest* since then, and when a *lease* ends next."""

    worker: str
    jobs: int
    oldest: int
    lease: int
    task: str
    queue: str


class SchedulePage(Struct, frozen=True):
    """Schedules by tenant and name, and where the list goes on."""

    schedules: list[Schedule]
    after: Place | None


class WorkflowPage(Struct, frozen=True):
    """Workflows of fixed steps, newest first, and the number before which the list goes on."""

    workflows: list[WorkflowView]
    before: int | None


class InstancePage(Struct, frozen=True):
    """Instances, newest first, and the number before which the list goes on."""

    instances: list[InstanceView]
    before: int | None


class FloatingPage(Struct, frozen=True):
    """Floating limits by tenant and key, and where the list goes on."""

    limits: list[FloatingView]
    after: Place | None
