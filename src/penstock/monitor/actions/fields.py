"""The fields of forms: what is written there, as it is written for people, and what it is read as."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from penstock.errors import InvalidError
from penstock.limits.durations import format_duration, parse_duration
from penstock.limits.rules import MAX_NUMBER, Numbers, Window, check_key
from penstock.monitor.requests import Query

MAX_REASON: Final = 500  # characters
_SHOWN: Final = 40  # characters of a value that is wrong

Reader = Callable[[str, str], Any]  # takes the field's name and what was written there
Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a form, with a *hint* at how to write it; one that is not *needed* may be empty."""

    name: str
    label: str
    read: Reader
    hint: str = ""
    needed: bool = False
    among: tuple[str, ...] = ()  # the words of which it is one
    long: bool = False  # whether it has several lines

    def value(self, form: Query) -> Any:  # noqa: ANN401 - as the reader has it
        """Return what was written, None if it is empty; raise if it cannot be read."""
        written = (form.text(self.name) or "").strip()
        if not written:
            if self.needed:
                raise InvalidError(self.name, "must not be empty")
            return None
        return self.read(self.name, written)


def as_text(_: str, written: str) -> str:
    """Read any text."""
    return written


def as_reason(name: str, written: str) -> str:
    """Read why a change is made."""
    if len(written) > MAX_REASON:
        raise InvalidError(name, f"must have at most {MAX_REASON} characters; these are {len(written):,}")
    return written


def as_key(_: str, written: str) -> str:
    """Read a key."""
    check_key(written)
    return written


def as_number(name: str, written: str) -> int:
    """Read a whole number."""
    plain = written.replace(",", "")
    if not plain.isascii() or not plain.isdigit() or len(plain) > len(str(MAX_NUMBER)):
        raise InvalidError(name, f"{written[:_SHOWN]!r} must be a whole number, at least 0")
    return int(plain)


def as_span(name: str, written: str) -> int:
    """Read how long something lasts."""
    return parse_duration(_with_unit(written), name, how="write 90 (seconds), 15m, 2h or 1d")


def as_window(name: str, written: str) -> Window:
    """Read how many starts there may be in a time."""
    count, slash, period = (part.strip() for part in written.partition("/"))
    if not slash or not count.isascii() or not count.isdigit() or not period:
        raise InvalidError(name, f"{written[:_SHOWN]!r} must be a number and a time, as in 100/1m or 10/1s")
    return Window(as_number(name, count), as_span(name, f"1{period}" if period.isalpha() else period))


def as_throttle(name: str, written: str) -> Window:
    """Read how many starts there may be in a time, evenly, and how many at once."""
    evenly, plus, burst = written.partition("+")
    found = as_window(name, evenly)
    return Window(found.limit, found.period, as_number(name, burst.strip())) if plus else found


def one_of(*words: str) -> Reader:
    """Return the reader of a field that is one of a few *words*."""

    def read(name: str, written: str) -> str:
        if written not in words:
            raise InvalidError(name, f"{written[:_SHOWN]!r} must be one of: {', '.join(words)}")
        return written

    return read


def window_text(window: Window | None) -> str:
    """Write a rule as its field is written."""
    if window is None:
        return ""
    burst = f"+{window.burst}" if window.burst > 1 else ""
    return f"{window.limit}/{format_duration(window.period)}{burst}"


def numbers_fields() -> tuple[Field, ...]:
    """Return the fields of the numbers of a limit."""
    return (
        Field("slots", "Slots", as_number, "how many may run at once, such as 5; 0 stops all"),
        Field("rate", "Rate", as_window, "starts in any window, such as 100/1m"),
        Field("throttle", "Throttle", as_throttle, "starts at an even pace, such as 10/1s, or 10/1s+5 with bursts"),
    )  # fmt: skip


def numbers_in(values: Values) -> Numbers:
    """Return the numbers that were written."""
    return Numbers(values["slots"], values["rate"], values["throttle"])


def numbers_written(numbers: Numbers | None) -> dict[str, str]:
    """Return numbers as their fields are written."""
    if numbers is None:
        return {}
    slots = "" if numbers.slots is None else str(numbers.slots)
    return {"slots": slots, "rate": window_text(numbers.rate), "throttle": window_text(numbers.throttle)}


REASON: Final = Field(
    "reason", "Reason", as_reason, "for the audit, at most 500 characters", needed=True, long=True
)
TENANT: Final = Field("tenant", "Tenant", as_text, "empty: of no tenant")


def _with_unit(written: str) -> str:
    return f"{written}s" if written.replace(".", "", 1).isdigit() else written
