"""The slots of a bulkhead, inside one process.

For a key the pool remembers one number while slots are held, a wait list while calls wait, and nothing otherwise.
It also notes each task or thread that holds a slot in its own name, so that none waits for itself.
"""

from asyncio import CancelledError
from collections.abc import Callable, Hashable
from typing import Any, Final

from penstock.clock import SECOND
from penstock.limits.gate import ALWAYS, ON_RELEASE
from penstock.policies import clock
from penstock.policies.adaptive import Adaptive
from penstock.policies.call_admission import CallAdmission
from penstock.policies.errors import BulkheadFull, InvalidPolicyError, ReentryError
from penstock.policies.events import Stats
from penstock.policies.options import WaitOptions, whole
from penstock.policies.process_lock import lock, registry
from penstock.policies.wait_moves import advance

FREE: Final = "free"  # the grant of a caller that holds a slot already, in a reentrant bulkhead
_NOT_HELD: Final = object()


class SlotPool(CallAdmission):
    """So many slots for each key."""

    error = BulkheadFull

    def __init__(
        self,
        slots: int | Adaptive | Callable[[Any], int],
        options: WaitOptions,
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
        """Find out whether to measure how long slots are held."""
        self.clocked = self.clocked or bool(self.counters.listeners)

    def try_acquire(self, key: Hashable, weight: int, owner: object) -> Any:
        if owner is not None and owner in self.owners and self.is_held(owner, key):
            return self.reenter(key)
        return super().try_acquire(key, weight, owner)

    def reenter(self, key: Hashable) -> object:
        """Return the grant of a caller that holds a slot already, or raise."""
        if not self.reentrant:
            raise ReentryError(self.counters.name, key)
        return FREE

    def release(
        self, key: Hashable, weight: int, owner: Any, grant: Any, error: BaseException | None = None
    ) -> None:
        """Give back what was taken; never waits."""
        if grant is FREE:
            return
        # At once, even if the slot follows later: its holder may come back before that.
        if owner is not None:
            self.unregister(owner, key)
            owner = None if self.groups is None else (None, owner[1])
        lock.do(self.settle, key, weight, owner, grant, error)

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

    def grant(self, key: Hashable, weight: int, at: int) -> object:  # noqa: ARG002
        return (self.generation, at) if self.clocked else self.generation

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
        if owner is not None and owner in self.owners and self.is_held(owner, key):
            raise ReentryError(self.counters.name, key)

    def group_use(self, group: Hashable) -> int:
        return 0 if self.groups is None else self.groups.get(group, 0)

    def stats(self) -> Stats:
        with lock, lock.mutex:
            in_use = sum(self.in_use(key) for key in self.used)
            mean_hold = self.hold_times.mean / SECOND
            return self.counters.stats(self.slots, in_use, self.waiting(), self.keys(), mean_hold)

    def reset(self) -> None:
        super().reset()
        self.forget_holders()

    def forget_holders(self) -> None:
        """Free all slots, since their holders are gone or have lost them."""
        self.used = {}
        self.owners.clear()
        if self.groups is not None:
            self.groups = {}

    def end(self, key: Hashable, weight: int, owner: object) -> None:
        """Free slots, and serve the wait list."""
        self.give(key, weight, owner)
        if key in self.wait_lists:
            advance(self.wait_lists[key], clock.now())

    def is_held(self, owner: object, key: Hashable) -> bool:
        """Tell whether *owner* holds a slot of *key* in its own name."""
        return self.owners.get(owner, _NOT_HELD) == key or (owner, key) in self.owners

    def unregister(self, owner: object, key: Hashable) -> None:
        """Forget that *owner* holds a slot of *key*."""
        if self.owners.get(owner, _NOT_HELD) == key:
            del self.owners[owner]
        else:
            self.owners.pop((owner, key), None)

    def settle(
        self, key: Hashable, weight: int, owner: object, grant: Any, error: BaseException | None
    ) -> None:
        """Free what was granted, unless that was before a fork or before the lease was lost."""
        generation, since = opened(grant)
        if generation is not self.generation:
            return
        now = clock.now()
        if since and not isinstance(error, CancelledError):
            self.hold_times.add(now - since)
            if self.adaptive is not None:
                self._adapt(self.adaptive, key, now - since, error, now)
        self.end(key, weight, owner)
        if self.counters.listeners:
            self.counters.tell(
                "released", key, self.in_use(key), self.queued(key), held=now - since if since else 0
            )

    def _adapt(
        self, adaptive: Adaptive, key: Hashable, took: int, error: BaseException | None, now: int
    ) -> None:
        if adaptive.sample(took, self.in_use(key), error, now):
            grew = adaptive.limit > self.slots
            self.slots = adaptive.limit
            if self.counters.listeners:
                in_use, queued = self.in_use(key), self.queued(key)
                self.counters.tell("limit_changed", key, in_use, queued, limit=self.slots)
            for wait_list in list(self.wait_lists.values()) if grew else ():
                advance(wait_list, now)

    def _count(self, key: Hashable, owner: Any, weight: int) -> None:
        assert self.groups is not None  # noqa: S101 - for the type checker
        group = owner[1] if isinstance(owner, tuple) else None
        self.groups[group] = self.groups.get(group, 0) + weight
        if not self.groups[group]:
            del self.groups[group]
        if key in self.wait_lists:
            self.wait_lists[key].changed(group)


def opened(grant: Any) -> tuple[object, int]:
    """Return the generation of *grant*, and when it was given; 0 if that was not measured."""
    return grant if isinstance(grant, tuple) else (grant, 0)


def note_abandoned(owner: object) -> None:
    """Count the slots that the thread *owner* holds: its caller has stopped waiting for it."""
    with lock, lock.mutex:
        for pool in list(registry):
            if isinstance(pool, SlotPool) and owner in pool.owners:
                pool.counters.abandoned += 1
