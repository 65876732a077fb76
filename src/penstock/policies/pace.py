"""Starts, and how many lately: the memory of throttles and rates inside one process.

Starts are noted when they begin, by whoever begins.  A key is forgotten once its starts are too old to matter.
"""

from abc import abstractmethod
from collections import deque
from collections.abc import Hashable
from typing import Any, ClassVar, Final

from penstock.limits.gate import ALWAYS, Gate
from penstock.limits.rules import Numbers, Window
from penstock.policies import moment
from penstock.policies.errors import InvalidPolicyError, RateLimited
from penstock.policies.guard import guard
from penstock.policies.ledger import Stats
from penstock.policies.options import Options
from penstock.policies.queueing import Queueing

_SECOND: Final = 1_000_000
_SWEPT: Final = 2  # keys looked at with each start, so that more are forgotten than come


class Pace(Queueing):
    """What throttles and rates share."""

    error = RateLimited
    timed: ClassVar[bool] = True

    def __init__(self, window: Window, options: Options) -> None:
        super().__init__(options)
        self.window = window
        self._old: deque[tuple[int, Hashable]] = deque()

    def limit(self, key: Hashable) -> int:  # noqa: ARG002
        return self.window.limit

    def release(
        self,
        key: Hashable,
        weight: int,  # noqa: ARG002 - every pool is given back to in the same way
        owner: object,  # noqa: ARG002
        hold: Any,
        error: BaseException | None = None,  # noqa: ARG002
    ) -> None:
        """Do nothing but tell: a start is not undone by its end."""
        if self.ledger.listeners and hold[0] is self.token:
            with guard, guard.lock:
                held = moment.now() - hold[1]
                self.ledger.tell("released", key, self.in_use(key), self.queued(key), held=held)

    def undo(self, key: Hashable, weight: int, at: int, owner: object) -> None:
        """Nothing: who was called takes its start when it begins, and cannot be cancelled after that."""

    def estimate(self, key: Hashable, ahead: int) -> int:
        now = moment.now()
        return max(self.opens_at(key, 1, now) - now, 0) + (ahead - 1) * self.window.gap if ahead else 0

    def stats(self) -> Stats:
        with guard, guard.lock:
            now = moment.now()
            self.forget(now, len(self._old))
            ledger = self.ledger
            return Stats(
                ledger.name,
                self.window.limit,
                self.in_use(None),
                sum(line.waiting for line in self.lines.values()),
                self.keys(),
                ledger.acquired,
                dict(ledger.rejected),
                ledger.cancelled,
            )

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


class Spaced(Pace):
    """Starts at least a gap apart, after a burst: what is kept for a key is when the next would be due by the gap.

    With a burst of one this is the throttle of `limits`.
    """

    def __init__(self, window: Window, burst: int, options: Options) -> None:
        super().__init__(window, options)
        self._lead = (burst - 1) * window.gap
        self._due: dict[Hashable, int] = {}

    def opens_at(self, key: Hashable, weight: int, now: int) -> int:  # noqa: ARG002
        due = self._due.get(key)
        return ALWAYS if due is None else due - self._lead

    def take(self, key: Hashable, weight: int, now: int, owner: object) -> None:  # noqa: ARG002
        due = max(self._due.get(key, now), now) + self.window.gap * weight
        self._due[key] = due
        self.note(key, due, now)

    def in_use(self, key: Hashable) -> int:
        ahead = self._due.get(key, 0) - moment.now()
        return max(-(-ahead // self.window.gap), 0)

    def known(self, key: Hashable) -> bool:
        return key in self._due

    def keys(self) -> int:
        return len(self._due)

    def drop(self, key: Hashable, now: int) -> None:
        if self._due.get(key, now + 1) <= now:
            del self._due[key]

    def reset(self) -> None:
        super().reset()
        self._due.clear()


class Windowed(Pace):
    """So many starts in any window: a gate of `limits` for each key."""

    def __init__(self, window: Window, options: Options) -> None:
        super().__init__(window, options)
        self._numbers = Numbers(rate=window)
        self._gates: dict[Hashable, Gate] = {}

    def opens_at(self, key: Hashable, weight: int, now: int) -> int:
        gate = self._gates.get(key)
        return ALWAYS if gate is None else gate.opens_at(self._numbers, weight, now)

    def take(self, key: Hashable, weight: int, now: int, owner: object) -> None:  # noqa: ARG002
        gate = self._gates.get(key)
        if gate is None:
            gate = self._gates[key] = Gate(0)
        gate.remember(self.window.period, now)
        gate.start(now, weight)
        self.note(key, now + self.window.period, now)

    def check_entry(self, key: Hashable, weight: int, owner: object) -> None:  # noqa: ARG002
        if weight > self.window.limit:
            raise InvalidPolicyError("weight", f"{weight} never fits into {self.window.limit} starts")

    def in_use(self, key: Hashable) -> int:
        gate = self._gates.get(key)
        if gate is None or gate.starts is None:
            return 0
        return gate.starts.since(moment.now() - self.window.period)

    def known(self, key: Hashable) -> bool:
        return key in self._gates

    def keys(self) -> int:
        return len(self._gates)

    def drop(self, key: Hashable, now: int) -> None:
        gate = self._gates.get(key)
        if gate is not None and (gate.starts is None or not gate.starts.since(now - self.window.period)):
            del self._gates[key]

    def reset(self) -> None:
        super().reset()
        self._gates.clear()
