"""The slots of a bulkhead that many processes share: borrowed from a store, which counts them for all.

A slot pool whose number for a key is how many slots it has borrowed at the moment: none, to begin with.  A call that
waits here also waits at the store, which lends in the order in which it was asked.  A slot that is given back here
goes back there, unless slots are borrowed in blocks.

The key is the key of the store's gate, so that calls and jobs with the same key obey one limit together.
"""

from asyncio import AbstractEventLoop, Task
from collections import Counter
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Any, Final, Protocol

from penstock.clock import MILLISECOND, SECOND
from penstock.errors import StoreDownError
from penstock.job import Loan, Want
from penstock.limits.durations import Duration
from penstock.limits.gate import ALWAYS, ON_RELEASE
from penstock.limits.rules import Numbers, check_key
from penstock.policies import clock
from penstock.policies.errors import InvalidPolicyError
from penstock.policies.options import WaitOptions
from penstock.policies.process_lock import lock
from penstock.policies.shared.borrower import Borrower, borrower_for
from penstock.policies.shared.round_trips import Wants
from penstock.policies.slot_pool import SlotPool, opened
from penstock.policies.wait_list import Entry, WaitList
from penstock.policies.wait_moves import advance, block, leave_and_advance, refuse_and_advance, wait
from penstock.policies.waiter import NO_WISHES, WAITING, Waiter, Wishes, myself

IDLE: Final = SECOND  # how long a slot of a block is kept unused
# Between the look at the clock and the first line of a call whose start is remembered.
MARGIN: Final = 5 * MILLISECOND


class Shares(Protocol):
    """An app, as far as it lends slots."""

    @property
    def engine(self) -> Any: ...
    @property
    def lease(self) -> Duration: ...


class SharedSlotPool(SlotPool):
    """Slots borrowed from the store of an app, in blocks of *size*."""

    def __init__(
        self,
        slots: int | Callable[[Any], int],
        options: WaitOptions,
        *,
        app: Shares,
        size: int,
        cancels: bool,
        reentrant: bool = False,
        keyed: bool = False,
    ) -> None:
        super().__init__(slots, options, reentrant=reentrant, keyed=keyed)
        self._app = app
        self._size = size
        self._cancels = cancels
        self._borrower: Borrower | None = None
        self._borrowed: dict[Hashable, int] = {}
        self._gates: dict[Hashable, int] = {}
        self._contended: set[Hashable] = set()  # keys of which no slot is kept unused
        self._used_at: dict[Hashable, int] = {}
        self._wants = Wants()
        self._announced: set[int] = set()  # waiters of which listeners were told
        self._once: set[int] = set()  # waiters that do not stay if they cannot be served at once
        self._begin_by: dict[int, int] = {}  # by when calls that were granted at some moment must begin
        self._errors: dict[int, Exception] = {}
        self._lost: dict[object, int] = {}  # how many slots of a lost generation are still held
        self._lost_at = -1

    # What callers ask.

    def acquire(
        self, key: Hashable, weight: int, owner: object, wishes: Wishes = NO_WISHES
    ) -> tuple[Any, int]:
        while True:
            borrower = self._open()
            waiter = self._join(key, weight, owner, None, wishes)
            if not isinstance(waiter, Waiter):
                return waiter, 0
            self._go(borrower, waiter)
            found = self._conclude(waiter, granted=block(waiter, self.note_cancelled))
            if found is not None:
                return found

    async def aacquire(
        self, key: Hashable, weight: int, owner: object, wishes: Wishes = NO_WISHES
    ) -> tuple[Any, int]:
        loop: AbstractEventLoop | None = myself()[1]
        assert loop is not None  # noqa: S101 - for the type checker
        while True:
            borrower = self._borrower
            if borrower is None or borrower.closed:
                borrower = await loop.run_in_executor(None, self._open)
            waiter = self._join(key, weight, owner, loop, wishes)
            if not isinstance(waiter, Waiter):
                return waiter, 0
            borrower.send()
            found = self._conclude(waiter, granted=await wait(waiter, self.note_cancelled))
            if found is not None:
                return found

    def ask_once(self, key: Hashable, weight: int, owner: object) -> Any:
        borrower = self._open()
        if myself()[1] is not None:
            raise RuntimeError(f"{self.counters.name} would block the event loop; use `async with` there")
        with lock, lock.mutex:
            self._check_open()
            if self.closed or self._wants.told(key) or not self.room_for(key):
                return None
            self.check_entry(key, weight, owner)
            waiter = Waiter(self, key, weight, owner, clock.now())
            waiter.ready_to_wait()
            self._once.add(waiter.seq)
            self.join(waiter, key)
        self._go(borrower, waiter)
        granted = block(waiter, self.note_cancelled)
        self._once.discard(waiter.seq)
        if granted:
            found = self._conclude(waiter, granted=True)
            return None if found is None else found[0]
        error = self._errors.pop(waiter.seq, None)
        if error is not None:
            raise error
        return None

    def is_lost(self, grant: Any) -> bool:
        """Tell whether the lease of a slot ended while it was held."""
        return opened(grant)[0] is not self.generation or not self._has_lease(clock.now())

    # What `CallAdmission` and the wait lists ask; under the lock.

    def opens_at(self, key: Hashable, weight: int, now: int) -> int:
        # A process that was halted for longer than its lease has nothing any more.
        return ALWAYS if weight <= self._idle(key) and self._has_lease(now) else ON_RELEASE

    def take(self, key: Hashable, weight: int, now: int, owner: object) -> None:
        super().take(key, weight, now, owner)
        if self._size > 1:
            self._used_at[key] = now

    def undo(self, key: Hashable, weight: int, at: int, owner: object) -> None:
        if at > self._lost_at:
            super().undo(key, weight, at, owner)

    def give(self, key: Hashable, weight: int, owner: Any) -> None:
        super().give(key, weight, owner)
        if self._size == 1 or key in self._contended or self.closed:
            self._give_back(key, weight)

    def end(self, key: Hashable, weight: int, owner: object) -> None:
        super().end(key, weight, owner)
        if self._size > 1:
            self._balance(key)

    def settle(
        self, key: Hashable, weight: int, owner: object, grant: Any, error: BaseException | None
    ) -> None:
        generation, since = opened(grant)
        if generation in self._lost:
            self._lost[generation] -= weight
            if not self._lost[generation]:
                del self._lost[generation]
            held = clock.now() - since if since else 0
            if self.counters.listeners:
                self.counters.tell("released", key, self.in_use(key), self.queued(key), held=held)
        super().settle(key, weight, owner, grant, error)

    def join(self, entry: Entry, key: Hashable) -> WaitList:
        wait_list = super().join(entry, key)
        if self._idle(key) > 0:  # not enough for this call; the store may have more together with them
            self._give_back(key, self._idle(key))
        self._ask(entry.head)
        return wait_list

    def left(self, waiter: Waiter) -> None:
        self._announced.discard(waiter.seq)
        self._once.discard(waiter.seq)
        if waiter.seq in self._wants:
            self._withdraw(waiter.seq)
        self._balance(waiter.key)

    def check_entry(self, key: Hashable, weight: int, owner: object) -> None:
        super().check_entry(key, weight, owner)
        if key is not None:
            if not isinstance(key, str):
                raise TypeError(
                    f"the key of {self.counters.name}, which is shared, must be text, not {key!r}"
                )
            check_key(key)
        if weight > 1 and self.options.wait_list is not WaitList:
            raise InvalidPolicyError("weight", 'a call gets several shared slots with order="fifo" only')

    def turn_away(self, key: Hashable, left: int) -> None:
        self._check_open()
        super().turn_away(key, left)

    def full(self, key: Hashable) -> bool:  # noqa: ARG002 - known when the store has answered
        return False

    def note_queued(self, key: Hashable, place: int) -> None:
        """Say nothing yet: the store may have a slot."""

    def note_cancelled(self, waiter: Waiter, key: Hashable = None) -> None:
        self._announced.discard(waiter.seq)
        self._errors.pop(waiter.seq, None)
        super().note_cancelled(waiter, key)

    def close(self, drain: int) -> None:
        super().close(drain)
        with lock, lock.mutex:
            for key in list(self._borrowed):
                self._give_back(key, self._idle(key))

    def reset(self) -> None:
        super().reset()
        self._borrower = None
        self._borrowed, self._gates, self._used_at, self._wants = {}, {}, {}, Wants()
        self._begin_by, self._errors, self._lost = {}, {}, {}
        self._contended, self._announced, self._once = set(), set(), set()

    # What the borrower says; under the lock.

    def receive(self, loan: Loan, asked: int) -> None:
        """Add what was lent for a want, and serve the wait list."""
        waiter = self._wants.pop(loan.want)
        assert waiter is not None  # noqa: S101 - the borrower knows which wants are of this pool
        key, now = waiter.key, clock.now()
        if self._size > 1:
            if key not in self._borrowed and self._borrower is not None:
                self._borrower.ring()
            self._used_at[key] = now
        self._borrowed[key] = self._borrowed.get(key, 0) + loan.slots
        self._gates[key] = loan.gate
        if loan.grace:
            self._begin_by = {at: by for at, by in self._begin_by.items() if by >= now}
            self._begin_by[now] = asked + loan.grace - MARGIN
            self._contended.add(key)
        if key in self.wait_lists:
            advance(self.wait_lists[key], now)
        if self._idle(key) > 0 and (self._size == 1 or key in self._contended):
            self._give_back(key, self._idle(key))
        self._balance(key)

    def wait_on(self, want: int) -> None:
        """Note that a want waits at the store."""
        waiter = self._meant(self._wants.brought_by(want))
        told = self._wants.told(waiter.key)
        most = self.options.max_queue
        if want in told or waiter.state != WAITING:
            return
        if most is not None and len(told) >= most:
            refuse_and_advance(waiter, "queue_full")
            return
        self._wants.tell(want)
        if waiter.seq not in self._announced:
            self._announced.add(waiter.seq)
            super().note_queued(waiter.key, len(told) + 1)

    def turn_down(self, want: int, error: Exception | None = None) -> None:
        """Note that a want gets nothing."""
        waiter = self._wants.pop(want)
        assert waiter is not None  # noqa: S101 - the borrower knows which wants are of this pool
        waiter = self._meant(waiter)
        if waiter.state == WAITING:
            if error is not None:
                self._errors[waiter.seq] = error
            refuse_and_advance(waiter, "busy" if error is None else "store")

    def lose(self) -> None:
        """Note that the lease is over: no slot belongs to this process any more."""
        lost, owners = self.used, list(self.owners)
        self.forget_holders()
        if lost:
            self._lost[self.generation] = sum(lost.values())
        self.generation = object()
        self._lost_at = clock.now()
        self._borrowed, self._gates = {}, {}
        for key, slots in lost.items() if self.counters.listeners else ():
            self.counters.tell("lease_lost", key, slots, self.queued(key))
        for owner in owners if self._cancels else ():
            task = owner[0] if isinstance(owner, tuple) else owner
            if isinstance(task, Task):
                with suppress(RuntimeError):  # its loop is closed
                    task.get_loop().call_soon_threadsafe(
                        task.cancel, f"lost its slot of {self.counters.name}"
                    )

    def leased(self) -> dict[int, int]:
        """Return how many slots of which gates are borrowed."""
        found: Counter[int] = Counter()
        for key, slots in self._borrowed.items():
            found[self._gates[key]] += slots
        return found

    def idle_gates(self) -> list[int]:
        """Return the gates of which slots may be unused here."""
        return [] if self._size == 1 else [self._gates[key] for key in self._borrowed]

    def tidy(self, now: int, contended: set[int], names: set[str]) -> None:
        """Give back unused slots that others want (by gate, or by key), or that were unused for a while."""
        if self._size == 1:
            return
        self._contended = {
            key for key in self._borrowed if self._gates[key] in contended or self._name(key) in names
        }
        for key in list(self._borrowed):
            if self._idle(key) > 0 and (key in self._contended or now - self._used_at.get(key, 0) >= IDLE):
                self._give_back(key, self._idle(key))

    # Helpers.

    def _idle(self, key: Hashable) -> int:
        return self._borrowed.get(key, 0) - self.used.get(key, 0)

    def _has_lease(self, now: int) -> bool:
        return self._borrower is not None and now < self._borrower.valid_until

    def _open(self) -> Borrower:
        borrower = self._borrower
        if borrower is None or borrower.closed:
            borrower = self._borrower = borrower_for(self._app.engine, clock.span(self._app.lease, "lease"))
        return borrower

    def _check_open(self) -> None:
        if self._borrower is None or self._borrower.closed:
            raise StoreDownError("the app was closed while a call asked for its slots")

    def _go(self, borrower: Borrower, waiter: Waiter) -> None:
        try:
            borrower.serve(waiter)
        except BaseException:
            lock.do(leave_and_advance, waiter)
            self.note_cancelled(waiter)
            raise

    def _ask(self, waiter: Waiter) -> None:
        """Ask the store, with the next round trip, for what *waiter* needs."""
        assert self._borrower is not None  # noqa: S101 - opened before a call joins
        self._wants.add(waiter)
        numbers = Numbers(slots=self.limit(waiter.key))
        most = max(self._size, waiter.weight)
        stay = self.options.max_queue != 0 and waiter.seq not in self._once
        self._borrower.want(
            self, Want(waiter.seq, self._name(waiter.key), numbers, waiter.weight, most, stay)
        )

    def _withdraw(self, want: int) -> None:
        self._wants.pop(want)
        assert self._borrower is not None  # noqa: S101
        self._borrower.withdraw(want)

    def _balance(self, key: Hashable) -> None:
        """Have as many wants at the store as calls wait here."""
        extra = self._wants.count(key) - self.queued(key)
        if extra > 0:
            for want in self._wants.vain(key, extra):
                self._withdraw(want)
        elif extra < 0 and self._borrower is not None and not self._borrower.closed:
            # A slot that one call asked for served another one, or could not be used.
            waiting = [each for each in self._waiting(key) if each.seq not in self._wants]
            for waiter in waiting[:-extra]:
                self._ask(waiter)
            self._borrower.ring()

    def _meant(self, waiter: Waiter) -> Waiter:
        """Return the waiter that an answer is for: if *waiter* was served with the slot of another, that other one."""
        if waiter.state == WAITING:
            return waiter
        return next((each for each in self._waiting(waiter.key) if each.seq not in self._wants), waiter)

    def _waiting(self, key: Hashable) -> list[Waiter]:
        wait_list = self.wait_lists.get(key)
        return [] if wait_list is None else [entry.head for entry in wait_list.standing()]

    def _name(self, key: Hashable) -> str:
        return self.options.name if key is None else str(key)

    def _conclude(self, waiter: Waiter, *, granted: bool) -> tuple[Any, int] | None:
        """Return the outcome of a wait, or raise; None if the call must ask again."""
        now = clock.now()
        announced = waiter.seq in self._announced
        self._announced.discard(waiter.seq)
        if not granted:
            refusal = self.refusal(waiter.key, waiter.reason)
            lock.catch_up()
            raise self._errors.pop(waiter.seq, None) or refusal
        grant = self.grant(waiter.key, waiter.weight, now)
        if not self._may_begin(waiter, grant, now):
            if announced:
                self.note_cancelled(waiter)
            return None
        self.note_acquired(waiter.key, now - waiter.joined)
        lock.catch_up()
        return grant, now - waiter.joined

    def _may_begin(self, waiter: Waiter, grant: Any, now: int) -> bool:
        """Tell whether a call still has what it was granted, and begins by when the store remembers it."""
        if waiter.at <= self._lost_at:
            return False
        by = self._begin_by.get(waiter.at, ON_RELEASE)
        if now <= by and self._has_lease(now):
            return True
        if waiter.owner is not None:
            self.unregister(waiter.owner, waiter.key)
        lock.do(self._undone, waiter, grant)
        return False

    def _undone(self, waiter: Waiter, grant: Any) -> None:
        """Give back a slot that no caller was told of."""
        if opened(grant)[0] is self.generation:
            self.end(waiter.key, waiter.weight, None if self.groups is None else (None, waiter.group))

    def _give_back(self, key: Hashable, slots: int) -> None:
        left = self._borrowed[key] - slots
        assert self._borrower is not None and left >= 0  # noqa: S101, PT018 - only what was borrowed
        if slots:
            self._borrower.give_back(self._gates[key], slots)
        if left:
            self._borrowed[key] = left
        else:
            del self._borrowed[key], self._gates[key]
            self._used_at.pop(key, None)
            self._contended.discard(key)
