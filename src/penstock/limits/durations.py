"""How long is that?

Users write durations as seconds, as a timedelta, as "1h30m" or as "PT1M".  Inside they are whole microseconds.
"""

import math
import re
from datetime import timedelta
from decimal import Decimal
from typing import Final

from penstock.errors import InvalidError
from penstock.limits.rules import MAX_NUMBER

Duration = int | float | str | timedelta

_SECOND: Final = 1_000_000  # not `clock.SECOND`: this package is pure
_UNITS: Final = {
    "w": 604_800 * _SECOND,
    "d": 86_400 * _SECOND,
    "h": 3_600 * _SECOND,
    "m": 60 * _SECOND,
    "s": _SECOND,
    "ms": 1_000,
    "us": 1,
}
_NUMBER: Final = r"[0-9]{1,18}(?:[.,][0-9]{1,18})?"
_SHORT: Final = re.compile("".join(rf"(?:(?P<{unit}>{_NUMBER})\s*{unit}\s*)?" for unit in _UNITS))
_ISO: Final = re.compile(
    rf"P(?:(?P<w>{_NUMBER})W)?(?:(?P<d>{_NUMBER})D)?"
    rf"(?:T(?=[0-9])(?:(?P<h>{_NUMBER})H)?(?:(?P<m>{_NUMBER})M)?(?:(?P<s>{_NUMBER})S)?)?"
)
_CALENDAR: Final = re.compile(r"P[^T]*[0-9][YM]")
_HOW: Final = 'write seconds (90 or 0.5), a timedelta, or text such as "250ms", "1h30m" or "PT1M"'


def parse_duration(
    value: Duration,
    field: str = "duration",
    *,
    zero: bool = False,
    error: type[InvalidError] = InvalidError,
    how: str = _HOW,
) -> int:
    """Return *value* in microseconds, or raise *error* that names *field* and tells *how* to write it.

    *zero* allows no time at all.
    """
    try:
        microseconds = _microseconds(value, how)
    except ValueError as problem:
        raise error(field, f"{value!r} {problem}") from None
    if microseconds < 0 or (microseconds == 0 and not zero):
        raise error(field, f"{value!r} must be {'zero or more' if zero else 'at least a microsecond'}; {how}")
    if microseconds > MAX_NUMBER:
        raise error(field, f"{value!r} is too long; at most {MAX_NUMBER // _UNITS['d']} days are allowed")
    return microseconds


def format_duration(microseconds: int) -> str:
    """Return *microseconds* as short text for people, exact and readable by `parse_duration`."""
    if microseconds < 0:
        return f"-{format_duration(-microseconds)}"
    if 0 < microseconds < _SECOND:
        return f"{_decimal(microseconds, 1_000)}ms" if microseconds >= _UNITS["ms"] else f"{microseconds}us"
    days, hours, minutes, rest = _split(microseconds)
    parts = [f"{count}{unit}" for count, unit in ((days, "d"), (hours, "h"), (minutes, "m")) if count]
    if rest or not parts:
        parts.append(f"{_decimal(rest, _SECOND)}s")
    return "".join(parts)


def to_iso(microseconds: int) -> str:
    """Return *microseconds* as an ISO 8601 duration."""
    if microseconds < 0:
        return f"-{to_iso(-microseconds)}"
    days, hours, minutes, rest = _split(microseconds)
    time = "".join(f"{count}{unit}" for count, unit in ((hours, "H"), (minutes, "M")) if count)
    if rest or not (days or time):
        time += f"{_decimal(rest, _SECOND)}S"
    return f"P{f'{days}D' if days else ''}{f'T{time}' if time else ''}"


def _microseconds(value: Duration, how: str) -> int:
    match value:
        case bool():
            raise ValueError(f"is not a duration; {how}")
        case int():
            return value * _SECOND
        case float() if math.isfinite(value):
            return round(Decimal(value) * _SECOND)
        case timedelta():
            return value // timedelta(microseconds=1)
        case str():
            return _from_text(value.strip(), how)
        case _:
            raise ValueError(f"is not a duration; {how}")


def _from_text(text: str, how: str) -> int:
    unsigned = text.removeprefix("-")
    if _CALENDAR.match(unsigned):
        raise ValueError('counts years or months, whose length differs; write days, as in "P30D"')
    match = (_ISO if unsigned[:1] == "P" else _SHORT).fullmatch(unsigned)
    parts = {unit: number for unit, number in match.groupdict().items() if number} if match else {}
    # Only the smallest part may be broken, as in "1h0.5m".
    if not parts or not all(map(str.isdigit, list(parts.values())[:-1])):
        raise ValueError(f"is not a duration; {how}")
    total = sum(Decimal(number.replace(",", ".")) * _UNITS[unit] for unit, number in parts.items())
    return -round(total) if text[:1] == "-" else round(total)


def _split(microseconds: int) -> tuple[int, int, int, int]:
    minutes, rest = divmod(microseconds, _UNITS["m"])
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return days, hours, minutes, rest


def _decimal(value: int, unit: int) -> str:
    """Return *value* / *unit* without trailing zeros, exactly."""
    whole, rest = divmod(value, unit)
    digits = len(str(unit)) - 1
    return f"{whole}.{rest:0{digits}d}".rstrip("0") if rest else str(whole)
