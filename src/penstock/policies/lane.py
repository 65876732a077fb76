"""Calls that want the same slots of the same several limits, in order; only the first of them is ever tested."""

from collections import deque
from collections.abc import Hashable
from typing import Any, Final

from penstock.limits.gate import ON_RELEASE
from penstock.policies.limiter import Limiter, Shut, advance
from penstock.policies.line import Line
from penstock.policies.queueing import Queueing
from penstock.policies.waiter import CALLED, GRANTED, WAITING, Waiter

Stand = tuple[Queueing, Hashable, int]

PATIENCE: Final = 20  # refusals, after which what is offered may be kept


class Lane:
    """An entry of a line; see `Waiter` for what those have in common."""

    __slots__ = ("kept", "lanes", "line", "ordered", "refusals", "seq", "size", "stands", "timed", "waiters")

    def __init__(self, stands: tuple[Stand, ...], lanes: "dict[tuple[Stand, ...], Lane]") -> None:
        self.stands = stands
        self.lanes = lanes
        # One order for everybody who keeps slots, so that nobody waits for another in a circle; what opens by the
        # clock comes last.
        self.ordered = sorted(stands, key=lambda stand: (stand[0].timed, stand[0].number))
        self.timed = any(pool.timed for pool, _, _ in stands)
        self.waiters: deque[Waiter] = deque()
        self.size = 0
        self.line: Line | None = None
        self.refusals = 0
        self.seq = 0
        self.kept: list[Stand] = []

    @property
    def head(self) -> Waiter:
        while self.waiters[0].state not in (WAITING, CALLED):
            self.waiters.popleft()
        return self.waiters[0]

    @property
    def last(self) -> tuple[Queueing, Hashable]:
        """Where it stands while it is called: at a limit that opens by the clock, if there is one."""
        return self.ordered[-1][:2]

    def needs(self, limiter: Limiter) -> bool:
        """Tell whether its calls must pass *limiter*."""
        return any(pool is limiter for pool, _, _ in self.stands)

    def everybody(self) -> list[Waiter]:
        return [waiter for waiter in self.waiters if waiter.state in (WAITING, CALLED)]

    def join(self, waiter: Waiter, now: int) -> None:
        """Let *waiter* stand behind the others."""
        waiter.entry = self
        self.waiters.append(waiter)
        self.size += 1
        self.seq = self.seq or waiter.seq
        if self.line is not None:
            self.line.waiting += 1
            return
        pool, key, _ = self.shut_by(now) or (*self.last, 0)
        advance(pool.join(self, key), now)

    def shut_by(self, now: int) -> Shut | None:
        """Return the limit that keeps the first waiter from starting, taking on the way what it may keep."""
        if self.refusals >= PATIENCE:
            return self._shut_in_order(now)
        for stand in self.stands:
            shut = self._shut(stand, now)
            if shut is not None:
                return shut
        return None

    def refused(self) -> None:
        """Take note that a limit was open, and another was not."""
        self.refusals += 1

    def take(self, now: int) -> None:
        """Take all there is to take for the first waiter."""
        head = self.head
        kept = self.kept
        for stand in self.stands:
            if stand not in kept:
                stand[0].take(stand[1], stand[2], now, head.owner)
        head.state = GRANTED
        head.at = now
        self.kept = []
        self._without_head()

    def give_back(self, waiter: Waiter) -> list[Line | None]:
        """Give back what *waiter* was granted."""
        for pool, key, weight in self.stands:
            pool.undo(key, weight, waiter.at, waiter.owner)
        return [pool.lines.get(key) for pool, key, _ in self.stands]

    def remove(self, waiter: Waiter, now: int) -> list[Line | None]:
        """Let *waiter* go, and what was kept for it."""
        freed: list[Line | None] = []
        if self.kept and waiter is self.head:
            for pool, key, weight in self.kept:
                pool.undo(key, weight, now, waiter.owner)
                freed.append(pool.lines.get(key))
            self.kept = []
        if self.line is not None:
            self.line.waiting -= 1
        if waiter is self.head:
            self._without_head()
        else:
            self._one_less()
        return freed

    def _without_head(self) -> None:
        self.waiters.popleft()
        self.refusals = 0
        self._one_less()
        if self.size:
            self.seq = self.head.seq

    def _one_less(self) -> None:
        self.size -= 1
        if not self.size:
            del self.lanes[self.stands]

    def _shut_in_order(self, now: int) -> Shut | None:
        for stand in self.ordered:
            if stand in self.kept:
                continue
            shut = self._shut(stand, now)
            if shut is not None:
                return shut
            if not stand[0].timed:
                stand[0].take(stand[1], stand[2], now, self.head.owner)
                self.kept.append(stand)
        return None

    def _shut(self, stand: Stand, now: int) -> Shut | None:
        pool, key, weight = stand
        at = pool.opens_at(key, weight, now)
        if at > now:
            return pool, key, at
        line = pool.lines.get(key)
        if line is not None and line is not self.line:
            first: Any = line.first(now)
            # Somebody elder is about to be served there.
            if first is not None and first is not self and first.seq < self.seq:
                return pool, key, ON_RELEASE
        return None
