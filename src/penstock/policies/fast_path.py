"""The fast path: slots that a task gets without the lock, as long as no call waits.

Free slots are lent to the list `spare`, from which a call takes one and to which it gives it back; both are single
steps that no thread can interrupt.  Until they are taken back they count as used.  A call that gives back looks at the
wait list afterwards, and a call that joins the wait list looks at `spare` afterwards, so that no slot is left there
while a call waits.

`FastPath` writes out what `FastSlotPool.try_acquire` and `release` do, since each call of a function costs a tenth of
the whole way through a limit.
"""

from asyncio import Task
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Any, Final

from penstock.clock import SECOND
from penstock.policies import clock
from penstock.policies.call_limit import CallLimit, MakeSlot
from penstock.policies.clock import NEVER, deadline
from penstock.policies.options import WaitOptions
from penstock.policies.process_lock import lock
from penstock.policies.slot import Slot
from penstock.policies.slot_pool import SlotPool
from penstock.policies.wait_list import WaitList
from penstock.policies.wait_moves import advance, leave_and_advance
from penstock.policies.waiter import DONE, GONE, GRANTED, Waiter, running, this_task

_LENT: Final = 64


class FastSlotPool(SlotPool):
    """A slot pool without keys."""

    def __init__(self, slots: int, options: WaitOptions, *, reentrant: bool = False) -> None:
        self.fast = True  # whether slots may be lent
        self._simple = options.max_queue is None and options.wait_list is WaitList
        super().__init__(slots, options, reentrant=reentrant)
        self.starts = self.counters.unlocked

    def tune(self) -> None:
        super().tune()
        self.fast = not (self.closed or self.clocked)
        if not self.fast and self.spare:  # a call that takes one of these would not be measured
            lock.do(self._absorb)

    def try_acquire(self, key: Hashable, weight: int, owner: object) -> Any:
        if self.spare and weight == 1 and not self.wait_lists and owner not in self.owners:
            with suppress(IndexError):  # another thread may be quicker
                grant = self.spare.pop()
                if owner is not None:
                    self.owners[owner] = None
                next(self.starts)
                return grant
        grant = super().try_acquire(key, weight, owner)
        if grant is self.generation and self.fast:
            lock.do(self._lend)
        return grant

    async def enter(self, owner: object) -> tuple[Any, int]:
        """Take one slot, waiting in this task; return the grant and since when it waited."""
        waiter = self._join_simply(owner)
        if waiter is None:
            grant = self.try_acquire(None, 1, owner)
            if grant is not None:
                return grant, 0
            grant, waited = await self.aacquire(None, 1, owner)
            return grant, clock.now() - waited
        assert waiter.future is not None  # noqa: S101 - for the type checker
        try:
            await waiter.future
        except BaseException:
            lock.do(leave_and_advance, waiter)
            self.note_cancelled(waiter)
            raise
        if waiter.state != GRANTED:
            raise self.refusal(None, waiter.reason)
        next(self.starts)
        return self.generation, waiter.joined

    def _join_simply(self, owner: object) -> Waiter | None:
        """Put a task behind others, if there are any and it needs no timer, deadline or bound."""
        wait_list = self.wait_lists.get(None)
        if wait_list is None or not self.fast or not self._simple or owner in self.owners:
            return None
        if not isinstance(owner, Task) or deadline.get() != NEVER:
            return None
        loop = owner.get_loop()
        waiter = Waiter(self, None, 1, owner, clock.now(), wait_list, loop, loop.create_future())
        with lock.mutex:
            joined = self.wait_lists.get(None) is wait_list  # else it came to its end meanwhile
            if joined:
                wait_list.waiting += 1
                wait_list.entries.append(waiter)
                if self.spare:
                    advance(wait_list, clock.now())
        if lock.later or lock.outbox:
            lock.catch_up()
        return waiter if joined else None

    def release(
        self, key: Hashable, weight: int, owner: Any, grant: Any, error: BaseException | None = None
    ) -> None:
        if grant is not self.generation or weight != 1:
            super().release(key, weight, owner, grant, error)
            return
        if owner is not None:
            self.owners.pop(owner, None)
        if self.fast and not self.wait_lists:
            self.spare.append(grant)
            if self.wait_lists:
                lock.do(self.serve)
        elif lock.mutex.acquire(False):  # noqa: FBT003 - to name it takes as long as the rest of the call
            try:
                if not self._hand_over():
                    self.end(None, 1, None)
            finally:
                lock.mutex.release()
            if lock.later or lock.outbox:
                lock.catch_up()
        else:
            lock.do(self.end, None, 1, None)

    def serve(self) -> None:
        """Look at the wait list again, since a slot may be free."""
        if None in self.wait_lists:
            advance(self.wait_lists[None], clock.now())

    def is_held(self, owner: object, key: Hashable) -> bool:  # noqa: ARG002 - there are no keys
        return owner in self.owners

    def unregister(self, owner: object, key: Hashable) -> None:  # noqa: ARG002 - there are no keys
        self.owners.pop(owner, None)

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
            lock.do(self._watch)

    def close(self, drain: int) -> None:
        with lock, lock.mutex:
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
        """Pass a slot on to the first waiter, if no discipline, timer or weight matters."""
        wait_list = self.wait_lists.get(None)
        if wait_list is None or type(wait_list) is not WaitList or wait_list.codel is not None:
            return False
        entries = wait_list.entries
        while entries:
            waiter = entries[0]
            if waiter.wait_list is not wait_list:
                entries.popleft()
                wait_list.stale -= 1
                continue
            if type(waiter) is not Waiter or waiter.weight != 1 or waiter.until != NEVER:
                return False
            entries.popleft()
            waiter.wait_list = None
            wait_list.waiting -= 1
            waiter.state = GRANTED
            # Before it wakes: it may be in another thread, and gone again at once.
            if waiter.owner is not None:
                self.owners[waiter.owner] = None
            if not waiter.wake():
                waiter.state = GONE
                self.owners.pop(waiter.owner, None)
                continue
            if not entries:
                del self.wait_lists[None]
            return True
        return False

    def _lend(self) -> None:
        used = self.used.get(None, 0)
        free = min(self.slots - used, _LENT)
        if free > 0 and self.fast and not self.wait_lists:
            self.used[None] = used + free
            self.spare += [self.generation] * free

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


class BlockSlot(Slot):
    """A slot of a block, held as long as its pool has it under its owner: to change it would take time."""

    @property
    def held(self) -> bool:
        pool: Any = self.limit.pool
        return pool.owners.get(self.owner) is self


class FastPath(CallLimit):
    """A limit whose `async with` and async functions take the fast path where there is a pool for it."""

    _fast: FastSlotPool | None = None

    async def __aenter__(self) -> Slot:
        pool = self._fast
        if pool is None:
            return await super().__aenter__()
        try:
            (owner,) = running
            if not pool.wait_lists and owner not in pool.owners:
                slot = pool.owners[owner] = BlockSlot(self, None, 1, owner, pool.spare.pop())
                next(pool.starts)
                return slot
        except (ValueError, RuntimeError, IndexError):  # several loops are running, or all slots are taken
            owner = this_task()
        grant, joined = await pool.enter(owner)
        waited = (clock.now() - joined) / SECOND if joined else 0.0
        if grant is not pool.generation:
            return self._entered.push(Slot(self, None, 1, owner, grant, waited))
        slot = pool.owners[owner] = BlockSlot(self, None, 1, owner, grant, waited)
        return slot

    def __aexit__(self, _kind: object, error: BaseException | None, _traceback: object) -> Any:
        # It never waits, so it needs no coroutine: what it returns is done already.
        pool = self._fast
        if pool is None or self._entered.stacks or not pool.fast:
            return self._exit_slowly(error)
        try:
            (owner,) = running
            slot = pool.owners.pop(owner)  # from now on it is not held
        except (ValueError, RuntimeError, KeyError):
            return self._exit_slowly(error)
        if slot is None:  # not the block's, which was given back by hand
            pool.owners[owner] = slot
            return DONE
        if pool.wait_lists:
            pool.release(None, 1, None, pool.generation)
            return DONE
        pool.spare.append(pool.generation)
        if pool.wait_lists:
            lock.do(pool.serve)
        return DONE

    def _exit_slowly(self, error: BaseException | None) -> Any:
        pool = self._fast
        if pool is None or (owner := this_task()) in self._entered.stacks:
            self._entered.pop().end(error)
            return DONE
        slot: Any = pool.owners.get(owner)
        if slot is not None:  # else it was given back by hand
            slot.end(error)
        return DONE

    def _around_async(self, function: Callable[..., Any], make: MakeSlot) -> Callable[..., Any]:
        pool = self._fast
        if pool is None:
            return super()._around_async(function, make)
        owners, starts = pool.owners, pool.starts

        async def bounded(*args: Any, **kwargs: Any) -> Any:
            try:
                (owner,) = running
                grant = None if pool.wait_lists or owner in owners else pool.spare.pop()
            except (ValueError, RuntimeError, IndexError):
                owner, grant = this_task(), None
            if grant is None:
                grant, _ = await pool.enter(owner)
            else:
                owners[owner] = None
                next(starts)
            try:
                result = await function(*args, **kwargs)
            except BaseException as error:
                pool.release(None, 1, owner, grant, error)
                raise
            pool.release(None, 1, owner, grant)
            return result

        return bounded
