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
from penstock.policies.guard import everyone, guard
from penstock.policies.ledger import Ledger, Stats
from penstock.policies.limiter import advance
from penstock.policies.options import Options, whole
from penstock.policies.queueing import Queueing
from penstock.policies.slot import Slot

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
    def ask_once(self, key: Hashable, weight: int, owner: object) -> Any: ...
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
        self.keyed = keyed
        self.groups: dict[Hashable, int] | None = None
        self.reentrant = reentrant
        self.slots = slots if isinstance(slots, int) else 0
        self.slots_of = slots if callable(slots) else None
        self.adaptive = None if isinstance(slots, int) or callable(slots) else slots
        self.clocked = self.adaptive is not None or options.max_wait is not None
        if self.adaptive is not None:
            self.slots = self.adaptive.limit
        self.tune()

    def tune(self) -> None:
        """Look whether times are to be taken."""
        self.clocked = self.clocked or bool(self.ledger.listeners)

    def try_acquire(self, key: Hashable, weight: int, owner: object) -> Any:
        if owner is not None and owner in self.owners and self._holds(owner, key):
            return self.again(key)
        return super().try_acquire(key, weight, owner)

    def again(self, key: Hashable) -> object:
        """Let one who holds a slot already in for nothing, or raise."""
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
            self.unregister(owner, key)
            owner = None if self.groups is None else (None, owner[1])
        guard.do(self.settle, key, weight, owner, hold, error)

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

    def opens_at(self, key: Hashable, weight: int, now: int) -> int:  # noqa: ARG002
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
            if self.keyed and not self.used:
                # A dictionary keeps the room it once needed until it is cleared.
                self.used.clear()
                self.owners.clear()
        if owner is not None and (self.groups is None or owner[0] is not None):
            self.unregister(owner, key)
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
        with guard, guard.lock:
            return Stats(
                self.ledger.name,
                self.slots,
                sum(self.in_use(key) for key in self.used),
                sum(line.waiting for line in self.lines.values()),
                self.keys(),
                self.ledger.starts(),
                dict(self.ledger.rejected),
                self.ledger.cancelled,
                self.ledger.abandoned,
                self.holds.mean / _SECOND,
            )

    def reset(self) -> None:
        super().reset()
        self.used = {}
        self.owners.clear()
        if self.groups is not None:
            self.groups = {}

    def end(self, key: Hashable, weight: int, owner: object) -> None:
        self.give(key, weight, owner)
        if key in self.lines:
            advance(self.lines[key], moment.now())

    def unregister(self, owner: object, key: Hashable) -> None:
        held = self.owners.get(owner, _NOBODY)
        if held == key or type(held) is Slot:
            del self.owners[owner]
        else:
            self.owners.pop((owner, key), None)

    def settle(
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
        self.end(key, weight, owner)
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


def note_abandoned(owner: object) -> None:
    """Count the slots that *owner* holds, since nobody waits for what it does with them any more."""
    with guard, guard.lock:
        for pool in list(everyone):
            if isinstance(pool, Pool) and owner in pool.owners:
                pool.ledger.abandoned += 1
