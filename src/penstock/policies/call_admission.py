"""What becomes of a call at a limit: it comes in, waits, or is refused."""

from abc import abstractmethod
from asyncio import AbstractEventLoop
from collections.abc import Hashable
from typing import Any, ClassVar

from penstock.clock import SECOND
from penstock.policies import clock
from penstock.policies.clock import NEVER
from penstock.policies.errors import LimitExceeded
from penstock.policies.events import Counters, Stats
from penstock.policies.options import WaitOptions
from penstock.policies.process_lock import ForkAware, lock, registry
from penstock.policies.wait_list import SHARE, CoDel, Entry, HoldTimes, WaitList
from penstock.policies.wait_moves import advance, block, expire, wait
from penstock.policies.waiter import NO_WISHES, Waiter, Wishes, myself


class CallAdmission(ForkAware):
    """One limit over all its keys.

    It answers one question, `opens_at`: when would it let one more start through?  A *timed* limit remembers starts,
    so a start is noted by the call that begins, at the moment it begins.
    """

    error: ClassVar[type[LimitExceeded]] = LimitExceeded
    timed: ClassVar[bool] = False
    made: ClassVar[int] = 0

    def __init__(self, options: WaitOptions) -> None:
        CallAdmission.made += 1
        self.number = CallAdmission.made
        self.options = options
        self.counters = Counters(options.name, options.on_event)
        self.wait_lists: dict[Hashable, WaitList] = {}
        self.hold_times = HoldTimes()
        self.generation = object()  # another one after a fork
        self.closed = False
        self.spare: list[object] = []
        registry.add(self)

    @abstractmethod
    def opens_at(self, key: Hashable, weight: int, now: int) -> int:
        """Return when a start of *weight* fits: at most *now* if it fits now."""

    @abstractmethod
    def take(self, key: Hashable, weight: int, now: int, owner: object) -> None:
        """Note a start."""

    def give(self, key: Hashable, weight: int, owner: object) -> None:
        """Note the end of a start."""

    def undo(self, key: Hashable, weight: int, at: int, owner: object) -> None:  # noqa: ARG002
        """Forget a start that did not happen."""
        self.give(key, weight, owner)

    @abstractmethod
    def limit(self, key: Hashable) -> int:
        """Return how many of *key* are allowed."""

    @abstractmethod
    def in_use(self, key: Hashable) -> int:
        """Return how many of *key* there are."""

    @abstractmethod
    def stats(self) -> Stats:
        """Return a snapshot of the counters."""

    @abstractmethod
    def known(self, key: Hashable) -> bool:
        """Tell whether anything is remembered for *key*."""

    @abstractmethod
    def keys(self) -> int:
        """Return for how many keys anything is remembered."""

    def check_entry(self, key: Hashable, weight: int, owner: object) -> None:
        """Raise if this call can never come in."""

    @abstractmethod
    def grant(self, key: Hashable, weight: int, at: int) -> object:
        """Return what the caller shows at the release of what it took *at* that moment."""

    def left(self, waiter: Waiter) -> None:
        """Note that *waiter* ended its wait."""

    def group_use(self, group: Hashable) -> int:  # noqa: ARG002 - most know no groups
        """Return how many slots a group has."""
        return 0

    def ask(self, key: Hashable, weight: int, owner: object, now: int) -> bool:
        """Take a slot if one is free and no call waits for it."""
        if self.closed:
            return False
        self.check_entry(key, weight, owner)
        if key in self.wait_lists or not self.room_for(key) or self.opens_at(key, weight, now) > now:
            return False
        self.take(key, weight, now, owner)
        self.note_acquired(key, 0)
        return True

    def try_acquire(self, key: Hashable, weight: int, owner: object) -> Any:
        """Take a slot if one is free, and return the grant, else None."""
        with lock, lock.mutex:
            now = clock.now()
            return self.grant(key, weight, now) if self.ask(key, weight, owner, now) else None

    def acquire(
        self, key: Hashable, weight: int, owner: object, wishes: Wishes = NO_WISHES
    ) -> tuple[Any, int]:
        """Take a slot, waiting in this thread; return the grant and how long that took."""
        waiter = self._join(key, weight, owner, None, wishes)
        if isinstance(waiter, Waiter):
            return self.finish(waiter, granted=block(waiter, self.note_cancelled))
        return waiter, 0

    async def aacquire(
        self, key: Hashable, weight: int, owner: object, wishes: Wishes = NO_WISHES
    ) -> tuple[Any, int]:
        """Take a slot, waiting in this task; return the grant and how long that took."""
        waiter = self._join(key, weight, owner, myself()[1], wishes)
        if isinstance(waiter, Waiter):
            return self.finish(waiter, granted=await wait(waiter, self.note_cancelled))
        return waiter, 0

    def ask_once(self, key: Hashable, weight: int, owner: object) -> Any:  # noqa: ARG002
        """Ask elsewhere for a slot that is not at hand, without waiting for other calls: here there is no elsewhere."""
        return None

    def finish(self, waiter: Waiter, *, granted: bool) -> tuple[Any, int]:
        """Return the outcome of a wait, or raise."""
        now = clock.now()
        if not granted:
            refusal = self.refusal(waiter.key, waiter.reason)
            lock.catch_up()
            raise refusal
        self.note_acquired(waiter.key, now - waiter.joined)
        if lock.outbox:
            lock.catch_up()
        at = waiter.at if self.timed else now
        return self.grant(waiter.key, waiter.weight, at), now - waiter.joined

    def close(self, drain: int) -> None:
        """Refuse new calls; let waiting calls in until *drain* from now."""
        with lock, lock.mutex:
            self.closed = True
            until = clock.now() + drain
            for waiter in self._waiters():
                if waiter.until > until:
                    waiter.until, waiter.why = until, "closed"
                    waiter.remind(until, expire)

    def _waiters(self) -> list[Waiter]:
        """Return all waiters for this limit: one that needs several limits may be in the list of another one now."""
        wait_lists = [
            wait_list
            for each in list(registry)
            if isinstance(each, CallAdmission)
            for wait_list in each.wait_lists.values()
        ]
        entries = [entry for wait_list in wait_lists for entry in wait_list.standing() if entry.needs(self)]
        return [waiter for entry in entries for waiter in entry.all_waiting()]

    def refusal(self, key: Hashable, reason: str) -> LimitExceeded:
        """Count a refusal and return the error for it."""
        self.counters.rejected[reason] += 1
        queued, in_use, limit = self.queued(key), self.in_use(key), self.limit(key)
        if self.counters.listeners:
            self.counters.tell("rejected", key, in_use, queued, reason=reason)
        return self.error(
            self.counters.name, reason, key=key, limit=limit, in_use=in_use, queued=queued,
            retry_after=self.estimate(key, queued + 1) / SECOND,
        )  # fmt: skip

    def estimate(self, key: Hashable, ahead: int) -> int:
        """Return how long it will take until *ahead* other calls have had their slots."""
        return ahead * self.hold_times.mean // max(self.limit(key), 1)

    def note_queued(self, key: Hashable, place: int) -> None:
        """Tell listeners that a call waits."""
        if self.counters.listeners:
            self.counters.tell("queued", key, self.in_use(key), place)

    def note_acquired(self, key: Hashable, waited: int) -> None:
        """Count a start."""
        self.counters.acquired += 1
        if self.counters.listeners:
            self.counters.tell("acquired", key, self.in_use(key), self.queued(key), waited=waited)

    def note_cancelled(self, waiter: Waiter, key: Hashable = None) -> None:
        """Count a wait that its caller ended."""
        self.counters.cancelled += 1
        if self.counters.listeners:
            key = waiter.key if waiter.joint is None else key
            waited = clock.now() - waiter.joined
            self.counters.tell("cancelled", key, self.in_use(key), self.queued(key), waited=waited)
            lock.catch_up()

    def room_for(self, key: Hashable) -> bool:
        """Tell whether *key* is known or may become so."""
        most = self.options.max_keys
        return most is None or self.known(key) or self.keys() < most

    def _join(
        self, key: Hashable, weight: int, owner: object, loop: AbstractEventLoop | None, wishes: Wishes
    ) -> Any:
        """Return the grant, or a waiter in the wait list, or raise."""
        until = clock.latest(wishes.until, in_thread=loop is None)
        with lock, lock.mutex:
            now = clock.now()
            if self.ask(key, weight, owner, now):
                return self.grant(key, weight, now)
            self.turn_away(key, until - now if until != NEVER else NEVER)
            if loop is None and myself()[1] is not None:
                raise RuntimeError(f"{self.counters.name} would block the event loop; use `async with` there")
            waiter = Waiter(
                self, key, weight, owner, now, loop=loop, priority=wishes.priority, group=wishes.group
            )
            self.bound(waiter, until)
            waiter.ready_to_wait()
            wait_list = self.join(waiter, key)
            self.note_queued(key, wait_list.waiting)
            # A slot that was given back without the lock meanwhile belongs to no call yet.
            if self.timed or self.spare:
                advance(wait_list, now)
            return waiter

    def turn_away(self, key: Hashable, left: int) -> None:
        """Raise if a call with so much time *left* may not wait for *key*."""
        if self.closed:
            raise self.refusal(key, "closed")
        if not self.room_for(key):
            raise self.refusal(key, "too_many_keys")
        if self.full(key):
            raise self.refusal(key, "busy" if self.options.max_queue == 0 else "queue_full")
        if left != NEVER and (left <= 0 or self.estimate(key, self.queued(key)) > left):
            raise self.refusal(key, "deadline")

    def full(self, key: Hashable) -> bool:
        """Tell whether no other call may wait for *key*."""
        most = self.options.max_queue
        return most is not None and self.queued(key) >= most

    def queued(self, key: Hashable) -> int:
        """Return how many calls wait for *key*."""
        wait_list = self.wait_lists.get(key)
        return 0 if wait_list is None else wait_list.waiting

    def waiting(self) -> int:
        """Return how many calls wait, for any key."""
        return sum(wait_list.waiting for wait_list in self.wait_lists.values())

    def bound(self, waiter: Waiter, until: int = NEVER) -> None:
        """Set until when *waiter* may wait, and whether it may be shed."""
        longest = self.options.max_wait
        if until < waiter.until:
            waiter.until, waiter.why = until, "deadline"
        if longest is not None and waiter.joined + longest < waiter.until:
            waiter.until, waiter.why = waiter.joined + longest, "wait_timeout"
        if waiter.until != NEVER:
            waiter.bounded = self.options.shed is not False
            self.watch()

    def watch(self) -> None:
        """Measure from now on how long slots are held."""

    def join(self, entry: Entry, key: Hashable) -> WaitList:
        """Add *entry* to the wait list of *key*."""
        wait_list = self.wait_lists.get(key)
        if wait_list is None:
            wait_list = self.wait_lists[key] = self.options.wait_list(self, key)
        wait_list.add(entry)
        head = entry.head
        if wait_list.codel is None and head.bounded:
            wait_list.codel = CoDel(self.options.target or (head.until - head.joined) // SHARE)
        return wait_list

    def reset(self) -> None:
        self.wait_lists = {}
        self.generation = object()
