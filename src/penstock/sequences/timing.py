"""When may a step begin?  Delays, business days, local times and send windows.  Pure: the time is an argument.

A local time that the clock skips is taken by the offset before the gap, so it comes as much later as the clock skips.
One that comes twice is the first of the two.
"""

from collections.abc import Container
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Final
from zoneinfo import ZoneInfo

from penstock.sequences.blocks import Delay, SendWindow

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_DAY: Final = timedelta(days=1)
_SATURDAY: Final = 5
_LATEST: Final = 250_246_627_200_000_000  # the year 9900; calendars end with 9999
_FAR: Final = 3_660  # days; that many holidays in a row are taken for a mistake


def delayed(delay: Delay, now: int, chance: float, zone: str, holidays: Container[date] = ()) -> int:
    """Return when a *delay* that begins *now* is over.

    *chance*, from 0 up to but not including 1, places it within its jitter.  *zone* and *holidays* are the
    instance's, and count besides the delay's own.
    """
    local_zone = ZoneInfo(delay.timezone or zone)
    moment = min(now + delay.duration, _LATEST)
    local = delay.fire_at_local
    if isinstance(local, datetime):
        moment = max(moment, _moment(local, local_zone))
    elif local is not None:
        moment = _next_at(local, moment, local_zone)
    moment = min(moment + int((2 * chance - 1) * delay.jitter), _LATEST)
    if delay.business_days_only:
        moment = _on_business_day(moment, local_zone, delay.holidays, holidays)
    return max(now, moment)


def in_window(window: SendWindow, moment: int, zone: str) -> int:
    """Return the first time from *moment* on that lies in *window*."""
    local_zone = ZoneInfo(window.timezone or zone)
    # A window that began yesterday may reach past midnight.
    day = _local(moment, local_zone).date() - _DAY
    while True:
        if day.weekday() in window.days:
            begin = _moment(datetime.combine(day, time(window.start_hour)), local_zone)
            last = day if window.start_hour < window.end_hour else day + _DAY
            end = _moment(datetime.combine(last, time(window.end_hour)), local_zone)
            if moment < end:
                return max(moment, begin)
        day += _DAY


def _next_at(local: time, moment: int, zone: tzinfo) -> int:
    day = _local(moment, zone).date()
    today = _moment(datetime.combine(day, local), zone)
    return today if today >= moment else _moment(datetime.combine(day + _DAY, local), zone)


def _on_business_day(moment: int, zone: tzinfo, *holidays: Container[date]) -> int:
    """Return the same local time on the first day that is neither in a weekend nor a holiday."""
    local = _local(moment, zone).replace(tzinfo=None)
    day = local
    for _ in range(_FAR):
        if day.weekday() < _SATURDAY and not any(day.date() in days for days in holidays):
            break
        day += _DAY
    return moment if day == local else _moment(day, zone)


def _local(moment: int, zone: tzinfo) -> datetime:
    return (_EPOCH + moment * _MICROSECOND).astimezone(zone)


def _moment(local: datetime, zone: tzinfo) -> int:
    return (local.replace(tzinfo=zone) - _EPOCH) // _MICROSECOND
