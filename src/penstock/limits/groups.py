"""A gate that is any of several: a start takes one resource of a group, one that has room.

A resource has room if its own gate, that of its key, is open and its day allows one more start.  The group's gate
opens when the first of them has room, and remembers nothing itself but how many run.

Which of those with room is taken, the group's strategy says.  By turns and by weight each resource has a *place* in a
time of the group's own, which goes on by a step for each start, shared by the weights of those with room.  A resource
is due for a start when its place is reached, and of those that are due the one whose next place comes first is taken.
So the share of each is never further than one start from what its weight says, however many there are.  One that had
no room for a while has no claim to what it missed.

Pure: times are arguments, in microseconds; chance is an argument too.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from penstock.errors import InvalidLimitError
from penstock.limits.calendar import DailyCap, Days
from penstock.limits.gate import ON_RELEASE, Gate
from penstock.limits.rules import UNLIMITED, Numbers, check_key, whole

MAX_WEIGHT: Final = 10_000
MAX_TITLE: Final = 255
_STEP: Final = 2**40  # of a group's own time; so long that what is lost by rounding does not matter
_FAR: Final = 2**60  # where that time is set back to 0


class Strategy(StrEnum):
    """Which of the resources that have room a start takes: one after the other, by weight, or any."""

    ROUND_ROBIN = "round_robin"
    WEIGHTED = "weighted"
    RANDOM = "random"


@dataclass(frozen=True, slots=True)
class Resource:
    """What a start may take: its *key* is also that of a gate, so it can have limits like any other key.

    One that is not *enabled* is never taken.  Its *title* is for people.
    """

    key: str
    weight: int = 1
    enabled: bool = True
    daily: DailyCap | None = None
    title: str = ""

    def __post_init__(self) -> None:
        check_key(self.key)
        if len(self.title) > MAX_TITLE:
            raise InvalidLimitError("title", f"must have at most {MAX_TITLE} characters")
        whole("weight", self.weight, 1, MAX_WEIGHT)


@dataclass(slots=True, eq=False)
class Member:
    """A resource of a group with its gate, the starts of its days, and its *place* in the group's own time.

    Its *number* is its own: a resource that is put again after it was deleted has another one.
    It was put at the moments *created* and *updated*, first and last.
    """

    resource: Resource
    gate: Gate
    days: Days = field(default_factory=Days)
    place: int = 0
    number: int = 0
    created: int = 0
    updated: int = 0

    def opens_at(self, cost: int, now: int, kept: int = 0) -> int:
        """Return the first moment at which it has room for a start; *kept* as in `Gate.opens_at`."""
        if not self.resource.enabled:
            return ON_RELEASE
        at, daily = self.gate.opens_at(UNLIMITED, cost, now, kept), self.resource.daily
        if daily is None or at == ON_RELEASE:
            return at
        return daily.opens_at(self.days, max(at, now), 2 if kept else 1)

    def has_day(self, now: int) -> bool:
        """Tell whether it can be taken today, as far as the calendar says."""
        daily = self.resource.daily
        return self.resource.enabled and (daily is None or daily.opens_at(self.days, now) == now)

    def start(self, now: int) -> str | None:
        """Count a start that begins by `last_moment`; return where it was counted, for `take_back`."""
        if self.resource.daily is None:
            return None
        day = self.resource.daily.day(now)
        self.days.add(day)
        return f"{self.number}:{day}"

    def last_moment(self, now: int) -> int:
        """Return the last moment at which a start that is counted *now* may begin."""
        daily = self.resource.daily
        return ON_RELEASE if daily is None else daily.last_moment(now)

    def take_back(self, counted: str) -> bool:
        """Forget a start that never began; tell whether it was counted here."""
        number, day = map(int, counted.split(":"))
        return number == self.number and self.days.remove(day)

    def renew(self, resource: Resource, now: int) -> None:
        """Change the resource.  If its days begin at other moments, all that may belong to the present one does."""
        before, after = self.resource.daily, resource.daily
        if before is not None and after is not None and before.zone != after.zone:
            today = before.day(now)
            self.days = Days({after.day(now): self.days.on(today) + self.days.on(today - 1)})
        self.resource = resource


@dataclass(slots=True)
class Group(Gate):
    """The gate of a resource group."""

    strategy: Strategy = Strategy.ROUND_ROBIN
    place: int = 0
    members: list[Member] = field(default_factory=list)

    def openings(self, cost: int, now: int, kept: int = 0) -> list[tuple[Member, int]]:
        """Return when each member has room for a start of *cost*.

        *kept* is the cost of another start that must find room too, in the same resource or in another.
        """
        found = [(member, member.opens_at(cost, now)) for member in self.members]
        if not kept:
            return found
        others = sorted((member.opens_at(kept, now), n) for n, member in enumerate(self.members))
        return [
            (m, min(max(at, _but(others, n)), m.opens_at(cost, now, kept))) for n, (m, at) in enumerate(found)
        ]

    def opens_at(self, own: Numbers, cost: int, now: int, kept: int = 0, slots: int = 1) -> int:  # noqa: ARG002 - as any gate
        """Return the first moment at which one of the resources has room."""
        return min((at for _, at in self.openings(cost, now, kept)), default=ON_RELEASE)

    def next_change(self, now: int) -> int:
        """Return when the clock alone will change the rules of one of the resources, or the day of one begins."""
        rules = [member.gate.rules for member in self.members]
        changes = [each.next_change(now) for each in rules if each is not None]
        changes += [
            member.last_moment(now) + 1 for member in self.members if member.resource.daily is not None
        ]
        return min(changes, default=ON_RELEASE)

    def too_heavy(self, own: Numbers, cost: int, now: int) -> bool:
        """Tell whether a start of *cost* can never fit into the rate of any of its resources."""
        enabled = [member.gate for member in self.members if member.resource.enabled]
        return bool(enabled) and all(gate.too_heavy(own, cost, now) for gate in enabled)

    def leaves_room(self, own: Numbers, cost: int, other: int, now: int, slots: int = 1) -> bool:
        """Tell whether a start of *cost* would find room after one of cost *other*."""
        return self.opens_at(own, other, now, cost, slots) <= now

    def member(self, key: str) -> Member | None:
        """Return the resource of this key."""
        return next((member for member in self.members if member.resource.key == key), None)

    def choose(self, having_room: Sequence[Member], chance: float) -> Member:
        """Return which of those that have room a start takes; *chance* is from 0 up to but not including 1."""
        if self.strategy is Strategy.RANDOM:
            return having_room[int(chance * len(having_room))]
        by_weight = self.strategy is Strategy.WEIGHTED
        weights = {m: m.resource.weight if by_weight else 1 for m in having_room}
        steps = {m: _STEP // weight for m, weight in weights.items()}
        for member, step in steps.items():
            if member.place + 2 * step < self.place:
                member.place = self.place  # it had no room for a while
        self.place = max(self.place, min(member.place for member in having_room))
        due = [member for member in having_room if member.place <= self.place]
        chosen = min(due, key=lambda m: (m.place + steps[m], m.resource.key))
        chosen.place += steps[chosen]
        self.place += _STEP // sum(weights.values())
        if self.place > _FAR:
            self._set_back()
        return chosen

    def _set_back(self) -> None:
        for member in self.members:
            member.place = max(member.place - self.place, 0)
        self.place = 0


def _but(openings: Sequence[tuple[int, int]], number: int) -> int:
    """Return the first of these (moment, number) that is not of this *number*."""
    return next((at for at, n in openings[:2] if n != number), ON_RELEASE)
