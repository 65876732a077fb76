"""Check names, and read and write moments and spans as the spec has them."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final

from penstock.clock import SECOND
from penstock.dialects.ojs.format.patterns import ID, KEY, QUEUE, TYPE, TYPES
from penstock.errors import InvalidError
from penstock.limits.durations import parse_duration

MEDIA: Final = "application/openjobspec+json"
VERSION: Final = "1.0"

_RFC3339: Final = re.compile(
    r"\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?(?:[Zz]|[+-]\d{2}:\d{2})", re.ASCII
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_LAST: Final = 253_402_300_799_999_999  # of the year 9999
_HOW: Final = 'write an ISO 8601 duration such as "PT30S", "PT1M" or "PT1H30M"'
_SHOWN: Final = 60  # characters of a name that is wrong


def check_type(name: object, field: str = "type") -> str:
    """Return *name* if it can name a job type: lower-case words with dots between."""
    return _matching(name, field, TYPE, "lower-case words parted by dots, such as email.send")


def check_pattern(name: object, field: str) -> str:
    """Return *name* if it can name a job type, or several with a * for any text."""
    return _matching(name, field, TYPES, "a job type, or a pattern with one * such as email.*")


def check_queue(name: object, field: str = "queue") -> str:
    """Return *name* if it can name a queue."""
    return _matching(name, field, QUEUE, "lower-case letters, digits, dots and hyphens")


def check_key(name: object, field: str = "key") -> str:
    """Return *name* if it can be the key of a limit."""
    return _matching(name, field, KEY, "letters, digits and . _ : - and begin with a letter or digit")


def check_id(name: object, field: str = "id") -> str:
    """Return *name* if it can be the id of a job."""
    return _matching(name, field, ID, "a UUIDv7 in lower case")


def _matching(name: object, field: str, spelled: Mapping[str, Any], how: str) -> str:
    most: int = spelled["maxLength"]
    if (
        not isinstance(name, str)
        or not name
        or len(name) > most
        or not re.fullmatch(spelled["pattern"], name)
    ):
        shown = repr(name) if len(repr(name)) <= _SHOWN else repr(name)[:_SHOWN] + "…"
        raise InvalidError(field, f"{shown} must be {how}, and at most {most} characters")
    return name


def span(text: str, field: str, *, zero: bool = False, error: type[InvalidError] = InvalidError) -> int:
    """Return a duration in microseconds; *zero* allows no time at all."""
    return parse_duration(text, field, zero=zero, error=error, how=_HOW)


def moment(text: object, field: str, now: int) -> int:
    """Return a moment, written as RFC 3339 or as a span from now on ("+PT2S"), in microseconds."""
    if isinstance(text, str) and text.startswith("+P"):
        return now + span(text[1:], field, zero=True)
    if not isinstance(text, str) or not _RFC3339.fullmatch(text):
        raise InvalidError(
            field, f"{text!r} must be a moment such as 2026-02-13T12:00:00Z, or a span such as +PT2S"
        )
    try:
        return (datetime.fromisoformat(text.upper()) - _EPOCH) // _MICROSECOND
    except (ValueError, OverflowError) as error:
        raise InvalidError(field, f"{text!r} is no moment: {error}") from None


def written(at: int) -> str:
    """Return a moment as RFC 3339; a part of a second only if there is one."""
    second, rest = divmod(min(max(at, 0), _LAST), SECOND)
    return f"{_written(second)}.{rest // 1_000:03d}Z" if rest >= 1_000 else f"{_written(second)}Z"  # noqa: PLR2004 - a millisecond


@lru_cache(maxsize=256)
def _written(second: int) -> str:
    return (_EPOCH + timedelta(seconds=second)).strftime("%Y-%m-%dT%H:%M:%S")
