"""How a handler can say that its attempt ends with neither a value nor an error.

Each may be returned or raised: `return Retry(after="10s")`, `raise Cancel("no longer wanted")`.
"""

from datetime import datetime, timedelta

from penstock.clock import Clock
from penstock.errors import InvalidError
from penstock.lifecycle.outcomes import Again, Cancelled, Limited, Outcome
from penstock.limits.durations import Duration, parse_duration

_MICROSECOND = timedelta(microseconds=1)


class End(Exception):  # noqa: N818
    """A way to end an attempt on purpose."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = str(reason)

    def outcome(self, clock: Clock) -> Outcome:
        """Return what the worker reports; *clock* is the engine's."""
        raise NotImplementedError


class Retry(End):
    """Run the job once more, *after* a while (None: as its retry policy says); counts as a failed attempt."""

    def __init__(self, after: Duration | None = None, reason: str = "") -> None:
        super().__init__(reason)
        self.after = None if after is None else parse_duration(after, "after", zero=True)

    def outcome(self, clock: Clock) -> Outcome:  # noqa: ARG002
        return Again(self.after, self.reason)


class RateLimited(End):
    """The called system said "too many": shut the gate for everyone *until* then and wait in line again.

    *until* is a duration from now or a moment (a datetime with a time zone); *key* names one of the
    job's gates (None: all of them).  Uses up no attempt.
    """

    def __init__(self, until: Duration | datetime, key: str | None = None, reason: str = "") -> None:
        super().__init__(reason)
        self.key = key
        self.moment = _moment(until) if isinstance(until, datetime) else None
        self.span = 0 if isinstance(until, datetime) else parse_duration(until, "until", zero=True)

    def outcome(self, clock: Clock) -> Outcome:
        until = clock.now() + self.span if self.moment is None else self.moment
        return Limited(until, self.key, self.reason)


class Cancel(End):
    """Give the job up: it ends as cancelled and is not retried."""

    def outcome(self, clock: Clock) -> Outcome:  # noqa: ARG002
        return Cancelled(self.reason)


def _moment(until: datetime) -> int:
    if until.tzinfo is None:
        raise InvalidError(
            "until", f"{until.isoformat()} has no time zone; write one, as in datetime.now(UTC)"
        )
    return (until - datetime.fromtimestamp(0, until.tzinfo)) // _MICROSECOND
