"""How a handler can say that its attempt ends with neither a value nor an error.

Each may be returned or raised: `return Retry(after="10s")`, `raise Cancel("no longer wanted")`.
"""

from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Final

from penstock.clock import Clock
from penstock.errors import InvalidError
from penstock.lifecycle.outcomes import Again, Cancelled, Limited, Outcome
from penstock.limits.durations import Duration, parse_duration

_MICROSECOND: Final = timedelta(microseconds=1)
_UNTOLD: Final = 60  # seconds to wait where the called system named no time


class HandlerOutcome(Exception):  # noqa: N818
    """A way to end an attempt on purpose."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = str(reason)

    def outcome(self, clock: Clock) -> Outcome:
        """Return what the worker reports; *clock* is the engine's."""
        raise NotImplementedError


class Retry(HandlerOutcome):
    """Run the job once more, *after* a while (None: as its retry policy says); counts as a failed attempt."""

    def __init__(self, after: Duration | None = None, reason: str = "") -> None:
        super().__init__(reason)
        self.after = None if after is None else parse_duration(after, "after", zero=True)

    def outcome(self, clock: Clock) -> Outcome:  # noqa: ARG002
        return Again(self.after, self.reason)


class RateLimited(HandlerOutcome):
    """The called system said "too many": shut the gate for everyone *until* then and wait in line again.

    *until* is a duration from now, a moment (a datetime with a time zone), or what a Retry-After header says:
    seconds as digits, or a date.  None, as where there is no such header, is a minute.  *key* names one of the
    job's gates (None: all of them).  Uses up no attempt.
    """

    def __init__(
        self, until: Duration | datetime | None = None, key: str | None = None, reason: str = ""
    ) -> None:
        super().__init__(reason)
        self.key = key
        when = _read(until)
        self.moment = _moment(when) if isinstance(when, datetime) else None
        self.span = 0 if isinstance(when, datetime) else parse_duration(when, "until", zero=True)

    def outcome(self, clock: Clock) -> Outcome:
        until = clock.now() + self.span if self.moment is None else self.moment
        return Limited(until, self.key, self.reason)


class Cancel(HandlerOutcome):
    """Give the job up: it ends as cancelled and is not retried."""

    def outcome(self, clock: Clock) -> Outcome:  # noqa: ARG002
        return Cancelled(self.reason)


def _read(until: Duration | datetime | None) -> Duration | datetime:
    """Return *until*, or what it means as the text of a Retry-After header."""
    text = until.strip() if isinstance(until, str) else None
    if until is None or text == "":
        return _UNTOLD
    if text is None:
        return until
    if text.isdigit():
        return f"{text}s"
    try:
        # Of the three forms that HTTP allows one names no time zone; all mean UTC.
        date = parsedate_to_datetime(text)
    except ValueError:
        return _duration(text)
    return date if date.tzinfo is not None else date.replace(tzinfo=UTC)


def _duration(text: str) -> Duration:
    try:
        parse_duration(text, "until", zero=True)
    except InvalidError:
        problem = (
            f"{text!r} is neither a duration, as in 20 or '1m30s', nor what a Retry-After header may say"
        )
        raise InvalidError("until", problem) from None
    return text


def _moment(until: datetime) -> int:
    if until.tzinfo is None:
        raise InvalidError(
            "until", f"{until.isoformat()} has no time zone; write one, as in datetime.now(UTC)"
        )
    return (until - datetime.fromtimestamp(0, until.tzinfo)) // _MICROSECOND
