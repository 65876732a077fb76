"""So many starts per time: `Throttler` spreads them out, `RateLimiter` counts them in any window.

A start is noted when its call begins, by that call.  A key is forgotten once its starts are too old to matter.
"""

from abc import abstractmethod
from collections import deque
from collections.abc import Hashable
from typing import Any, ClassVar, Final, Generic, TypeVar, Unpack

from penstock.limits.durations import Duration
from penstock.limits.gate import ALWAYS, Gate
from penstock.limits.rules import Numbers, Window
from penstock.policies import clock
from penstock.policies.call_admission import CallAdmission
from penstock.policies.call_limit import CallLimit
from penstock.policies.errors import InvalidPolicyError, RateExceeded
from penstock.policies.events import Stats
from penstock.policies.options import Key, LimitOptions, WaitOptions, checked, whole
from penstock.policies.process_lock import lock

T = TypeVar("T")

_SWEPT: Final = 2  # keys looked at with each start, so that more are forgotten than come


class Throttler(CallLimit):
    """Starts at least *per* / *limit* apart, after a first *burst* of so many at once."""

    def __init__(
        self,
        limit: int,
        per: Duration = 1,
        *,
        burst: int = 1,
        key: Key | None = None,
        weight: int = 1,
        **options: Unpack[LimitOptions],
    ) -> None:
        super().__init__()
        asked = checked("throttler", options, key)
        self.key = key
        self.weight = whole("weight", weight)
        self.pool = Spaced(_window(limit, per), whole("burst", burst), asked)


class RateLimiter(CallLimit):
    """At most *limit* starts in any window as long as *per*, wherever it begins."""

    def __init__(
        self,
        limit: int,
        per: Duration = 1,
        *,
        key: Key | None = None,
        weight: int = 1,
        **options: Unpack[LimitOptions],
    ) -> None:
        super().__init__()
        asked = checked("rate limiter", options, key)
        self.key = key
        self.weight = whole("weight", weight)
        self.pool = Windowed(_window(limit, per), asked)


def _window(limit: int, per: Duration) -> Window:
    return Window(whole("limit", limit), clock.span(per, "per"))


class Pace(CallAdmission, Generic[T]):
    """The starts of late: what is remembered of them for each key."""

    error = RateExceeded
    timed: ClassVar[bool] = True

    def __init__(self, window: Window, options: WaitOptions) -> None:
        super().__init__(options)
        self.window = window
        self._by_key: dict[Hashable, T] = {}
        self._old: deque[tuple[int, Hashable]] = deque()

    def limit(self, key: Hashable) -> int:  # noqa: ARG002
        return self.window.limit

    def known(self, key: Hashable) -> bool:
        return key in self._by_key

    def keys(self) -> int:
        return len(self._by_key)

    def release(
        self,
        key: Hashable,
        weight: int,  # noqa: ARG002 - all pools have the same signature
        owner: object,  # noqa: ARG002
        grant: Any,
        error: BaseException | None = None,  # noqa: ARG002
    ) -> None:
        """Tell listeners; the end of a call does not undo its start."""
        if self.counters.listeners and grant[0] is self.generation:
            with lock, lock.mutex:
                held = clock.now() - grant[1]
                self.counters.tell("released", key, self.in_use(key), self.queued(key), held=held)

    def undo(self, key: Hashable, weight: int, at: int, owner: object) -> None:
        """Nothing: a call takes its start when it begins, and cannot be cancelled after that."""

    def estimate(self, key: Hashable, ahead: int) -> int:
        now = clock.now()
        return max(self.opens_at(key, 1, now) - now, 0) + (ahead - 1) * self.window.gap if ahead else 0

    def stats(self) -> Stats:
        with lock, lock.mutex:
            self.forget(clock.now(), len(self._old))
            return self.counters.stats(self.window.limit, self.in_use(None), self.waiting(), self.keys())

    def note(self, key: Hashable, until: int, now: int) -> None:
        """Remember that *key* matters *until* then, and forget others."""
        self._old.append((until, key))
        self.forget(now, _SWEPT)

    def forget(self, now: int, most: int) -> None:
        """Forget up to *most* keys that do not matter any more."""
        while most and self._old and self._old[0][0] <= now:
            self.drop(self._old.popleft()[1], now)
            most -= 1

    @abstractmethod
    def drop(self, key: Hashable, now: int) -> None:
        """Forget *key* unless it matters still."""

    def reset(self) -> None:
        super().reset()
        self._old.clear()
        self._by_key.clear()


class Spaced(Pace[int]):
    """Starts at least a gap apart, after a burst: for a key it remembers when the next start would be due by the gap.

    With a burst of one this is the throttle of `limits`.
    """

    def __init__(self, window: Window, burst: int, options: WaitOptions) -> None:
        super().__init__(window, options)
        self._lead = (burst - 1) * window.gap

    def opens_at(self, key: Hashable, weight: int, now: int) -> int:  # noqa: ARG002
        due = self._by_key.get(key)
        return ALWAYS if due is None else due - self._lead

    def take(self, key: Hashable, weight: int, now: int, owner: object) -> None:  # noqa: ARG002
        due = max(self._by_key.get(key, now), now) + self.window.gap * weight
        self._by_key[key] = due
        self.note(key, due, now)

    def in_use(self, key: Hashable) -> int:
        ahead = self._by_key.get(key, 0) - clock.now()
        return max(-(-ahead // self.window.gap), 0)

    def drop(self, key: Hashable, now: int) -> None:
        if self._by_key.get(key, now + 1) <= now:
            del self._by_key[key]


class Windowed(Pace[Gate]):
    """So many starts in any window: a gate of `limits` for each key."""

    def __init__(self, window: Window, options: WaitOptions) -> None:
        super().__init__(window, options)
        self._numbers = Numbers(rate=window)

    def opens_at(self, key: Hashable, weight: int, now: int) -> int:
        gate = self._by_key.get(key)
        return ALWAYS if gate is None else gate.opens_at(self._numbers, weight, now)

    def take(self, key: Hashable, weight: int, now: int, owner: object) -> None:  # noqa: ARG002
        gate = self._by_key.get(key)
        if gate is None:
            gate = self._by_key[key] = Gate(0)
        gate.remember(self._numbers, now)
        gate.start(now, weight)
        self.note(key, now + self.window.period, now)

    def check_entry(self, key: Hashable, weight: int, owner: object) -> None:  # noqa: ARG002
        if weight > self.window.limit:
            raise InvalidPolicyError("weight", f"{weight} never fits into {self.window.limit} starts")

    def in_use(self, key: Hashable) -> int:
        gate = self._by_key.get(key)
        if gate is None or gate.starts is None:
            return 0
        return gate.starts.since(clock.now() - self.window.period)

    def drop(self, key: Hashable, now: int) -> None:
        gate = self._by_key.get(key)
        if gate is not None and (gate.starts is None or not gate.starts.since(now - self.window.period)):
            del self._by_key[key]
