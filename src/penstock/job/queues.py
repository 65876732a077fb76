"""Queues, pools and tenants: the rules that are set for them, and how full they are."""

from enum import StrEnum

from msgspec import Struct

from penstock.limits.rules import Window


class Order(StrEnum):
    """Which of several queues a claim serves first."""

    PRIORITY = "priority"  # the best of all of them
    STRICT = "strict"  # the first queue, and the next only gets what it leaves
    ROUND_ROBIN = "round_robin"
    WEIGHTED = "weighted"
    LEAST_LOADED = "least_loaded"  # the queue of which the fewest run


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


class UnknownTask(Struct, frozen=True):
    """A task of which jobs wait in a queue, so many at least, and which no claim has asked for *since* then."""

    queue: str
    task: str
    since: int
    waiting: int


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


class QueueCounts(Struct, frozen=True):
    """How many jobs of one queue are in each state; those to be tried again count as `retrying`."""

    tenant: str
    queue: str
    counts: dict[str, int]


class KeyGauge(Struct, frozen=True):
    """How many jobs of a key run, and how many wait because of it."""

    tenant: str
    key: str
    running: int
    waiting: int


class FloatingGauge(Struct, frozen=True):
    """A floating limit in use: its value, how many refreshes failed since, and its age (None: never refreshed)."""

    tenant: str
    key: str
    value: int
    failures: int
    age: int | None


class Gauges(Struct, frozen=True):
    """How full everything is: *queues* as (queue, state, jobs); the busiest *keys*, and all others together.

    And *floating* limits that are refreshed at present; *instances* as (workflow, state, instances), and how many are
    *stuck*: they run, and nothing will move them on.
    """

    queues: list[tuple[str, str, int]]
    keys: list[KeyGauge]
    other_running: int
    other_waiting: int
    floating: list[FloatingGauge] = []
    instances: list[tuple[str, str, int]] = []
    stuck: int = 0
