"""What happened in one minute, or in several, at a gate, in a queue or for a task.

Numbers of things that stand (jobs that wait, slots in use) are those from *before*, when the minute began.  With them
goes for how long all of them stood: a change adds what it is worth until the end of the minute, so changes may be added
in any order.  Of a minute that is not over, `until` takes off what lies ahead.
"""

import zlib
from base64 import b85decode, b85encode
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from penstock.minutes import spread
from penstock.minutes.spread import Spread

MINUTE: Final = 60_000_000
QUARTER: Final = 15 * MINUTE
_ROUNDED: Final = 1_000
_ADDED: Final = (
    "arrived", "started", "undone", "ended", "failed", "dropped", "waiting_time", "kept_time", "used_time",
)  # fmt: skip
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode


@dataclass(slots=True)
class Level:
    """What stands at a moment: jobs that wait, that a gate keeps, that are scheduled; slots in use."""

    at: int = 0
    waiting: int = 0
    kept: int = 0
    scheduled: int = 0
    used: int = 0


@dataclass(slots=True)
class Change:
    """What happened in one minute: counts, and how many more stand, now and for how long until the minute ends.

    *peak* is how many more slots were in use than at first, at most.
    """

    at: int = 0  # of the last
    arrived: int = 0
    started: int = 0
    undone: int = 0
    ended: int = 0
    failed: int = 0
    dropped: int = 0
    waiting: int = 0
    kept: int = 0
    scheduled: int = 0
    used: int = 0
    peak: int = 0
    waiting_time: int = 0
    kept_time: int = 0
    used_time: int = 0
    waits: Spread = field(default_factory=dict)
    held: Spread = field(default_factory=dict)

    def include(self, other: "Change") -> None:
        """Add another one, of the same minute."""
        self.at = max(self.at, other.at)
        self.peak = max(self.peak, self.used + max(other.peak, other.used))
        self.arrived += other.arrived
        self.started += other.started
        self.undone += other.undone
        self.ended += other.ended
        self.failed += other.failed
        self.dropped += other.dropped
        self.waiting += other.waiting
        self.kept += other.kept
        self.scheduled += other.scheduled
        self.used += other.used
        self.waiting_time += other.waiting_time
        self.kept_time += other.kept_time
        self.used_time += other.used_time
        spread.add(self.waits, other.waits)
        spread.add(self.held, other.held)


@dataclass(slots=True)
class Minute:
    """What happened in a span of time that begins *at* a moment."""

    at: int
    arrived: int = 0
    started: int = 0
    undone: int = 0  # starts whose handlers never began
    ended: int = 0
    failed: int = 0
    dropped: int = 0
    waiting: int = 0
    kept: int = 0
    used: int = 0
    most: int = 0  # slots in use at once
    waiting_time: int = 0
    kept_time: int = 0
    used_time: int = 0
    waits: Spread = field(default_factory=dict)
    held: Spread = field(default_factory=dict)

    @staticmethod
    def quiet(at: int, level: Level, span: int = MINUTE) -> "Minute":
        """Return a span in which nothing happens."""
        return Minute(
            at, waiting=level.waiting, kept=level.kept, used=level.used, most=level.used,
            waiting_time=level.waiting * span, kept_time=level.kept * span, used_time=level.used * span,
        )  # fmt: skip

    def add(self, change: Change, level: Level) -> None:
        """Add what happened, and move the level."""
        self.arrived += change.arrived
        self.started += change.started
        self.undone += change.undone
        self.ended += change.ended
        self.failed += change.failed
        self.dropped += change.dropped
        self.waiting_time += change.waiting_time
        self.kept_time += change.kept_time
        self.used_time += change.used_time
        self.most = max(self.most, level.used + change.peak)
        spread.add(self.waits, change.waits)
        spread.add(self.held, change.held)
        level.at = max(level.at, change.at)
        level.waiting += change.waiting
        level.kept += change.kept
        level.scheduled += change.scheduled
        level.used += change.used

    def until(self, now: int, level: Level) -> None:
        """Take off what lies ahead in a minute that is not over, given what stands."""
        ahead = self.at + MINUTE - now
        if ahead > 0:
            self.waiting_time -= level.waiting * ahead
            self.kept_time -= level.kept * ahead
            self.used_time -= level.used * ahead

    def values(self) -> list[Any]:
        """Return it as it is stored, without its moment."""
        return [*self._numbers(), _text(self.waits), _text(self.held)]

    def packed(self) -> list[Any]:
        """Return it as it is stored among others: times are rounded to milliseconds."""
        *numbers, waiting, kept, used = self._numbers()
        times = (time // _ROUNDED for time in (waiting, kept, used))
        return [self.at // MINUTE, *numbers, *times, spread.to_flat(self.waits), spread.to_flat(self.held)]

    def _numbers(self) -> list[int]:
        return [
            self.arrived, self.started, self.undone, self.ended, self.failed, self.dropped, self.waiting, self.kept,
            self.used, self.most, self.waiting_time, self.kept_time, self.used_time,
        ]  # fmt: skip

    @staticmethod
    def of(at: int, *values: Any) -> "Minute":  # noqa: ANN401 - a row of a database
        """Return what `values` wrote."""
        *numbers, waits, held = values
        found = Minute(at, *numbers)
        found.waits, found.held = spread.from_flat(_decode(waits)), spread.from_flat(_decode(held))
        return found


def together(at: int, minutes: Iterable[Minute]) -> Minute:
    """Return what happened in all of these, which follow one another, as one span that begins *at* a moment."""
    known = list(minutes)
    first = known[0]
    whole = Minute(at, waiting=first.waiting, kept=first.kept, used=first.used)
    for each in known:
        for name in _ADDED:
            setattr(whole, name, getattr(whole, name) + getattr(each, name))
        whole.most = max(whole.most, each.most)
        spread.add(whole.waits, each.waits)
        spread.add(whole.held, each.held)
    return whole


def packed(minutes: Iterable[Minute], before: str = "") -> str:
    """Write spans into one text, after those of a text that was written *before*."""
    lines = b"".join(_encode(each.packed()) + b"\n" for each in minutes)
    return b85encode(zlib.compress(_lines(before) + lines)).decode()


def unpacked(text: str) -> list[Minute]:
    """Read what `packed` wrote."""
    found = []
    for line in _lines(text).splitlines():
        at, *numbers, waiting, kept, used, waits, held = _decode(line)
        minute = Minute(at * MINUTE, *numbers, *(time * _ROUNDED for time in (waiting, kept, used)))
        minute.waits, minute.held = spread.from_flat(waits), spread.from_flat(held)
        found.append(minute)
    return found


def _lines(text: str) -> bytes:
    return zlib.decompress(b85decode(text)) if text else b""


def _text(counts: Spread) -> str:
    return _encode(spread.to_flat(counts)).decode()
