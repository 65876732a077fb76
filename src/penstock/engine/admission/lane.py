"""A lane and a gate as a transaction works on them, before they are written back."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple

from penstock.limits.costs import cost_at
from penstock.limits.gate import Gate, Rules
from penstock.limits.groups import Group
from penstock.limits.rules import Numbers, OnLimit, numbers_from_text
from penstock.store.session import Part, Queue
from penstock.store.waiting import Head

# Characters: a line has the names of a queue and a tenant too, and an index of PostgreSQL takes 2,700 bytes.
MAX_WEIGHT: Final = 64


class Stand(NamedTuple):
    """One gate a lane's jobs must pass: the numbers they bring for it, and what to do when it is shut.

    *place* is its place among the gates of its lane: those of the jobs' limits come first, in the order of their keys.
    """

    gate: int
    own: Numbers
    on_limit: OnLimit
    place: int = 0


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
    gates: str
    head: int | None
    priority: int
    ord: int
    cost: int
    costs: str | None
    behind: int | None
    line: str | None
    ready: int
    task: str | None  # of the head; None if it was not looked up
    signature: str = ""
    fresh: bool = False
    gone: int = 0  # jobs taken from its front in this transaction
    unread: bool = False  # the head is the first job once those are gone
    upcoming: list[Head] = field(default_factory=list)  # the next head last
    stands: tuple[Stand, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.stands = stands_from_text(self.gates)

    @property
    def place(self) -> Queue:
        """Whose queue it is in."""
        return self.tenant, self.queue

    @property
    def where(self) -> Part:
        """In which part of whose queue it is."""
        return self.tenant, self.queue, self.part

    @property
    def rank(self) -> tuple[int, int]:
        """Sorts before the rank of a later job."""
        return (-self.priority, self.ord)

    def cost_at(self, stand: Stand) -> int:
        """Return what the start of the first job weighs at one of its gates."""
        return self.cost if self.costs is None else cost_at(stand.place, self.cost, self.costs)

    @property
    def weight(self) -> str:
        """What the start of the first job weighs at all its gates; a digest of that where it is long."""
        text = str(self.cost) if self.costs is None else f"{self.cost}:{self.costs}"
        return text if len(text) <= MAX_WEIGHT else hashlib.sha256(text.encode()).hexdigest()

    @property
    def called(self) -> bool:
        return bool(self.ready) and self.behind is not None

    @property
    def heavy(self) -> bool:
        """Whether this lane was set apart for jobs heavier than the rate in force."""
        return "#" in self.gates


class Turn(NamedTuple):
    """Whose turn it is at a gate.  *until* is when it lapses, once all the holder's gates are open."""

    seq: int
    lane: int
    priority: int
    ord: int
    cost: int
    until: int | None
    costs: str | None

    @property
    def rank(self) -> tuple[int, int]:
        return (-self.priority, self.ord)

    def cost_at(self, stand: Stand) -> int:
        """Return what the holder's start weighs at one of its gates."""
        return cost_at(stand.place, self.cost, self.costs)


@dataclass(slots=True)
class Post:
    """A gate with what the engine keeps beside its memory."""

    gate: Gate
    lanes: int
    asking: int
    heavy: bool
    turn: Turn | None
    saved: tuple[int, int, int] = (0, 0, 0)  # running, lanes and asking as they are in the store
    memory_changed: bool = False
    gathering: int | None = (
        None  # slots that the first waiting call gathers, if it wants several; None if unknown
    )
    wake: int | None = None
    group: Group | None = None  # the gate itself, if it is that of a resource group
    member_of: tuple[int, ...] = ()  # the groups whose resource the gate's key is


@lru_cache(maxsize=65_536)
def stands_from_text(text: str) -> tuple[Stand, ...]:
    """Read the gates of a lane."""
    plain = json.loads(text.partition("#")[0])
    return tuple(
        Stand(gate, numbers_from_text(own), OnLimit(on), place) for place, (gate, own, on) in enumerate(plain)
    )


def stands_to_text(stands: Iterable[Stand], apart: str | None = None) -> str:
    """Write the gates of a lane; *apart* is the weight of the too heavy jobs it was set apart for."""
    text = json.dumps([[s.gate, s.own.text, s.on_limit.value] for s in stands], separators=(",", ":"))
    return text if apart is None else f"{text}#{apart}"


def line_of(lane: Lane, stand: Stand) -> str:
    """Name the line in which *lane* waits at one of its gates: same gate, same part of a queue, same numbers."""
    apart = f"|#{lane.weight}" if lane.heavy else ""
    # A name has no control characters, so its own bars cannot be taken for separators; the tenant is the rest.
    queue = lane.queue.replace("|", "\x1f")
    line = f"{stand.gate}|{queue}|{stand.own.text}{apart}"
    if lane.part:
        line += f"|/{lane.part.replace('|', chr(0x1F))}"
    return f"{line}|@{lane.tenant}" if lane.tenant else line


def in_part(part: str, signature: str) -> str:
    """Return the signature of the lane in a part that is like one in the first part of the queue."""
    return f"{part}\x1e{signature}" if part else signature


@lru_cache(maxsize=65_536)
def stand_of(line: str) -> tuple[int, Numbers]:
    """Return the gate and the numbers of a line."""
    gate, _, own = line.split("|", 3)[:3]
    return int(gate), numbers_from_text(own)


def rules_from_text(text: str | None) -> Rules | None:
    """Read what was decided about a gate."""
    if text is None:
        return None
    plain = json.loads(text)
    return Rules(
        configured=numbers_from_text(plain["configured"]) if "configured" in plain else None,
        floating=plain.get("floating"),
        override=numbers_from_text(plain["override"]) if "override" in plain else None,
        override_until=plain.get("override_until"),
        shut_until=plain.get("shut_until", 0),
        shut_reason=plain.get("shut_reason", ""),
    )


def rules_to_text(rules: Rules) -> str | None:
    """Write what was decided about a gate; nothing if nothing was."""
    if rules.empty:
        return None
    plain: dict[str, object] = {}
    if rules.configured is not None:
        plain["configured"] = rules.configured.text
    if rules.floating is not None:
        plain["floating"] = rules.floating
    if rules.override is not None:
        plain["override"] = rules.override.text
        if rules.override_until is not None:
            plain["override_until"] = rules.override_until
    if rules.shut_until:
        plain["shut_until"] = rules.shut_until
        if rules.shut_reason:
            plain["shut_reason"] = rules.shut_reason
    return json.dumps(plain)
