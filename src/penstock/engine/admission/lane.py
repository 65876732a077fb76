"""A lane and a gate as a transaction works on them, before they are written back."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from penstock.limits.gate import Gate, Rules
from penstock.limits.rules import Numbers, OnLimit, numbers_from_text
from penstock.store.session import Queue


class Stand(NamedTuple):
    """One gate a lane's jobs must pass: the numbers they bring for it, and what to do when it is shut."""

    gate: int
    own: Numbers
    on_limit: OnLimit


@dataclass(slots=True)
class Lane:
    """The waiting jobs of one queue that carry exactly the same limits; only the first is ever tested.

    A lane is ready (a claim will look at it), parked behind one shut gate, both (it was called
    and still stands in its line), or empty.
    """

    id: int
    tenant: str
    queue: str
    gates: str
    head: int | None
    priority: int
    ord: int
    cost: int
    behind: int | None
    line: str | None
    ready: int
    signature: str = ""
    fresh: bool = False
    gone: int = 0  # jobs taken from its front in this transaction
    unread: bool = False  # the head is the first job once those are gone
    upcoming: list[tuple[int, int, int, int]] = field(default_factory=list)  # the next head last
    stands: tuple[Stand, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.stands = stands_from_text(self.gates)

    @property
    def place(self) -> Queue:
        """Whose queue it is in."""
        return self.tenant, self.queue

    @property
    def rank(self) -> tuple[int, int]:
        """Sorts before the rank of a later job."""
        return (-self.priority, self.ord)

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

    @property
    def rank(self) -> tuple[int, int]:
        return (-self.priority, self.ord)


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


@lru_cache(maxsize=65_536)
def stands_from_text(text: str) -> tuple[Stand, ...]:
    """Read the gates of a lane."""
    plain = json.loads(text.partition("#")[0])
    return tuple(Stand(gate, numbers_from_text(own), OnLimit(on)) for gate, own, on in plain)


def stands_to_text(stands: Iterable[Stand], apart: int | None = None) -> str:
    """Write the gates of a lane; *apart* is the cost of the too heavy jobs it was set apart for."""
    text = json.dumps([[s.gate, s.own.text, s.on_limit.value] for s in stands], separators=(",", ":"))
    return text if apart is None else f"{text}#{apart}"


def line_of(lane: Lane, stand: Stand) -> str:
    """Name the line in which *lane* waits at one of its gates: same gate, same queue of a tenant, same numbers."""
    apart = f"|#{lane.cost}" if lane.heavy else ""
    tenant = f"|@{lane.tenant}" if lane.tenant else ""
    return f"{stand.gate}|{lane.queue}|{stand.own.text}{apart}{tenant}"


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
