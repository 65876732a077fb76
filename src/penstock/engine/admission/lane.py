"""A lane and a gate as a transaction works on them, before they are written back."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.limits.costs import cost_at
from penstock.limits.gate import Gate
from penstock.limits.groups import Group
from penstock.limits.rules import UNLIMITED, Numbers, OnLimit
from penstock.store.session import Part, Queue
from penstock.store.waiting import Head

if TYPE_CHECKING:
    from penstock.engine.admission.turns import Turn

# Characters: a line has the names of a queue and a tenant too, and an index of PostgreSQL takes 2,700 bytes.
MAX_WEIGHT: Final = 64


class Stand(NamedTuple):
    """One gate a lane's jobs must pass: the numbers they bring for it, and what to do when it is shut.

    *place* is its place among the gates of its lane: those of the jobs' limits come first, in the order of their keys.
    """

    gate: int
    own: Numbers
    on_limit: OnLimit
    place: int


def stands_at(gates: Iterable[tuple[int, Numbers, OnLimit]]) -> tuple[Stand, ...]:
    """Return the stands of a lane, given for each its gate, the jobs' numbers and what to do there."""
    return tuple(Stand(*each, place) for place, each in enumerate(gates))


def with_gate(stands: tuple[Stand, ...], gate: int) -> tuple[Stand, ...]:
    """Return *stands* and one more, at a gate to which the jobs bring no numbers."""
    return (*stands, Stand(gate, UNLIMITED, OnLimit.WAIT, len(stands)))


class Line(NamedTuple):
    """Where lanes wait: behind the same gate, with the same numbers for it, in the same part of a queue."""

    gate: int
    own: Numbers
    name: str  # tells it from all others


class Shut(NamedTuple):
    """A gate that refuses a lane's first job, and when it would not."""

    stand: Stand
    at: int


@dataclass(slots=True)
class Lane:
    """The waiting jobs of one queue that carry exactly the same limits; only the first is ever tested.

    A lane is ready (a claim will look at it), parked behind one shut gate, both (it was called
    and still stands in its line), or empty.
    """

    id: int
    tenant: str
    queue: str
    part: str
    stands: tuple[Stand, ...]
    apart: str | None = None  # the weight of the too heavy jobs that it was set apart for
    head: int | None = None
    priority: int = 0
    ord: int = 0
    cost: int = 1
    costs: str | None = None
    task: str | None = None  # of the head; None if it was not looked up
    line: Line | None = None
    ready: int = 0
    signature: str = ""
    fresh: bool = False
    gone: int = 0  # jobs taken from its front in this transaction
    unread: bool = False  # the head is the first job once those are gone
    upcoming: list[Head] = field(default_factory=list)  # the next head last

    @property
    def place(self) -> Queue:
        """Whose queue it is in."""
        return self.tenant, self.queue

    @property
    def where(self) -> Part:
        """In which part of whose queue it is."""
        return self.tenant, self.queue, self.part

    @property
    def behind(self) -> int | None:
        """The gate behind which it is parked."""
        return None if self.line is None else self.line.gate

    @property
    def rank(self) -> tuple[int, int]:
        """Sorts before the rank of a later job."""
        return (-self.priority, self.ord)

    @property
    def called(self) -> bool:
        return bool(self.ready) and self.line is not None

    @property
    def first(self) -> Head | None:
        """Its first job."""
        if self.head is None:
            return None
        return self.head, self.priority, self.ord, self.cost, self.costs, self.task

    def begin_with(self, job: Head) -> None:
        """Have *job* be the first."""
        self.head, self.priority, self.ord, self.cost, self.costs, self.task = job

    def passes(self, gate: int) -> bool:
        """Tell whether its jobs must pass a gate."""
        return any(stand.gate == gate for stand in self.stands)

    def stand_at(self, gate: int) -> Stand:
        """Return its stand at one of its gates."""
        for stand in self.stands:  # often asked, so no generator
            if stand.gate == gate:
                return stand
        raise KeyError(gate)

    def cost_at(self, stand: Stand) -> int:
        """Return what the start of the first job weighs at one of its gates."""
        return self.cost if self.costs is None else cost_at(stand.place, self.cost, self.costs)

    @property
    def weight(self) -> str:
        """What the start of the first job weighs at all its gates; a digest of that where it is long."""
        text = str(self.cost) if self.costs is None else f"{self.cost}:{self.costs}"
        return text if len(text) <= MAX_WEIGHT else hashlib.sha256(text.encode()).hexdigest()

    @property
    def heavy(self) -> bool:
        """Whether this lane was set apart for jobs heavier than the rate in force."""
        return self.apart is not None


@dataclass(slots=True)
class Post:
    """A gate with what the engine keeps beside its memory."""

    gate: Gate
    lanes: int
    asking: int
    heavy: bool
    turn: "Turn | None"
    saved: tuple[int, int, int] = (0, 0, 0)  # running, lanes and asking as they are in the store
    memory_changed: bool = False
    following: int = 0  # starts of this transaction that follow another in a relay
    gathering: int | None = (
        None  # slots that the first waiting call gathers, if it wants several; None if unknown
    )
    wake: int | None = None
    group: Group | None = None  # the gate itself, if it is that of a resource group
    member_of: tuple[int, ...] = ()  # the groups whose resource the gate's key is
