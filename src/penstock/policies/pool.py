"""The slots of a bulkhead, inside one process.

What is remembered for a key is one number while somebody holds a slot, a line while somebody waits, and nothing
otherwise.  Whoever holds a slot in its own name (a task or a thread) is noted too, so that it does not wait for itself.

Another kind of pool may stand in for this one: `Slots` is all that a bulkhead asks of it.
"""

from asyncio import CancelledError
from collections.abc import Callable, Hashable
from typing import Any, Final, Protocol

from penstock.limits.gate import ALWAYS, ON_RELEASE
from penstock.policies import moment
from penstock.policies.adaptive import Adaptive
from penstock.policies.errors import BulkheadFull, InvalidPolicyError, ReentryError
from penstock.policies.guard import guard
from penstock.policies.ledger import Ledger, Stats
from penstock.policies.limiter import advance
from penstock.policies.options import Options, whole
from penstock.policies.queueing import Queueing

FREE: Final = "free"  # the hold of one who holds a slot already, in a bulkhead that allows it
_NOBODY: Final = object()
_SECOND: Final = 1_000_000


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
    def close(self, drain: int) -> None: ...
    def stats(self) -> Stats: ...


class Pool(Queueing):
    """So many slots for each key."""

    error = BulkheadFull

    def __init__(
        self, slots: int | Adaptive | Callable[[Any], int], options: Options, *, reentrant: bool = False
    ) -> None:
        super().__init__(options)
        self.used: dict[Hashable, int] = {}
        self.owners: dict[object, Hashable] = {}
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
        plain = not (self.closed or self.slots_of or self.options.max_keys or self.clocked)
        self.quick = self.slots if plain and self.groups is None else -1

    def try_acquire(self, key: Hashable, weight: int, owner: object) -> Any:
        hold = None
        with guard.lock:
            used = self.used.get(key, 0)
            if used + weight <= self.quick and not self.lines and owner not in self.owners:
                self.used[key] = used + weight
                if owner is not None:
                    self.owners[owner] = key
                self.ledger.acquired += 1
                hold = self.token
        if guard.later:
            guard.catch_up()
        return self._try(key, weight, owner) if hold is None else hold

    def _try(self, key: Hashable, weight: int, owner: object) -> Any:
        if owner is not None and owner in self.owners and self._holds(owner, key):
            if self.reentrant:
                return FREE
            raise ReentryError(self.ledger.name, key)
        return super().try_acquire(key, weight, owner)

    def release(
        self,
        key: Hashable,
        weight: int,
        owner: object,
        hold: Any,
        error: BaseException | None = None,
    ) -> None:
        """Give back what was taken; never waits."""
        lock = guard.lock
        if hold is self.token and lock.acquire(blocking=False):
            try:
                self._end(key, weight, owner)
            finally:
                lock.release()
            if guard.later or guard.outbox:
                guard.catch_up()
        elif hold is not FREE:
            guard.do(self._settle, key, weight, owner, hold, error)

    def limit(self, key: Hashable) -> int:
        if self.slots_of is None:
            return self.slots
        return whole("max_concurrent", self.slots_of(key))

    def in_use(self, key: Hashable) -> int:
        return self.used.get(key, 0)

    def known(self, key: Hashable) -> bool:
        return key in self.used

    def keys(self) -> int:
        return len(self.used)

    def hold(self, now: int) -> object:
        return (self.token, now) if self.clocked else self.token

    def watch(self) -> None:
        self.clocked = True
        self.quick = -1

    def opens_at(self, key: Hashable, weight: int, now: int) -> int:  # noqa: ARG002
        return ALWAYS if self.used.get(key, 0) + weight <= self.limit(key) else ON_RELEASE

    def take(self, key: Hashable, weight: int, now: int, owner: object) -> None:  # noqa: ARG002
        self.used[key] = self.used.get(key, 0) + weight
        if owner is not None:
            self.owners[owner if owner not in self.owners else (owner, key)] = key
        if self.groups is not None:
            self._count(key, owner, weight)

    def give(self, key: Hashable, weight: int, owner: object) -> None:
        left = self.used[key] - weight
        if left:
            self.used[key] = left
        else:
            del self.used[key]
        if owner is not None:
            if self.owners.get(owner, _NOBODY) == key:
                del self.owners[owner]
            else:
                self.owners.pop((owner, key), None)
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
                sum(self.used.values()),
                sum(line.waiting for line in self.lines.values()),
                len(self.used),
                self.ledger.acquired,
                dict(self.ledger.rejected),
                self.ledger.cancelled,
                self.ledger.abandoned,
                self.holds.mean / _SECOND,
            )

    def reset(self) -> None:
        super().reset()
        self.used, self.owners = {}, {}
        if self.groups is not None:
            self.groups = {}

    def _end(self, key: Hashable, weight: int, owner: object) -> None:
        self.give(key, weight, owner)
        if self.lines and (line := self.lines.get(key)) is not None:
            advance(line, moment.now())

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
        return self.owners.get(owner, _NOBODY) == key or (owner, key) in self.owners

    def _count(self, key: Hashable, owner: Any, weight: int) -> None:
        assert self.groups is not None  # noqa: S101 - for the type checker
        group = owner[1] if isinstance(owner, tuple) else None
        self.groups[group] = self.groups.get(group, 0) + weight
        if not self.groups[group]:
            del self.groups[group]
        if key in self.lines:
            self.lines[key].changed(group)
