"""What happened in one minute, or in several, at a gate, in a queue or for a task.

Numbers of things that stand (jobs that wait, slots in use) are those from *before*, when the minute began.  With them
goes how long each stood: `kept_time` is the sum over all jobs that a gate kept, `used_time` over all slots in use,
both until the *last* change.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from penstock.minutes import spread
from penstock.minutes.spread import Spread
from penstock.minutes.tally import KEPT, SCHEDULED, USED, WAITING

MINUTE: Final = 60_000_000
QUARTER: Final = 15 * MINUTE
_COUNTED: Final = 6  # the first numbers of a change are counts of what happened
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

    def move(self, at: int, numbers: Sequence[int]) -> None:
        """Go on to what stands after a change."""
        self.at = max(self.at, at)
        self.waiting += numbers[WAITING]
        self.kept += numbers[KEPT]
        self.scheduled += numbers[SCHEDULED]
        self.used += numbers[USED]


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
    last: int = 0
    kept_time: int = 0
    used_time: int = 0
    waits: Spread = field(default_factory=dict)
    held: Spread = field(default_factory=dict)

    @staticmethod
    def after(at: int, level: Level) -> "Minute":
        """Return a span in which nothing has happened yet."""
        return Minute(at, waiting=level.waiting, kept=level.kept, used=level.used, most=level.used, last=at)

    def pass_time(self, until: int, kept: int, used: int) -> None:
        """Let time pass in which nothing changed."""
        span = until - self.last
        if span > 0:
            self.kept_time += kept * span
            self.used_time += used * span
            self.last = until

    def count(self, level: Level, at: int, numbers: Sequence[int], waits: Spread, held: Spread) -> None:
        """Add a change, and move the level."""
        self.pass_time(at, level.kept, level.used)
        arrived, started, undone, ended, failed, dropped = numbers[:_COUNTED]
        self.arrived += arrived
        self.started += started
        self.undone += undone
        self.ended += ended
        self.failed += failed
        self.dropped += dropped
        level.move(at, numbers)
        self.most = max(self.most, level.used)
        spread.add(self.waits, waits)
        spread.add(self.held, held)

    def values(self) -> list[Any]:
        """Return it as it is stored, without its moment."""
        return [
            self.arrived, self.started, self.undone, self.ended, self.failed, self.dropped, self.waiting, self.kept,
            self.used, self.most, self.last, self.kept_time, self.used_time, _text(self.waits), _text(self.held),
        ]  # fmt: skip

    @staticmethod
    def of(at: int, *values: Any) -> "Minute":  # noqa: ANN401 - a row of a database
        """Return what `values` wrote."""
        *numbers, waits, held = values
        return Minute(
            at, *numbers, waits=spread.from_flat(_decode(waits)), held=spread.from_flat(_decode(held))
        )


def together(at: int, minutes: Iterable[Minute]) -> Minute:
    """Return what happened in all of these, which follow one another, as one span that begins *at* a moment."""
    known = list(minutes)
    first = known[0]
    whole = Minute(at, waiting=first.waiting, kept=first.kept, used=first.used, last=known[-1].last)
    for each in known:
        for name in ("arrived", "started", "undone", "ended", "failed", "dropped", "kept_time", "used_time"):
            setattr(whole, name, getattr(whole, name) + getattr(each, name))
        whole.most = max(whole.most, each.most)
        spread.add(whole.waits, each.waits)
        spread.add(whole.held, each.held)
    return whole


def packed(minutes: Iterable[Minute]) -> str:
    """Write spans into one text, to which others can be added."""
    return "".join(
        _encode(
            [each.at, *each.values()[:-2], spread.to_flat(each.waits), spread.to_flat(each.held)]
        ).decode()
        + "\n"
        for each in minutes
    )


def unpacked(text: str) -> list[Minute]:
    """Read what `packed` wrote."""
    found = []
    for line in text.splitlines():
        *numbers, waits, held = _decode(line)
        found.append(Minute(*numbers, waits=spread.from_flat(waits), held=spread.from_flat(held)))
    return found


def _text(counts: Spread) -> str:
    return _encode(spread.to_flat(counts)).decode()
