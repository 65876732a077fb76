"""How it was: what happened in each minute, or quarter of an hour, at a gate, in a queue, of a task or in the store."""

from msgspec import Struct


class Moment(Struct, frozen=True):
    """What happened in one span of time that began *at* a moment.

    *waiting* jobs stood in line when it began.  As means over the span, *kept* is how many a gate kept (for a gate:
    this one) and *used* how many ran (for a gate: its slots); *most* ran at once.  Half of the jobs that started had
    waited no longer than *waited_p50* (for a gate: were not kept longer by this one); None if none started.
    """

    at: int
    arrived: int = 0
    started: int = 0
    ended: int = 0
    failed: int = 0
    dropped: int = 0
    waiting: int = 0
    kept: float = 0
    used: float = 0
    most: int = 0
    waited_p50: int | None = None
    waited_p95: int | None = None
    held_p50: int | None = None
    held_p95: int | None = None


class Past(Struct, frozen=True):
    """One moment for each *step* from *since* on; the last one goes on *until* now.

    The *whole* is all of them as one.
    """

    since: int
    until: int
    step: int
    moments: list[Moment]
    whole: Moment


class KeptBy(Struct, frozen=True):
    """How many jobs a gate kept, as means over each step."""

    key: str
    tenant: str
    kept: list[float]


class WaitedFor(Struct, frozen=True):
    """What jobs waited for, as means over each step: the gates that kept most, other gates, a free worker."""

    since: int
    until: int
    step: int
    gates: list[KeptBy]
    others: list[float]
    worker: list[float]


class HourPast(Struct, frozen=True):
    """How the last hour was: in the whole store, or for a tenant, and at each of some gates and queues."""

    past: Past
    waited: WaitedFor
    gates: list[Past]
    queues: list[Past]


class Standing(Struct, frozen=True):
    """How many jobs stand somewhere: that wait, of which gates keep some; that are put off by a limit; that run."""

    waiting: int = 0
    kept: int = 0
    scheduled: int = 0
    running: int = 0


class TaskLook(Struct, frozen=True):
    """A task, what stands of its jobs now, and how the last hour was."""

    tenant: str
    task: str
    stands: Standing
    past: Past
