"""So many starts per time: `Throttler` spreads them out, `RateLimiter` counts them in any window.

A start is noted when its call begins, by that call.  A key is forgotten once its starts are too old to matter.
"""

from collections.abc import Callable, Hashable
from heapq import heappop, heappush, heapreplace
from itertools import count
from typing import Any, ClassVar, Final, Unpack

from penstock.limits.costs import Cost
from penstock.limits.durations import Duration
from penstock.limits.gate import ALWAYS, Gate, Starts
from penstock.limits.rules import Numbers, Window
from penstock.policies import clock
from penstock.policies.call_admission import CallAdmission
from penstock.policies.call_limit import CallLimit
from penstock.policies.errors import InvalidPolicyError, RateExceeded
from penstock.policies.events import Stats
from penstock.policies.options import (
    Amount,
    Key,
    LimitOptions,
    WaitOptions,
    Weigh,
    checked,
    checked_cost,
    weigher,
    whole,
)
from penstock.policies.process_lock import lock
from penstock.policies.slot import CallSlot, calls
from penstock.policies.spending import Start
from penstock.policies.wait_moves import advance

# Keys looked at with each start, so that more are forgotten than come: each is looked at twice, when it is new too.
_SWEPT: Final = 3
_order: Final = count()


class PacedLimit(CallLimit):
    """What throttlers and rate limiters have in common: a start counts for its *cost*."""

    cost: Cost
    call_slot = CallSlot

    def spend(self, used: int) -> None:
        """Report what the running call of a function really *used*, as `Slot.spend` does in a block.

        The limit is around the function by itself or as a member of `Limits`.  Raises `LookupError` outside.
        """
        for slot in reversed(calls.get()):
            for start in slot.starts():
                if start.pace is self.pool:
                    start.spend(whole("used", used, least=0))
                    return
        raise LookupError(f"{self.name}.spend() reports for a running call of a function within this limit")

    def weighed(self, weight: int | None, cost: Amount | None) -> Any:
        if weight is not None:
            raise InvalidPolicyError("weight", f"{self.name} has no slots; say cost= for starts")
        if cost is not None:
            return whole("cost", cost)
        if not isinstance(self.cost, int):
            raise TypeError(f"{self.name} has a cost for each call; say it, as in .slot(cost=...)")
        return self.cost

    def weigher_for(self, function: Callable[..., Any]) -> Weigh | None:
        return weigher(self.cost, function)

    def starts_of(self, grant: Any) -> tuple[Start, ...]:
        return (grant,)


class Throttler(PacedLimit):
    """Starts at least *per* / *limit* apart, after a first *burst* of so many at once.

    After a start that has a *cost* the next one is that many times as far.  The cost is a number, a format string over
    the arguments of a function, or a function of them.
    """

    def __init__(
        self,
        limit: int,
        per: Duration = 1,
        *,
        burst: int = 1,
        key: Key | None = None,
        cost: Cost = 1,
        **options: Unpack[LimitOptions],
    ) -> None:
        super().__init__()
        asked = checked("throttler", options, key)
        self.key = key
        self.cost = checked_cost(cost)
        self.pool = Spaced(_window(limit, per), whole("burst", burst), asked)


class RateLimiter(PacedLimit):
    """At most *limit* starts in any window as long as *per*, wherever it begins.

    Of starts that have a *cost* it counts so much: a number, a format string over the arguments of a function, or a
    function of them.
    """

    def __init__(
        self,
        limit: int,
        per: Duration = 1,
        *,
        key: Key | None = None,
        cost: Cost = 1,
        **options: Unpack[LimitOptions],
    ) -> None:
        super().__init__()
        asked = checked("rate limiter", options, key)
        self.key = key
        self.cost = checked_cost(cost)
        self.pool = Windowed(_window(limit, per), asked)


def _window(limit: int, per: Duration) -> Window:
    return Window(whole("limit", limit), clock.span(per, "per"))


class Pace(CallAdmission):
    """The starts of late: a gate of `limits` for each key, which remembers them as far back as *numbers* look."""

    error = RateExceeded
    timed: ClassVar[bool] = True

    def __init__(self, window: Window, numbers: Numbers, options: WaitOptions) -> None:
        super().__init__(options)
        self.window = window
        self.numbers = numbers
        self.gates: dict[Hashable, Gate] = {}
        self._looks: list[tuple[int, int, Hashable]] = []  # when to look at which key again

    def limit(self, key: Hashable) -> int:  # noqa: ARG002
        return self.window.limit

    def known(self, key: Hashable) -> bool:
        return key in self.gates

    def keys(self) -> int:
        self._forget(clock.now(), len(self._looks))
        return len(self.gates)

    def take(self, key: Hashable, weight: int, now: int, owner: object) -> None:  # noqa: ARG002
        self._starts(key, now).add(now, weight)
        self._forget(now, _SWEPT)

    def grant(self, key: Hashable, weight: int, at: int) -> Start:
        return Start(self, key, weight, at, self.generation)

    def spend(self, start: Start, used: int) -> None:
        """Have *start* weigh what was *used*, and serve the calls that fit now."""
        with lock, lock.mutex:
            if start.generation is not self.generation:
                return
            now = clock.now()
            if self._starts(start.key, now).weigh(start.at, start.weight, used, now):
                self.reweighed(self.gates[start.key], start.key)
            start.weight = used
            advance(self.wait_lists.get(start.key), now)

    def reweighed(self, gate: Gate, key: Hashable) -> None:
        """Note that the starts of *key* weigh something else than they did."""

    def release(
        self,
        key: Hashable,
        weight: int,  # noqa: ARG002 - all pools have the same signature
        owner: object,  # noqa: ARG002
        grant: Any,
        error: BaseException | None = None,  # noqa: ARG002
    ) -> None:
        """Tell listeners; the end of a call does not undo its start."""
        if self.counters.listeners and grant.generation is self.generation:
            with lock, lock.mutex:
                held = clock.now() - grant.at
                self.counters.tell("released", key, self.in_use(key), self.queued(key), held=held)

    def undo(self, key: Hashable, weight: int, at: int, owner: object) -> None:
        """Nothing: a call takes its start when it begins, and cannot be cancelled after that."""

    def estimate(self, key: Hashable, ahead: int) -> int:
        now = clock.now()
        return max(self.opens_at(key, 1, now) - now, 0) + (ahead - 1) * self.window.gap if ahead else 0

    def stats(self) -> Stats:
        with lock, lock.mutex:
            return self.counters.stats(self.window.limit, self.in_use(None), self.waiting(), self.keys())

    def drop(self, key: Hashable) -> None:
        """Forget *key*."""
        del self.gates[key]

    def reset(self) -> None:
        super().reset()
        self._looks.clear()
        self.gates.clear()

    def _starts(self, key: Hashable, now: int) -> Starts:
        """Return the starts of *key* that matter still."""
        gate = self.gates.get(key)
        if gate is None:
            gate = self.gates[key] = Gate(0)
            gate.remember(self.numbers, now)
            heappush(self._looks, (now, next(_order), key))
        assert gate.starts is not None  # noqa: S101 - numbers of a pace look back
        gate.starts.prune(now)
        return gate.starts

    def _forget(self, now: int, most: int) -> None:
        """Look at up to *most* keys, and forget those that do not matter any more."""
        while most and self._looks and self._looks[0][0] <= now:
            key = self._looks[0][2]
            until = self._starts(key, now).kept_until
            if until > now:
                heapreplace(self._looks, (until, next(_order), key))
            else:
                heappop(self._looks)
                self.drop(key)
            most -= 1


class Spaced(Pace):
    """Starts at least a gap apart, after a burst.

    When the burst is whole again is kept for each key, since to find it out takes as long as there are starts.
    """

    def __init__(self, window: Window, burst: int, options: WaitOptions) -> None:
        # One start in each gap is the same pace, and is remembered no longer than it matters.
        self._throttle = Window(1, window.gap, burst)
        super().__init__(window, Numbers(throttle=self._throttle), options)
        self._due: dict[Hashable, int] = {}

    def opens_at(self, key: Hashable, weight: int, now: int) -> int:  # noqa: ARG002
        return self._due.get(key, ALWAYS) - self._throttle.lead(weight)

    def take(self, key: Hashable, weight: int, now: int, owner: object) -> None:
        super().take(key, weight, now, owner)
        self._due[key] = max(self._due.get(key, ALWAYS), now) + self._throttle.gap * weight

    def reweighed(self, gate: Gate, key: Hashable) -> None:
        self._due[key] = gate.throttle_due(self._throttle)

    def in_use(self, key: Hashable) -> int:
        ahead = self._due.get(key, ALWAYS) - clock.now()
        return max(-(-ahead // self._throttle.gap), 0)

    def drop(self, key: Hashable) -> None:
        super().drop(key)
        self._due.pop(key, None)

    def reset(self) -> None:
        super().reset()
        self._due.clear()


class Windowed(Pace):
    """So many starts in any window."""

    def __init__(self, window: Window, options: WaitOptions) -> None:
        super().__init__(window, Numbers(rate=window), options)

    def opens_at(self, key: Hashable, weight: int, now: int) -> int:
        gate = self.gates.get(key)
        return ALWAYS if gate is None else gate.opens_at(self.numbers, weight, now)

    def in_use(self, key: Hashable) -> int:
        gate = self.gates.get(key)
        if gate is None or gate.starts is None:
            return 0
        return gate.starts.since(clock.now() - self.window.period)

    def check_entry(self, key: Hashable, weight: int, owner: object) -> None:  # noqa: ARG002
        if weight > self.window.limit:
            raise InvalidPolicyError("cost", f"{weight} never fits into {self.window.limit} starts")
