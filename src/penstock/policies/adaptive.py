"""Limits that find their own number, by how long the work takes.

Only work is measured, not waiting.  A limit that is not used does not grow; one that shrinks revokes no slot.
"""

from collections.abc import Callable
from typing import Final, Protocol, runtime_checkable

from penstock.limits.durations import Duration
from penstock.policies import clock
from penstock.policies.errors import InvalidPolicyError
from penstock.policies.options import whole

_LEAST_SAMPLES: Final = 10


@runtime_checkable
class Adaptive(Protocol):
    """A number that follows how long finished work took."""

    limit: int

    def sample(self, took: int, in_use: int, error: BaseException | None, now: int) -> bool:
        """Note that work *took* so many microseconds; tell whether the limit changed."""
        ...


class AIMD:
    """TCP's rule: one more for each limit's worth of good answers, times *backoff* for a bad one.

    An answer is bad if it took longer than *latency*, or failed as *is_overload* says.  There is one cut for each
    round trip.
    """

    def __init__(
        self,
        latency: Duration,
        *,
        min: int = 1,  # noqa: A002 - the usual word
        max: int = 200,  # noqa: A002
        start: int = 20,
        backoff: float = 0.7,
        is_overload: Callable[[BaseException], bool] | None = None,
    ) -> None:
        self._latency = clock.span(latency, "latency")
        self._least, self._most, start = _bounds(min, max, start)
        if not 0 < backoff < 1:
            raise InvalidPolicyError("backoff", f"{backoff!r} must lie between 0 and 1")
        self._backoff = backoff
        self._is_overload = is_overload or _never
        self._exact = float(start)
        self._not_before = 0
        self.limit = start

    def sample(self, took: int, in_use: int, error: BaseException | None, now: int) -> bool:
        """Note that work *took* so many microseconds; tell whether the limit changed."""
        before = self.limit
        if took > self._latency or (error is not None and self._is_overload(error)):
            if now - took >= self._not_before:
                self._exact = max(self._exact * self._backoff, self._least)
                self._not_before = now
        elif in_use * 2 >= self.limit:
            self._exact = min(self._exact + 1 / self._exact, self._most)
        self.limit = int(self._exact)
        return self.limit != before


class Vegas:
    """TCP Vegas' rule: what the work takes beyond its best time is a queue elsewhere; keep that short but not empty."""

    def __init__(
        self,
        *,
        window: Duration = 0.1,
        min: int = 1,  # noqa: A002 - the usual word
        max: int = 200,  # noqa: A002
        start: int = 20,
        is_overload: Callable[[BaseException], bool] | None = None,
    ) -> None:
        self._window = clock.span(window, "window")
        self._least, self._most, self.limit = _bounds(min, max, start)
        self._is_overload = is_overload or _never
        self._best = 0
        self._ends = 0
        self._took: list[int] = []
        self._busiest = 0
        self._overload = False

    def sample(self, took: int, in_use: int, error: BaseException | None, now: int) -> bool:
        """Note that work *took* so many microseconds; tell whether the limit changed."""
        self._overload = self._overload or (error is not None and self._is_overload(error))
        self._took.append(took)
        self._busiest = max(self._busiest, in_use)
        if now < self._ends or len(self._took) < _LEAST_SAMPLES:
            return False
        before = self.limit
        self._turn(sum(self._took) / len(self._took))
        self._ends = now + self._window
        self._took.clear()
        self._busiest = 0
        self._overload = False
        return self.limit != before

    def _turn(self, mean: float) -> None:
        best = min(self._took)
        self._best = best if not self._best else min(self._best, best)
        step = max(len(str(self.limit)), 1)
        queue = self.limit * (1 - self._best / mean) if mean else 0
        if self._overload or queue > 6 * step:
            self.limit = max(self.limit - step, self._least)
        elif queue < 3 * step and self._busiest * 2 >= self.limit:
            self.limit = min(self.limit + step, self._most)


def _bounds(least: int, most: int, start: int) -> tuple[int, int, int]:
    whole("min", least)
    whole("max", most)
    whole("start", start)
    if not least <= start <= most:
        raise InvalidPolicyError("start", f"{start} must lie between {least} and {most}")
    return least, most, start


def _never(_: BaseException) -> bool:
    return False
