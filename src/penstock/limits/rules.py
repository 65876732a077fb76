"""The rules: how many at once, how many per window, how far apart.

A *limit* is a rule that a job carries for one key; a *gate* is what is remembered for that key.
Pure: no clock, no store.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Final

from penstock.errors import InvalidLimitError

MAX_KEY: Final = 256
MAX_NUMBER: Final = 2**53 - 1
# A lone surrogate cannot be stored as UTF-8.
_KEY: Final = re.compile(r"[^\s\x00-\x1f\x7f-\x9f\ud800-\udfff]+")


class OnLimit(StrEnum):
    """What becomes of a job that finds a gate shut."""

    WAIT = "wait"
    RESCHEDULE = "reschedule"
    DROP = "drop"


@dataclass(frozen=True, slots=True)
class Window:
    """So many starts per period (in microseconds)."""

    limit: int
    period: int

    def __post_init__(self) -> None:
        _whole("limit", self.limit, least=0)
        _whole("period", self.period, least=1)

    @property
    def gap(self) -> int:
        """How far apart evenly spaced starts are; rounded up, so never too close."""
        return -(-self.period // self.limit)


@dataclass(frozen=True)
class Numbers:
    """The numbers of one limit; each is optional and all that are given must be kept.

    Zero means shut: nothing starts.
    """

    slots: int | None = None
    rate: Window | None = None
    throttle: Window | None = None

    def __post_init__(self) -> None:
        if self.slots is not None:
            _whole("slots", self.slots, least=0)

    @cached_property
    def text(self) -> str:
        """The numbers as canonical text: equal numbers, equal text."""
        parts = [] if self.slots is None else [f"c{self.slots}"]
        if self.rate is not None:
            parts.append(f"r{self.rate.limit}/{self.rate.period}")
        if self.throttle is not None:
            parts.append(f"t{self.throttle.limit}/{self.throttle.period}")
        return ";".join(parts)

    @property
    def span(self) -> int:
        """How far back starts must be remembered; 0 if they need not be."""
        rate = self.rate.period if self.rate else 0
        throttle = self.throttle.period if self.throttle else 0
        return max(rate, throttle)


UNLIMITED: Final = Numbers()


@dataclass(frozen=True, slots=True)
class Floating:
    """A number of slots that a handler on some worker recomputes every so often."""

    handler: str
    every: int
    metadata: str = "{}"


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit of one job: a key, its numbers, and what to do when the gate is shut.

    The gate of a *shared* one belongs to no tenant, so that jobs of all tenants pass it; else it is the tenant's own.
    """

    key: str
    numbers: Numbers
    on_limit: OnLimit = OnLimit.WAIT
    floating: Floating | None = None
    shared: bool = False

    def __post_init__(self) -> None:
        check_key(self.key)
        if self.floating is not None and self.numbers.slots is None:
            raise InvalidLimitError("slots", "a floating limit needs a number to begin with")


def check_key(key: object) -> None:
    """Raise unless *key* can name a gate."""
    if not isinstance(key, str) or not _KEY.fullmatch(key):
        raise InvalidLimitError(
            "key", f"{key!r} must be text without white space or control characters, and not empty"
        )
    if len(key) > MAX_KEY:
        raise InvalidLimitError(
            "key", f"{key[:40]!r}… has {len(key)} characters; at most {MAX_KEY} are allowed"
        )


def numbers_from_text(text: str) -> Numbers:
    """Read back what `Numbers.text` wrote."""
    slots, rate, throttle = None, None, None
    for part in filter(None, text.split(";")):
        match part[0]:
            case "c":
                slots = int(part[1:])
            case "r":
                rate = Window(*map(int, part[1:].split("/")))
            case _:
                throttle = Window(*map(int, part[1:].split("/")))
    return Numbers(slots, rate, throttle)


def _whole(name: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidLimitError(name, f"{value!r} must be a whole number, at least {least}")
    if not least <= value <= MAX_NUMBER:
        raise InvalidLimitError(name, f"{value} must be at least {least} and at most {MAX_NUMBER}")
