"""When does a schedule fire next?

Pure: the present moment is an argument.  A schedule skips an hour that the clock skips.  An
hour that comes twice counts twice only for schedules of every hour; others take the first.
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import lru_cache
from itertools import product
from typing import Final
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from penstock.errors import InvalidJobError
from penstock.lifecycle.checks import check_length

MAX_EXPRESSION: Final = 256
FIELDS: Final = ("minute", "hour", "day of month", "month", "day of week")
SHORT: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_DAY: Final = timedelta(days=1)
_MINUTE: Final = 60_000_000
_HOURS: Final = 24
_FAR: Final = 50 * 366  # days; a fifth Monday in February comes within forty years


@dataclass(frozen=True, slots=True, eq=False)
class Cron:
    """An expression in a time zone, read."""

    zone: tzinfo
    minutes: tuple[int, ...]  # of the day, in order
    every_hour: bool
    months: frozenset[int]
    fields: CronSim

    def next_after(self, moment: int) -> int | None:
        """Return the first moment after *moment* at which it fires; None if that is not in fifty years."""
        day = (_EPOCH + moment * _MICROSECOND).astimezone(self.zone).date()
        last = day + _FAR * _DAY
        while day <= last:
            if day.month not in self.months:
                day = (day.replace(day=1) + 32 * _DAY).replace(day=1)
                continue
            if self.fields.match_day(day) and (found := self._first(day, moment)) is not None:
                return found
            day += _DAY
        return None

    def _first(self, day: date, moment: int) -> int | None:
        """Return its first moment of *day* that is after *moment*."""
        midnight = datetime.combine(day, time(), self.zone)
        if midnight.utcoffset() != (midnight + _DAY).utcoffset():
            return min((at for at in self._all(midnight) if at > moment), default=None)
        start = _moment(midnight)
        place = bisect_right(self.minutes, (moment - start) // _MINUTE)
        return start + self.minutes[place] * _MINUTE if place < len(self.minutes) else None

    def _all(self, midnight: datetime) -> Iterator[int]:
        """Return all its moments of a day on which the clock is changed."""
        for minute, fold in product(self.minutes, (0, 1) if self.every_hour else (0,)):
            wall = midnight.replace(hour=minute // 60, minute=minute % 60, fold=fold)
            at = _moment(wall)
            back = (_EPOCH + at * _MICROSECOND).astimezone(self.zone)
            if (back.hour, back.minute) == (wall.hour, wall.minute):
                yield at


@lru_cache(maxsize=1024)
def parse_cron(expression: str, timezone: str = "UTC") -> Cron:
    """Read five fields, or one of the names in `SHORT`; names, lists, ranges, steps, L and # are known."""
    zone = _zone(timezone)
    check_length("expression", expression, MAX_EXPRESSION)
    text = SHORT.get(expression.strip().lower(), expression)
    count = len(text.split())
    if count != len(FIELDS):
        raise InvalidJobError(
            "expression",
            f"{expression!r} has {count} fields; write {len(FIELDS)} ({', '.join(FIELDS)}), "
            f"or one of: {', '.join(SHORT)}",
        )
    try:
        fields = CronSim(text, _EPOCH)
    except (CronSimError, ValueError) as error:
        raise InvalidJobError("expression", f"{expression!r}: {str(error).lower()}") from None
    return Cron(
        zone,
        tuple(sorted(60 * hour + minute for hour, minute in product(fields.hours, fields.minutes))),
        len(fields.hours) == _HOURS,
        frozenset(fields.months),
        fields,
    )


def _zone(name: str) -> tzinfo:
    if name == "UTC":
        return UTC  # known without a database of time zones
    try:
        return ZoneInfo(name)
    except (LookupError, OSError, ValueError):
        raise InvalidJobError(
            "timezone", f'{name!r} is not a time zone; write a name as "Europe/Berlin"'
        ) from None


def _moment(wall: datetime) -> int:
    return (wall - _EPOCH) // _MICROSECOND
