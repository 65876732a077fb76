"""How numbers, spans of time and moments are written for people."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

import msgspec

from penstock.clock import MILLISECOND, SECOND
from penstock.limits.durations import format_duration
from penstock.limits.rules import Numbers, Window
from penstock.simulate.words import percent

MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR
_ENDS: Final = 6  # characters of an id at each end
LONGEST: Final = 200_000  # characters of a text that are shown


def number(value: int) -> str:
    """Write a whole number."""
    return f"{value:,}"


def span(value: int) -> str:
    """Write how long something took or takes, with two digits that count at least."""
    if value < 10 * MILLISECOND:
        return f"{max(value, 0) / MILLISECOND:.1f} ms"
    if value < SECOND:
        return f"{value // MILLISECOND} ms"
    if value < 10 * SECOND:
        return f"{value // (SECOND // 10) / 10:.1f} s"
    if value < MINUTE:
        return f"{value // SECOND} s"
    for unit, name, part, less in (
        (DAY, "d", HOUR, "h"),
        (HOUR, "h", MINUTE, "min"),
        (MINUTE, "min", SECOND, "s"),
    ):
        if value >= unit:
            rest = value % unit // part
            return f"{value // unit} {name}" + (f" {rest:02} {less}" if rest else "")
    raise AssertionError("unreachable")


def iso(at: int) -> str:
    """Write a moment for programs."""
    return f"{_utc(at):%Y-%m-%dT%H:%M:%S}.{at % SECOND // MILLISECOND:03}Z"


def clock(at: int, now: int) -> str:
    """Write a moment to the second, with its day if that is not today."""
    when = _utc(at)
    return f"{when:%H:%M:%S}" if _utc(now).date() == when.date() else f"{when.day} {when:%b %H:%M}"


def tenths(at: int, now: int) -> str:
    """Write a moment that is known exactly."""
    when = _utc(at)
    exact = f"{when:%H:%M:%S}.{at % SECOND // (SECOND // 10)}"
    return exact if _utc(now).date() == when.date() else f"{when.day} {when:%b} {exact}"


def minute(at: int, now: int) -> str:
    """Write a moment that is known about."""
    when = _utc(at)
    return f"{when:%H:%M}" if _utc(now).date() == when.date() else f"{when.day} {when:%b %H:%M}"


def window(rule: Window) -> str:
    """Write how many starts a rule allows in which time."""
    return f"{rule.limit:,} per {format_duration(rule.period)}"


def numbers(rules: Numbers) -> str:
    """Write the numbers of a limit."""
    parts = []
    if rules.slots is not None:
        parts.append(f"{rules.slots:,} at once")
    if rules.rate is not None:
        parts.append(f"{window(rules.rate)}")
    if rules.throttle is not None:
        burst = f", bursts of {rules.throttle.burst:,}" if rules.throttle.burst > 1 else ""
        parts.append(f"{window(rules.throttle)}, evenly{burst}")
    return " and ".join(parts) or "no limit"


def name(text: str) -> str:
    """Write a name so that it cannot change how what stands around it is read: each odd character by its number."""
    return "".join(c if c.isprintable() and not _turns(c) else f"\\u{{{ord(c):x}}}" for c in text)


def name_lines(text: str) -> str:
    """Do what `name` does with each line of a longer text."""
    return "\n".join(name(line) for line in text[:LONGEST].replace("\t", "    ").split("\n"))


def pretty(text: str) -> str:
    """Write JSON so that people can read it; what is none stays as it is."""
    try:
        return msgspec.json.format(text[:LONGEST], indent=2)
    except msgspec.DecodeError:
        return text[:LONGEST]


def shortened(text: str, most: int = 80) -> str:
    """Write no more than the beginning of a text."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def short_id(text: str) -> str:
    """Write enough of an id to tell it from its neighbours: of those made together only the ends differ."""
    return text if len(text) <= _ENDS * 2 + 1 else f"{text[:_ENDS]}…{text[-_ENDS:]}"


def _turns(character: str) -> bool:
    """Tell whether a character changes the direction in which its neighbours are read."""
    return character in "\u200e\u200f\u061c\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


def _utc(at: int) -> datetime:
    latest = 253_402_300_799 * SECOND  # the last second of the year 9999
    return datetime.fromtimestamp(max(0, min(at, latest)) / SECOND, UTC)


FILTERS: Final[dict[str, Callable[..., str]]] = {
    "number": number,
    "percent": percent,
    "span": span,
    "iso": iso,
    "clock": clock,
    "tenths": tenths,
    "minute": minute,
    "window": window,
    "numbers": numbers,
    "name": name,
    "name_lines": name_lines,
    "pretty": pretty,
    "short_id": short_id,
    "shortened": shortened,
}
