"""The rules: how many at once, how many per window, how far apart.

A *limit* is a rule that a job carries for one key; a *gate* is what is remembered for that key.
Pure: no clock, no store.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Final

from penstock.errors import InvalidLimitError
from penstock.names import name_problem

MAX_NUMBER: Final = 2**53 - 1


class OnLimit(StrEnum):
    """What becomes of a job that finds a gate shut."""

    WAIT = "wait"
    RESCHEDULE = "reschedule"
    DROP = "drop"


@dataclass(frozen=True, slots=True)
class Window:
    """So many starts per period (in microseconds); a throttle lets a *burst* of so many through at once."""

    limit: int
    period: int
    burst: int = 1

    def __post_init__(self) -> None:
        whole("limit", self.limit, least=0)
        whole("period", self.period, least=1)
        if self.burst != 1:
            whole("burst", self.burst, least=1)
            if self.limit and self.burst * self.gap > MAX_NUMBER:
                raise InvalidLimitError("burst", f"{self.burst} would take too long to be filled again")

    @property
    def gap(self) -> int:
        """How far apart evenly spaced starts are; rounded up, so never too close."""
        return -(-self.period // self.limit)

    @property
    def fill(self) -> int:
        """How long it takes to fill an empty bucket; no shorter than the period."""
        return max(self.period, self.burst * self.gap) if self.burst > 1 and self.limit else self.period

    def lead(self, cost: int) -> int:
        """How long before the bucket is full a start of *cost* fits: one heavier than the bucket needs it full."""
        return (self.burst - min(cost, self.burst)) * self.gap


@dataclass(frozen=True)
class Numbers:
    """The numbers of one limit; each is optional and all that are given must be kept.

    Zero means shut: nothing starts.  If it *floats*, the number of slots is only what its key begins with.
    """

    slots: int | None = None
    rate: Window | None = None
    throttle: Window | None = None
    floats: bool = False

    def __post_init__(self) -> None:
        if self.slots is not None:
            whole("slots", self.slots, least=0)

    @cached_property
    def text(self) -> str:
        """The numbers as canonical text: equal numbers, equal text."""
        # A penstock that does not know of the sign reads the same number.
        parts = [] if self.slots is None else [f"c{'+' if self.floats else ''}{self.slots}"]
        if self.rate is not None:
            parts.append(f"r{self.rate.limit}/{self.rate.period}")
        if self.throttle is not None:
            burst = f"/{self.throttle.burst}" if self.throttle.burst > 1 else ""
            parts.append(f"t{self.throttle.limit}/{self.throttle.period}{burst}")
        return ";".join(parts)

    @property
    def span(self) -> int:
        """How far back starts must be remembered; 0 if they need not be."""
        rate = self.rate.period if self.rate else 0
        throttle = self.throttle.fill if self.throttle else 0
        return max(rate, throttle)


UNLIMITED: Final = Numbers()


@dataclass(frozen=True, slots=True)
class Floating:
    """A number of slots that some worker recomputes every so often, never less than *least* nor more than *most*.

    The worker has the *handler* of that name; without a name it is any worker of a queue in which the key is in use.
    """

    handler: str
    every: int
    metadata: str = "{}"
    least: int = 0
    most: int | None = None

    def __post_init__(self) -> None:
        check_bounds(self.least, self.most)


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit of one job: a key, its numbers, and what to do when the gate is shut.

    The gate of a *shared* one belongs to no tenant, so that jobs of all tenants pass it; else it is the tenant's own.
    A start weighs *cost* at this gate; None if it weighs what the job costs elsewhere.
    If it names a *group*, the key is that of a resource group: a start takes one of its resources that has room.
    """

    key: str
    numbers: Numbers
    on_limit: OnLimit = OnLimit.WAIT
    floating: Floating | None = None
    shared: bool = False
    cost: int | None = None
    group: bool = False

    def __post_init__(self) -> None:
        check_key(self.key)
        if self.group:
            self._check_group()
        if self.cost is not None:
            check_cost(self.cost)
        if self.floating is not None:
            self._float(self.floating)

    def owner(self, tenant: str) -> str:
        """Return the tenant whose gate a job of *tenant* passes."""
        return "" if self.shared else tenant

    def _check_group(self) -> None:
        if self.numbers != UNLIMITED or self.floating is not None or self.cost is not None:
            problem = f"resource group {self.key!r} has no numbers or costs of its own; its resources have"
            raise InvalidLimitError("group", problem)

    def _float(self, floating: Floating) -> None:
        slots = self.numbers.slots
        if slots is None:
            raise InvalidLimitError("slots", "a floating limit needs a number to begin with")
        if nearest(slots, floating.least, floating.most) != slots:
            raise InvalidLimitError("slots", f"{slots} is not {bounds_text(floating.least, floating.most)}")
        if not self.numbers.floats:
            object.__setattr__(self, "numbers", replace(self.numbers, floats=True))


def check_bounds(least: int, most: int | None) -> None:
    """Raise unless a floating value can be kept within these bounds."""
    whole("least", least, least=0)
    if most is not None:
        whole("most", most, least=0)
        if most < least:
            raise InvalidLimitError("most", f"{most} must be at least {least}, which is `least`")


def nearest(value: int, least: int, most: int | None) -> int:
    """Return what is nearest to a floating *value* within its bounds."""
    return max(least, value if most is None else min(value, most))


def bounds_text(least: int, most: int | None) -> str:
    """Say within which bounds a floating value is kept."""
    return f"at least {least}" + ("" if most is None else f" and at most {most}")


def check_key(key: object) -> None:
    """Raise unless *key* can name a gate."""
    if (problem := name_problem(key)) is not None:
        raise InvalidLimitError("key", problem)


def check_cost(cost: object) -> int:
    """Return *cost*, or raise unless a start can weigh that much."""
    return whole("cost", cost, least=1)


def numbers_from_text(text: str) -> Numbers:
    """Read back what `Numbers.text` wrote."""
    slots, rate, throttle, floats = None, None, None, False
    for part in filter(None, text.split(";")):
        match part[0]:
            case "c":
                slots, floats = int(part[1:]), part[1] == "+"
            case "r":
                rate = Window(*map(int, part[1:].split("/")))
            case _:
                throttle = Window(*map(int, part[1:].split("/")))
    return Numbers(slots, rate, throttle, floats)


def whole(name: str, value: object, least: int, most: int = MAX_NUMBER) -> int:
    """Return *value*, or raise unless it is a whole number from *least* to *most*."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidLimitError(name, f"{value!r} must be a whole number, at least {least}")
    if not least <= value <= most:
        raise InvalidLimitError(name, f"{value} must be at least {least} and at most {most}")
    return value
