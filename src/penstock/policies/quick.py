"""Slots that can be had without the lock, as long as nobody waits.

Free slots are lent to a list, from which a call takes one and to which it gives it back; both are single steps that no
thread can interrupt.  Until they are taken back they count as used.  Whoever gives back looks at the line afterwards,
and whoever joins the line looks at the list afterwards, so that no slot lies there while somebody waits.
"""

from asyncio import Task
from collections.abc import Hashable, Iterator
from contextlib import suppress
from typing import Any, Final

from penstock.policies import moment
from penstock.policies.deadline import NEVER, ambient
from penstock.policies.guard import guard
from penstock.policies.limiter import advance, leave_and_advance
from penstock.policies.line import Line
from penstock.policies.options import Options
from penstock.policies.pool import Pool
from penstock.policies.slot import BLOCK
from penstock.policies.waiter import GONE, GRANTED, Waiter

_LENT: Final = 64


class QuickPool(Pool):
    """A pool without keys."""

    def __init__(self, slots: int, options: Options, *, reentrant: bool = False) -> None:
        self.quick = True  # whether slots may be lent
        self._simple = options.max_queue is None and options.line is Line
        super().__init__(slots, options, reentrant=reentrant)
        self.starts: Iterator[int] = self.ledger.tick.__self__  # type: ignore[attr-defined]

    def tune(self) -> None:
        super().tune()
        self.quick = not (self.closed or self.clocked)
        if not self.quick and self.spare:  # else whoever takes one of these would pass unseen
            guard.do(self._absorb)

    def try_acquire(self, key: Hashable, weight: int, owner: object) -> Any:
        if self.spare and weight == 1 and not self.lines and owner not in self.owners:
            with suppress(IndexError):  # another thread may be quicker
                hold = self.spare.pop()
                if owner is not None:
                    self.owners[owner] = None
                next(self.starts)
                return hold
        hold = super().try_acquire(key, weight, owner)
        if hold is self.token and self.quick:
            guard.do(self._lend)
        return hold

    async def aacquire(self, key: Hashable, weight: int, owner: object, **wishes: Any) -> tuple[Any, int]:
        waiter = self.stand(owner, moment.now()) if weight == 1 and not wishes else None
        if waiter is None:
            return await super().aacquire(key, weight, owner, **wishes)
        assert waiter.future is not None  # noqa: S101 - for the type checker
        try:
            await waiter.future
        except BaseException:
            self.abandon(waiter)
            raise
        if waiter.state != GRANTED:
            raise self.refusal(None, waiter.reason)
        next(self.starts)
        return self.token, moment.now() - waiter.joined

    def stand(self, owner: object, joined: int = 0) -> Waiter | None:
        """Let a task stand behind others, if there are any and nothing needs to be thought about."""
        line = self.lines.get(None)
        if line is None or not self.quick or not self._simple or owner in self.owners:
            return None
        if not isinstance(owner, Task) or ambient.get() != NEVER:
            return None
        loop = owner.get_loop()
        waiter = Waiter(self, None, 1, owner, joined, line, loop, loop.create_future())
        lock = guard.lock
        lock.acquire()
        try:
            if self.lines.get(None) is not line:  # it came to its end meanwhile
                return None
            line.waiting += 1
            line.entries.append(waiter)
            if self.spare:
                advance(line, moment.now())
        finally:
            lock.release()
        if guard.later or guard.outbox:
            guard.catch_up()
        return waiter

    def abandon(self, waiter: Waiter) -> None:
        """Let *waiter* go, since its task was cancelled."""
        guard.do(leave_and_advance, waiter)
        self.note_cancelled(waiter)

    def release(
        self,
        key: Hashable,
        weight: int,
        owner: Any,
        hold: Any,
        error: BaseException | None = None,
    ) -> None:
        if hold is BLOCK:
            hold = self.token
        if hold is not self.token or weight != 1:
            super().release(key, weight, owner, hold, error)
            return
        if owner is not None:
            self.owners.pop(owner, None)
        if self.quick and not self.lines:
            self.spare.append(hold)
            if self.lines:
                guard.do(self.serve)
        elif guard.lock.acquire(False):  # noqa: FBT003 - to name it takes as long as the rest of the call
            try:
                if not self._hand_over():
                    self.end(None, 1, None)
            finally:
                guard.lock.release()
            if guard.later or guard.outbox:
                guard.catch_up()
        else:
            guard.do(self.end, None, 1, None)

    def serve(self) -> None:
        """Look at the line again, since a slot may be free."""
        if None in self.lines:
            advance(self.lines[None], moment.now())

    def in_use(self, key: Hashable) -> int:
        return self.used.get(key, 0) - len(self.spare)

    def keys(self) -> int:
        return int(self.in_use(None) > 0)

    def opens_at(self, key: Hashable, weight: int, now: int) -> int:
        if self.spare:
            self._absorb()
        return super().opens_at(key, weight, now)

    def watch(self) -> None:
        if not self.clocked:
            guard.do(self._watch)

    def close(self, drain: int) -> None:
        with guard, guard.lock:
            self.closed = True
            self.tune()
        super().close(drain)

    def reset(self) -> None:
        super().reset()
        self.spare = []

    def _watch(self) -> None:
        self.clocked = True
        self.tune()

    def _hand_over(self) -> bool:
        """Pass a slot on to the first in line, if nothing needs to be thought about."""
        line = self.lines.get(None)
        if line is None or type(line) is not Line or line.codel is not None:
            return False
        entries = line.entries
        while entries:
            waiter = entries[0]
            if waiter.line is not line:
                entries.popleft()
                line.stale -= 1
                continue
            if type(waiter) is not Waiter or waiter.weight != 1 or waiter.until != NEVER:
                return False
            entries.popleft()
            waiter.line = None
            line.waiting -= 1
            waiter.state = GRANTED
            # Before it wakes: it may be in another thread, and gone again at once.
            if waiter.owner is not None:
                self.owners[waiter.owner] = None
            if not waiter.wake():
                waiter.state = GONE
                self.owners.pop(waiter.owner, None)
                continue
            if not entries:
                del self.lines[None]
            return True
        return False

    def _lend(self) -> None:
        used = self.used.get(None, 0)
        free = min(self.slots - used, _LENT)
        if free > 0 and self.quick and not self.lines:
            self.used[None] = used + free
            self.spare += [self.token] * free

    def _absorb(self) -> None:
        """Take back what was lent."""
        lent = 0
        with suppress(IndexError):
            while True:
                self.spare.pop()
                lent += 1
        left = self.used.get(None, 0) - lent
        if left:
            self.used[None] = left
        else:
            self.used.pop(None, None)
