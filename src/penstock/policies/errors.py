"""The errors of policies.

LimitExceeded             .retryable, .retry_after (seconds, if known)
├── BulkheadFull          .reason: busy, queue_full, wait_timeout, deadline, shed, too_many_keys, closed
├── RateExceeded          .reason: busy, queue_full, wait_timeout, deadline, shed, too_many_keys, closed
└── CircuitOpen           .state: open, half_open
AttemptTimeout            also a TimeoutError
ReentryError              a task would have waited for itself
InvalidPolicyError        also a ValueError and a TypeError
NestedLimitsWarning       a UserWarning: two decorators that could be one
"""

from collections.abc import Hashable
from typing import ClassVar

from penstock.errors import InvalidLimitError, PenstockError


class InvalidPolicyError(InvalidLimitError, ValueError, TypeError):
    """A policy that can never be kept as written."""

    code = "invalid_policy"
    retryable: ClassVar[bool] = False


class ReentryError(PenstockError, RuntimeError):
    """A task or thread that holds a slot asked for another of the same key, and might wait for itself for ever."""

    code = "reentry"
    retryable: ClassVar[bool] = False

    def __init__(self, name: str, key: Hashable) -> None:
        super().__init__(
            f"{_named(name, key)} is already held here; release it first, or make the bulkhead reentrant"
        )
        self.name = name
        self.key = key


class LimitExceeded(PenstockError):  # noqa: N818 - the name by which it is known
    """A limit refused a call; the work was not begun."""

    code = "limit_exceeded"
    retryable: ClassVar[bool] = True

    def __init__(
        self,
        name: str,
        reason: str,
        *,
        key: Hashable = None,
        limit: int = 0,
        in_use: int = 0,
        queued: int = 0,
        retry_after: float | None = None,
    ) -> None:
        # A limit that was lowered may have more in use than it allows.
        use = f"{in_use} of {limit} in use" if in_use <= limit else f"{in_use} in use, only {limit} may be"
        super().__init__(f"{_named(name, key)} refused: {reason} ({use}, {queued} waiting)")
        self.name = name
        self.reason = reason
        self.key = key
        self.limit = limit
        self.in_use = in_use
        self.queued = queued
        self.retry_after = retry_after


class BulkheadFull(LimitExceeded):
    """No slot is free, and the call may not wait, or not any longer."""

    code = "bulkhead_full"


class RateExceeded(LimitExceeded):
    """Too many starts lately, and the call may not wait, or not any longer."""

    code = "rate_exceeded"


class CircuitOpen(LimitExceeded):
    """Too many calls failed lately, so none is made for a while."""

    code = "circuit_open"
    retryable = False

    def __init__(self, name: str, state: str, retry_after: float) -> None:
        PenstockError.__init__(self, f"{name} is {state}; try again in {retry_after:.3f} s")
        self.name = name
        self.state = self.reason = state
        self.key = None
        self.limit = self.in_use = self.queued = 0
        self.retry_after = retry_after


class AttemptTimeout(PenstockError, TimeoutError):  # noqa: N818 - the name by which it is known
    """The attempt took too long."""

    code = "attempt_timeout"
    retryable: ClassVar[bool] = True
    retry_after: ClassVar[float | None] = None

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the attempt took longer than {seconds:g} s")
        self.seconds = seconds


class NestedLimitsWarning(UserWarning):
    """One limit directly around another, so that a call holds or spends the outer one while it waits for the inner."""

    def __init__(self, outer: str, inner: str, together: str) -> None:
        super().__init__(
            f"{outer} is put directly around {inner}, so what it gives is held or spent while waiting there; "
            f"Limits({together}) takes all at once, and nothing while it waits"
        )
        self.outer = outer
        self.inner = inner


def _named(name: str, key: Hashable) -> str:
    return f"{name} [{key}]" if key is not None else name
