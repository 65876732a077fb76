"""Another attempt, after a while, if a call failed.

Nothing is held between attempts: a slot taken inside belongs to one attempt.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Final, Self

from penstock.clock import SECOND, pause
from penstock.errors import InvalidJobError
from penstock.lifecycle.retry import Backoff, RetryPolicy, delay_before
from penstock.limits.durations import Duration
from penstock.policies import clock
from penstock.policies.clock import NEVER
from penstock.policies.errors import InvalidPolicyError
from penstock.policies.wrapper import Wrapper

On = type[BaseException] | tuple[type[BaseException], ...] | Callable[[BaseException], bool]

_LONGEST: Final = 86_400


class Retrying(Wrapper):
    """Up to *attempts* in all, *backoff* apart, longer by *factor* each time, never longer than *max_backoff*.

    By default any error is followed by another attempt, unless it says of itself that it is not `retryable`; *on*
    is the errors to cover, or a function that tells.  An error that says when (`retry_after`) is believed.
    """

    def __init__(
        self,
        attempts: int = 3,
        *,
        backoff: Duration = 1,
        factor: float = 1,
        max_backoff: Duration = _LONGEST,
        jitter: bool = False,
        on: On = Exception,
        on_retry: Callable[[int, BaseException, float], object] | None = None,
    ) -> None:
        try:
            self._policy = RetryPolicy(
                attempts,
                Backoff.EXPONENTIAL,
                clock.span(backoff, "backoff", zero=True),
                clock.span(max_backoff, "max_backoff", zero=True),
                factor,
                jitter,
            )
        except InvalidJobError as error:
            raise InvalidPolicyError(error.field, error.problem) from None
        self._on = on
        self._on_retry = on_retry

    @property
    def attempts(self) -> int:
        return self._policy.attempts

    def __iter__(self) -> Iterator["RetryAttempt"]:
        """Return attempts, to be made in `with` blocks: `for attempt in Retrying(3): with attempt: ...`."""
        attempt = RetryAttempt(self, 1)
        while True:
            yield attempt
            if attempt.delay is None:
                return
            pause(attempt.delay)
            attempt = RetryAttempt(self, attempt.number + 1)

    async def __aiter__(self) -> AsyncIterator["RetryAttempt"]:
        """Return attempts, to be made in `with` blocks: `async for attempt in Retrying(3): with attempt: ...`."""
        attempt = RetryAttempt(self, 1)
        while True:
            yield attempt
            if attempt.delay is None:
                return
            await asyncio.sleep(attempt.delay)
            attempt = RetryAttempt(self, attempt.number + 1)

    def delay(self, failures: int, error: BaseException) -> float | None:
        """Return how many seconds after *failures* the next attempt is made; None if there is none."""
        if failures >= self._policy.attempts or not self._covers(error):
            return None
        wait = delay_before(self._policy, failures, random.random()) / SECOND  # noqa: S311 - jitter is no secret
        told = getattr(error, "retry_after", None)
        if isinstance(told, int | float) and not hasattr(error, "in_use"):
            wait = max(wait, float(told))
        until = clock.deadline.get()
        if until != NEVER and clock.now() + wait * SECOND >= until:
            return None
        if self._on_retry is not None:
            self._on_retry(failures, error, wait)
        return wait

    def _covers(self, error: BaseException) -> bool:
        on = self._on
        if not isinstance(on, type | tuple):
            return on(error)
        if on is Exception and not getattr(error, "retryable", True):
            return False
        return isinstance(error, on)

    def _around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def tried(*args: Any, **kwargs: Any) -> Any:
            failures = 0
            while True:
                try:
                    return function(*args, **kwargs)
                except BaseException as error:
                    failures += 1
                    delay = self.delay(failures, error)
                    if delay is None:
                        raise
                pause(delay)

        return tried

    def _around_async(self, function: Callable[..., Any]) -> Callable[..., Any]:
        async def tried(*args: Any, **kwargs: Any) -> Any:
            failures = 0
            while True:
                try:
                    return await function(*args, **kwargs)
                except BaseException as error:
                    failures += 1
                    delay = self.delay(failures, error)
                    if delay is None:
                        raise
                await asyncio.sleep(delay)

        return tried


class RetryAttempt:
    """One attempt of a `Retrying`, made in a `with` block."""

    def __init__(self, retry: Retrying, number: int) -> None:
        self.number = number
        self.delay: float | None = None
        self._retry = retry

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> bool:
        self.delay = None if error is None else self._retry.delay(self.number, error)
        return self.delay is not None
