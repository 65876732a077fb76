"""The slots of a bulkhead, inside one process.

What is remembered for a key is one number while somebody holds a slot, a line while somebody waits, and nothing
otherwise.  Whoever holds a slot in its own name (a task or a thread) is noted too, so that it does not wait for itself.

Another kind of pool may stand in for this one: `Slots` is all that a bulkhead asks of it.
"""

from asyncio import CancelledError, Task, get_running_loop
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Any, Final, Protocol

from penstock.limits.gate import ALWAYS, ON_RELEASE
from penstock.policies import deadline, moment
from penstock.policies.adaptive import Adaptive
from penstock.policies.deadline import NEVER
from penstock.policies.errors import BulkheadFull, InvalidPolicyError, ReentryError
from penstock.policies.guard import guard
from penstock.policies.ledger import Ledger, Stats
from penstock.policies.limiter import advance, leave_and_advance
from penstock.policies.line import Line
from penstock.policies.options import Options, whole
from penstock.policies.queueing import Queueing
from penstock.policies.slot import Slot
from penstock.policies.waiter import GONE, GRANTED, Waiter

FREE: Final = "free"  # the hold of one who holds a slot already, in a bulkhead that allows it
_NOBODY: Final = object()
_SECOND: Final = 1_000_000
_LENT: Final = 64


class Slots(Protocol):
    """What a bulkhead asks of a pool.  A *hold* is whatever the pool wants to see again at the release.

    Whoever waits passes *until* (a moment), *priority* or *group* if it cares, and gets how long it waited, too.
    """

    ledger: Ledger

    def try_acquire(self, key: Hashable, weight: int, owner: object) -> Any: ...
    def acquire(self, key: Hashable, weight: int, owner: object, **wishes: Any) -> tuple[Any, int]: ...
    async def aacquire(self, key: Hashable, weight: int, owner: object, **wishes: Any) -> tuple[Any, int]: ...
    def release(
        self,
        key: Hashable,
        weight: int,
        owner: object,
        hold: Any,
        error: BaseException | None = None,
    ) -> None: ...
    def watch(self) -> None: ...
    def close(self, drain: int) -> None: ...
    def stats(self) -> Stats: ...


class Pool(Queueing):
    """So many slots for each key."""

    error = BulkheadFull

    def __init__(
        self,
        slots: int | Adaptive | Callable[[Any], int],
        options: Options,
        *,
        reentrant: bool = False,
        keyed: bool = False,
    ) -> None:
        super().__init__(options)
        self.used: dict[Hashable, int] = {}
        self.owners: dict[object, Hashable] = {}
        self.spare: list[object] = []
        self.keyed = keyed
        self.groups: dict[Hashable, int] | None = None
        self.reentrant = reentrant
        self.slots = slots if isinstance(slots, int) else 0
        self.slots_of = slots if callable(slots) else None
        self.adaptive = None if isinstance(slots, int) or callable(slots) else slots
        self.clocked = self.adaptive is not None or options.max_wait is not None
        if self.adaptive is not None:
            self.slots = self.adaptive.limit
        # A call that finds nothing in its way needs to look at this number only.
        self.quick = -1
        self.tune()

    def tune(self) -> None:
        """Choose the quick way in, or not."""
        self.clocked = self.clocked or bool(self.ledger.listeners)
        plain = not (self.keyed or self.closed or self.clocked or self.options.max_keys)
        self.quick = self.slots if plain and self.groups is None else -1

    def try_acquire(self, key: Hashable, weight: int, owner: object) -> Any:
        if self.spare and weight == 1 and not self.lines and owner not in self.owners:
            try:
                hold = self.spare.pop()
            except IndexError:  # another thread was quicker
                pass
            else:
                if owner is not None:
                    self.owners[owner] = None
                self.ledger.tick()
                return hold
        hold = None
        with guard.lock:
            used = self.used.get(key, 0)
            if used + weight <= self.quick and not self.lines and owner not in self.owners:
                self.used[key] = used + weight
                if owner is not None:
                    self.owners[owner] = key
                self.ledger.acquired += 1
                self._lend(key)
                hold = self.token
        if guard.later:
            guard.catch_up()
        return self._try(key, weight, owner) if hold is None else hold

    async def aacquire(self, key: Hashable, weight: int, owner: object, **wishes: Any) -> tuple[Any, int]:
        if self.quick < 0 or wishes or self.options.max_queue is not None or deadline.ambient.get() != NEVER:
            return await super().aacquire(key, weight, owner, **wishes)
        if owner in self.owners and self._holds(owner, key):
            return self._again(key), 0
        loop = owner.get_loop() if isinstance(owner, Task) else get_running_loop()
        future = loop.create_future()
        waiter = Waiter(self, key, weight, owner, moment.now(), loop=loop, future=future)
        with guard.lock:
            line = self.lines.get(key)
            if line is not None:
                line.add(waiter)
            elif self.ask(key, weight, owner, waiter.joined):
                return self.token, 0
            else:
                line = self.join(waiter, key)
            # Whoever gave back a slot meanwhile has not seen this one.
            if self.spare:
                advance(line, waiter.joined)
        if guard.later or guard.outbox:
            guard.catch_up()
        try:
            await future
        except BaseException:
            guard.do(leave_and_advance, waiter)
            self.note_cancelled(waiter)
            raise
        if waiter.state != GRANTED:
            raise self.refusal(key, waiter.reason)
        self.ledger.tick()
        return self.hold(waiter.joined), moment.now() - waiter.joined

    def _try(self, key: Hashable, weight: int, owner: object) -> Any:
        if owner is not None and owner in self.owners and self._holds(owner, key):
            return self._again(key)
        return super().try_acquire(key, weight, owner)

    def _again(self, key: Hashable) -> object:
        if not self.reentrant:
            raise ReentryError(self.ledger.name, key)
        return FREE

    def release(
        self,
        key: Hashable,
        weight: int,
        owner: Any,
        hold: Any,
        error: BaseException | None = None,
    ) -> None:
        """Give back what was taken; never waits."""
        if hold is FREE:
            return
        # At once, even if the slot follows later: its holder may come back before that.
        if owner is not None:
            self._unregister(owner, key)
            owner = None if self.groups is None else (None, owner[1])
        if hold is self.token:
            if weight == 1 and self.quick > 0 and not self.lines:
                self.spare.append(hold)
                # Whoever joined a line meanwhile has not seen it, or has taken it.
                if self.lines:
                    guard.do(self.serve)
                return
            lock = guard.lock
            if lock.acquire(blocking=False):
                try:
                    self._end(key, weight, owner)
                finally:
                    lock.release()
                if guard.later or guard.outbox:
                    guard.catch_up()
                return
        guard.do(self._settle, key, weight, owner, hold, error)

    def close(self, drain: int) -> None:
        with guard:
            self.closed = True
            self.tune()
            self._absorb()
        super().close(drain)

    def limit(self, key: Hashable) -> int:
        if self.slots_of is None:
            return self.slots
        return whole("max_concurrent", self.slots_of(key))

    def in_use(self, key: Hashable) -> int:
        return self.used.get(key, 0) - len(self.spare)

    def known(self, key: Hashable) -> bool:
        return key in self.used

    def keys(self) -> int:
        return len(self.used)

    def hold(self, now: int) -> object:
        return (self.token, now) if self.clocked else self.token

    def watch(self) -> None:
        if not self.clocked:
            guard.do(self._watch)

    def _watch(self) -> None:
        self.clocked = True
        self.tune()
        self._absorb()

    def opens_at(self, key: Hashable, weight: int, now: int) -> int:  # noqa: ARG002
        if self.spare:
            self._absorb()
        return ALWAYS if self.used.get(key, 0) + weight <= self.limit(key) else ON_RELEASE

    def take(self, key: Hashable, weight: int, now: int, owner: object) -> None:  # noqa: ARG002
        self.used[key] = self.used.get(key, 0) + weight
        if owner is not None:
            self.owners[owner if owner not in self.owners else (owner, key)] = key
        if self.groups is not None:
            self._count(key, owner, weight)

    def give(self, key: Hashable, weight: int, owner: Any) -> None:
        left = self.used[key] - weight
        if left:
            self.used[key] = left
        else:
            del self.used[key]
        if owner is not None and (self.groups is None or owner[0] is not None):
            self._unregister(owner, key)
        if self.groups is not None:
            self._count(key, owner, -weight)

    def check_entry(self, key: Hashable, weight: int, owner: object) -> None:
        if weight > self.limit(key) and self.adaptive is None:
            raise InvalidPolicyError("weight", f"{weight} is more than all {self.limit(key)} slots")
        if owner is not None and owner in self.owners and self._holds(owner, key):
            raise ReentryError(self.ledger.name, key)

    def group_use(self, group: Hashable) -> int:
        return 0 if self.groups is None else self.groups.get(group, 0)

    def stats(self) -> Stats:
        with guard:
            return Stats(
                self.ledger.name,
                self.slots,
                sum(self.used.values()) - len(self.spare),
                sum(line.waiting for line in self.lines.values()),
                len(self.used) - (self.used.get(None) == len(self.spare) > 0),
                self.ledger.starts(),
                dict(self.ledger.rejected),
                self.ledger.cancelled,
                self.ledger.abandoned,
                self.holds.mean / _SECOND,
            )

    def reset(self) -> None:
        super().reset()
        self.used, self.spare = {}, []
        self.owners.clear()
        if self.groups is not None:
            self.groups = {}

    def _end(self, key: Hashable, weight: int, owner: object) -> None:
        line = self.lines.get(key) if self.lines else None
        if line is not None and weight == 1 and type(line) is Line and self._hand_over(line, key):
            return
        self.give(key, weight, owner)
        if line is not None:
            advance(line, moment.now())

    def _hand_over(self, line: Line, key: Hashable) -> bool:
        """Pass a slot on to the first in line, if nothing needs to be thought about."""
        entries = line.entries
        while entries:
            waiter = entries[0]
            if waiter.line is not line:
                entries.popleft()
                line.stale -= 1
                continue
            if type(waiter) is not Waiter or waiter.weight != 1 or waiter.until != NEVER:
                return False
            if (
                self.used[key] > self.slots
                or line.codel is not None
                or self.slots_of
                or self.groups is not None
            ):
                return False
            entries.popleft()
            waiter.line = None
            line.waiting -= 1
            waiter.state = GRANTED
            # Before it wakes: it may be in another thread, and gone again at once.
            if waiter.owner is not None:
                self.owners[waiter.owner if waiter.owner not in self.owners else (waiter.owner, key)] = key
            if not waiter.wake():
                waiter.state = GONE
                if waiter.owner is not None:
                    self._unregister(waiter.owner, key)
                continue
            if not entries:
                del self.lines[key]
            return True
        return False

    def serve(self) -> None:
        """Look at the line again, since a slot may be free."""
        line = self.lines.get(None)
        if line is not None:
            advance(line, moment.now())

    def _lend(self, key: Hashable) -> None:
        """Put free slots where they can be had without the lock; until they come back they count as used."""
        free = min(self.quick - self.used.get(key, 0), _LENT)
        if free > 0 and not self.lines:
            self.used[key] = self.used.get(key, 0) + free
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

    def _unregister(self, owner: object, key: Hashable) -> None:
        held = self.owners.get(owner, _NOBODY)
        if held == key or type(held) is Slot:
            del self.owners[owner]
        else:
            self.owners.pop((owner, key), None)

    def _settle(
        self,
        key: Hashable,
        weight: int,
        owner: object,
        hold: Any,
        error: BaseException | None,
    ) -> None:
        token, since = hold if isinstance(hold, tuple) else (hold, 0)
        if token is not self.token:
            return
        now = moment.now()
        if since and not isinstance(error, CancelledError):
            self.holds.add(now - since)
            if self.adaptive is not None:
                self._adapt(key, now - since, error, now)
        self._end(key, weight, owner)
        if self.ledger.listeners:
            self.ledger.tell(
                "released", key, self.in_use(key), self.queued(key), held=now - since if since else 0
            )

    def _adapt(self, key: Hashable, took: int, error: BaseException | None, now: int) -> None:
        assert self.adaptive is not None  # noqa: S101 - for the type checker
        if self.adaptive.sample(took, self.in_use(key), error, now):
            grew = self.adaptive.limit > self.slots
            self.slots = self.adaptive.limit
            if self.ledger.listeners:
                in_use, queued = self.in_use(key), self.queued(key)
                self.ledger.tell("limit_changed", key, in_use, queued, limit=self.slots)
            for line in list(self.lines.values()) if grew else ():
                advance(line, now)

    def _holds(self, owner: object, key: Hashable) -> bool:
        held = self.owners.get(owner, _NOBODY)
        # A slot that a block holds stands for itself; it has no key.
        return held == key or (type(held) is Slot and key is None) or (owner, key) in self.owners

    def _count(self, key: Hashable, owner: Any, weight: int) -> None:
        assert self.groups is not None  # noqa: S101 - for the type checker
        group = owner[1] if isinstance(owner, tuple) else None
        self.groups[group] = self.groups.get(group, 0) + weight
        if not self.groups[group]:
            del self.groups[group]
        if key in self.lines:
            self.lines[key].changed(group)
