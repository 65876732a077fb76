"""How many starts may there be in a day of the calendar, and when does the next day with room begin?

A day is a date as the clocks of a time zone show it: from midnight to midnight, however many hours that is.  Starts
are counted for each date, so a clock that is set back goes on with the count of the date that it shows again.

Pure: times are arguments, in microseconds.
"""

from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from penstock.errors import InvalidLimitError
from penstock.limits.gate import ON_RELEASE
from penstock.limits.rules import whole

MAX_DAYS: Final = 3_650
# A handler that is claimed so shortly before midnight could not begin in its day.
EVE: Final = 10_000
KEPT: Final = 8  # days, before and after the last start, whose counts are kept: clocks are set by less

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_MICROSECOND: Final = timedelta(microseconds=1)
_DAY: Final = timedelta(days=1)
_LAST_YEAR: Final = 2_999


@dataclass(frozen=True, slots=True)
class Ramp:
    """A cap that grows evenly: *cap* up to and on the day it starts, the whole one so many *days* later."""

    start: date
    days: int
    cap: int = 0

    def __post_init__(self) -> None:
        whole("ramp.days", self.days, 1, MAX_DAYS)
        whole("ramp.cap", self.cap, 0)
        whole("ramp.start", self.start.year, 1, _LAST_YEAR)


@dataclass(slots=True)
class Days:
    """How many starts there were on each date, by its number."""

    counts: dict[int, int] = field(default_factory=dict)

    def on(self, day: int) -> int:
        """Return how many starts there were on a day."""
        return self.counts.get(day, 0)

    def add(self, day: int) -> None:
        """Count a start, and forget days that are far from it."""
        near = {known: count for known, count in self.counts.items() if abs(known - day) <= KEPT}
        self.counts = near | {day: self.on(day) + 1}

    def remove(self, day: int) -> bool:
        """Take a start back; tell whether one was counted."""
        if not self.on(day):
            return False
        self.counts[day] -= 1
        return True

    @property
    def text(self) -> str:
        """The counts as text: equal counts, equal text."""
        return ",".join(f"{day}:{count}" for day, count in sorted(self.counts.items()) if count)

    @classmethod
    def from_text(cls, text: str) -> "Days":
        """Read back what `text` wrote."""
        pairs = (pair.split(":") for pair in text.split(",") if pair)
        return cls({int(day): int(count) for day, count in pairs})


@dataclass(frozen=True, slots=True)
class DailyCap:
    """At most so many starts on each date of a time zone; fewer while it ramps up.  Zero means shut."""

    most: int
    zone: str = "UTC"
    ramp: Ramp | None = None

    def __post_init__(self) -> None:
        whole("cap", self.most, 0)
        _zone(self.zone)
        if self.ramp is not None and self.ramp.cap > self.most:
            raise InvalidLimitError("ramp.cap", f"{self.ramp.cap} is more than the cap, {self.most}")

    def on(self, day: int) -> int:
        """Return how many starts a day allows."""
        if self.ramp is None:
            return self.most
        passed = max(day - self.ramp.start.toordinal(), 0)
        if passed >= self.ramp.days:
            return self.most
        return self.ramp.cap + (self.most - self.ramp.cap) * passed // self.ramp.days

    def day(self, at: int) -> int:
        """Return the number of the date that the clocks show at a moment."""
        return local_day(at, self.zone)

    def last_moment(self, at: int) -> int:
        """Return the last moment of the day of *at*."""
        return day_ends(at, self.zone) - 1

    def opens_at(self, days: Days, at: int, starts: int = 1) -> int:
        """Return the first moment from *at* on at which a day has room for so many more *starts*."""
        day, ends = self.day(at), day_ends(at, self.zone)
        if at >= ends - EVE:
            return self.opens_at(days, ends, starts)
        if days.on(day) + starts <= self.on(day):
            return at
        if self.most < starts:
            return ON_RELEASE
        later = max(day + 1, self._first_with(starts))
        while days.on(later) + starts > self.on(later):
            later += 1  # there are starts on days to come only if the clock was set back
        return day_starts(later, self.zone)

    def _first_with(self, starts: int) -> int:
        """Return the first day that allows so many starts; the cap is no less than that."""
        if self.ramp is None or self.ramp.cap >= starts:
            return 0
        passed = -(-(starts - self.ramp.cap) * self.ramp.days // (self.most - self.ramp.cap))
        return self.ramp.start.toordinal() + passed


def local_day(at: int, zone: str) -> int:
    """Return the number of the date that the clocks of a zone show at a moment."""
    return _local(at, zone).toordinal()


def day_ends(at: int, zone: str) -> int:
    """Return the first moment after *at* at which the clocks of a zone show another date."""
    local = _local(at, zone)
    midnight = at + _until_midnight(local)
    after = _local(midnight, zone)
    if after.utcoffset() == local.utcoffset():
        return midnight
    changes = _offset_changes(at, midnight, zone)
    then = _local(changes, zone)
    return changes if then.date() != local.date() else changes + _until_midnight(then)


def day_starts(day: int, zone: str) -> int:
    """Return the first moment of a date in a zone; of the next one if it was left out there."""
    at = (day - _EPOCH_DAY) * (_DAY // _MICROSECOND)
    # No zone is a day and a half away from this one.
    at -= 3 * _DAY // 2 // _MICROSECOND
    while local_day(at, zone) < day:
        at = day_ends(at, zone)
    return at


def _until_midnight(local: datetime) -> int:
    passed = timedelta(
        hours=local.hour, minutes=local.minute, seconds=local.second, microseconds=local.microsecond
    )
    return (_DAY - passed) // _MICROSECOND


def _offset_changes(early: int, late: int, zone: str) -> int:
    """Return when the clocks of a zone are changed between two moments: they show different offsets."""
    before = _local(early, zone).utcoffset()
    while late - early > 1:
        middle = (early + late) // 2
        if _local(middle, zone).utcoffset() == before:
            early = middle
        else:
            late = middle
    return late


def _local(at: int, zone: str) -> datetime:
    return (_EPOCH + at * _MICROSECOND).astimezone(_zone(zone))


def _zone(name: object) -> ZoneInfo:
    try:
        return ZoneInfo(str(name))
    except (KeyError, ValueError, OSError):
        raise InvalidLimitError("zone", f"{name!r} is not the name of a time zone") from None
