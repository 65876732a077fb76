"""At most so many at once."""

from asyncio import current_task
from collections.abc import Callable, Hashable
from types import TracebackType
from typing import Any, Final

from penstock.limits.durations import Duration
from penstock.limits.rules import Numbers
from penstock.limits.rules import check_key as check_gate_key
from penstock.policies.adaptive import Adaptive
from penstock.policies.errors import InvalidPolicyError
from penstock.policies.events import Listener, Listeners
from penstock.policies.forms import Limit
from penstock.policies.guard import guard
from penstock.policies.keys import Key, Pick, picker
from penstock.policies.options import Options, Order, options, whole
from penstock.policies.pool import Pool, Slots
from penstock.policies.quick import QuickPool
from penstock.policies.shared import SharedPool, Shares
from penstock.policies.slot import BLOCK, Slot
from penstock.policies.spelling import spelled
from penstock.policies.waiter import DONE, GRANTED, myself, running, this_task

_SECOND: Final = 1_000_000


class Bulkhead(Limit):
    """At most *max_concurrent* at once, in tasks and threads together, for each key if there is one.

    It belongs to no event loop and can be made anywhere.  When it is full, calls wait in line (`mode="queue"`), at
    most *max_queue* of them, each at most *max_wait*; or they are refused (`mode="reject"`) with `BulkheadFull`.

    *shared* by all processes that use an app's store, its calls and the jobs of the same key obey one limit together.
    Slots are then borrowed in blocks of *block*; `on_lost="cancel"` cancels tasks whose slots the store gave to others.
    """

    def __init__(
        self,
        max_concurrent: int | Adaptive | Callable[[Any], int] | None = None,
        *,
        max_queue: int | None = None,
        max_wait: Duration | None = None,
        mode: str = "queue",
        key: Key | None = None,
        max_keys: int | None = None,
        order: Order = "fifo",
        aging: Duration = 1,
        fair_by: Key | None = None,
        weight: int = 1,
        reentrant: bool = False,
        shed: str | bool | None = None,
        target: Duration | None = None,
        name: str | None = None,
        on_event: Listeners = None,
        shared: Shares | None = None,
        block: int | None = None,
        on_lost: str | None = None,
        **names: Any,
    ) -> None:
        super().__init__()
        given = spelled(
            names, max_concurrent=max_concurrent, max_queue=max_queue, max_keys=max_keys, name=name
        )
        asked = options(
            "bulkhead",
            mode=mode,
            max_wait=max_wait,
            key=key,
            order=order,
            aging=aging,
            fair_by=fair_by,
            shed=shed,
            target=target,
            on_event=on_event,
            max_queue=given["max_queue"],
            max_keys=given["max_keys"],
            name=given["name"],
            scope=given.get("scope", "step"),
        )
        self.key = key
        self.weight = whole("weight", weight)
        self.fair_by = fair_by
        slots = _slots(given["max_concurrent"], key)
        if isinstance(slots, int) and weight > slots:
            raise InvalidPolicyError("weight", f"{weight} is more than all {slots} slots")
        self._quick: QuickPool | None = None
        pool: Pool
        if shared is not None:
            pool = _shared(slots, asked, key, given["name"], shared, block, on_lost, reentrant=reentrant)
        elif block is not None or on_lost is not None:
            raise InvalidPolicyError("block" if block is not None else "on_lost", "needs shared=app")
        elif isinstance(slots, int) and key is None and fair_by is None and asked.max_keys is None:
            pool = quick = QuickPool(slots, asked, reentrant=reentrant)
            self._quick = quick if weight == 1 else None
        else:
            pool = Pool(slots, asked, reentrant=reentrant, keyed=key is not None)
        if fair_by is not None:
            pool.groups = {}
        self.pool: Slots = pool

    def listen(self, listener: Listener) -> None:
        """Tell *listener* of every event from now on."""
        super().listen(listener)
        if isinstance(self.pool, Pool):
            self.pool.tune()

    def try_once(self, slot: Slot) -> Any:
        hold = self.try_enter(slot)
        return self.pool.ask_once(slot.key, slot.weight, slot.owner) if hold is None else hold

    def is_lost(self, hold: Any) -> bool:
        return isinstance(self.pool, SharedPool) and self.pool.is_lost(hold)

    def owner_of(self, slot: Slot) -> object:
        if self.fair_by is None:
            return None if slot.loose else myself()[0]
        group = (slot.wishes or {}).get("group")
        return (object() if slot.loose else myself()[0], group)

    def slot_for(self, pick: Pick | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Slot:
        slot = super().slot_for(pick, args, kwargs)
        if self.fair_by is not None:
            slot.wishes = {"group": self._group(args, kwargs)}
        return slot

    def pick_for(self, function: Callable[..., Any]) -> Pick | None:
        if self.fair_by is not None:
            self._pick_group = picker(self.fair_by, function)
        return super().pick_for(function)

    def _group(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Hashable:
        return self._pick_group(args, kwargs) if self._pick_group is not None else None

    async def __aenter__(self) -> Slot:
        pool = self._quick
        if pool is None:
            return await super().__aenter__()
        # What follows is `Pool.try_acquire`, written out: calls cost more than all else here.
        try:
            (owner,) = running
            if not pool.lines and owner not in pool.owners:
                pool.spare.pop()
                slot = pool.owners[owner] = Slot(self, None, 1, owner, BLOCK)
                next(pool.starts)
                return slot
        except (ValueError, RuntimeError, IndexError):  # several loops are running, or all slots are taken
            pass
        owner, waited = this_task(), 0
        hold = None if pool.lines else pool.try_acquire(None, 1, owner)
        if hold is None:
            hold, waited = await pool.aacquire(None, 1, owner)
        slot = Slot(self, None, 1, owner, hold, waited / _SECOND)
        if hold is not pool.token:
            return self._push(slot)
        slot.hold = BLOCK
        pool.owners[owner] = slot
        return slot

    def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> Any:
        # It never waits, so it needs no coroutine: what it returns is done already.
        pool = self._quick
        if pool is None or self._entered or not pool.quick:
            return self._exit_slowly(error)
        try:
            (owner,) = running
            slot = pool.owners.pop(owner)  # from now on it is not held
        except (ValueError, RuntimeError, KeyError):
            return self._exit_slowly(error)
        if slot is None:  # not the block's, which was given back by hand
            pool.owners[owner] = slot
            return DONE
        if pool.lines:
            pool.release(None, 1, None, pool.token)
            return DONE
        pool.spare.append(pool.token)
        if pool.lines:
            guard.do(pool.serve)
        return DONE

    def _exit_slowly(self, error: BaseException | None) -> Any:
        pool = self._quick
        if pool is None or (owner := this_task()) in self._entered:
            self._pop().end(error)
            return DONE
        slot: Any = pool.owners.get(owner)
        if slot is not None:  # else it was given back by hand
            slot.end(error)
        return DONE

    def _around_async(self, function: Callable[..., Any], pick: Pick | None) -> Callable[..., Any]:
        if self._quick is not None:
            return self._around_quickly(function, self._quick)
        if self.fair_by is not None:
            return super()._around_async(function, pick)
        pool, weight = self.pool, self.weight

        async def bounded(*args: Any, **kwargs: Any) -> Any:
            key = None if pick is None else pick(args, kwargs)
            owner = this_task()
            hold = pool.try_acquire(key, weight, owner)
            if hold is None:
                hold, _ = await pool.aacquire(key, weight, owner)
            try:
                result = await function(*args, **kwargs)
            except BaseException as error:
                pool.release(key, weight, owner, hold, error)
                raise
            pool.release(key, weight, owner, hold)
            return result

        return bounded

    @staticmethod
    def _around_quickly(function: Callable[..., Any], pool: QuickPool) -> Callable[..., Any]:
        # `Pool.try_acquire` and `Pool.release`, written out: calls cost more than all else here.
        owners, starts = pool.owners, pool.starts

        async def bounded(*args: Any, **kwargs: Any) -> Any:
            try:
                (owner,) = running
                hold = None if pool.lines or owner in owners else pool.spare.pop()
            except (ValueError, RuntimeError):
                owner, hold = current_task(), None
            except IndexError:
                hold = None
            if hold is not None:
                owners[owner] = None
                next(starts)
            elif pool.lines and (waiter := pool.stand(owner)) is not None:
                try:
                    await waiter.future  # type: ignore[misc]
                except BaseException:
                    pool.abandon(waiter)
                    raise
                if waiter.state != GRANTED:
                    raise pool.refusal(None, waiter.reason)
                next(starts)
                hold = pool.token
            else:
                hold = pool.try_acquire(None, 1, owner)
                if hold is None:
                    hold, _ = await pool.aacquire(None, 1, owner)
            try:
                result = await function(*args, **kwargs)
            except BaseException as error:
                pool.release(None, 1, owner, hold, error)
                raise
            if pool.lines or not pool.quick or hold is not pool.token:
                pool.release(None, 1, owner, hold)
                return result
            del owners[owner]
            pool.spare.append(hold)
            if pool.lines:
                guard.do(pool.serve)
            return result

        return bounded


def _shared(
    slots: int | Adaptive | Callable[[Any], int],
    asked: Options,
    key: Key | None,
    name: str | None,
    app: Shares,
    block: int | None,
    on_lost: str | None,
    *,
    reentrant: bool,
) -> SharedPool:
    if not isinstance(slots, int) and not callable(slots):
        raise InvalidPolicyError("max_concurrent", "a shared bulkhead has a number that all agree on")
    if key is None:
        if name is None:
            raise InvalidPolicyError("name", "is the key of a shared bulkhead that has no key=; say one")
        check_gate_key(name)
    if on_lost not in (None, "event", "cancel"):
        raise InvalidPolicyError("on_lost", f'{on_lost!r} must be "event" or "cancel"')
    if not hasattr(type(app), "engine"):
        raise InvalidPolicyError("shared", f"{app!r} must be an App")
    size = 1 if block is None else whole("block", block)
    cancels = on_lost == "cancel"
    return SharedPool(
        slots, asked, app=app, size=size, cancels=cancels, reentrant=reentrant, keyed=key is not None
    )


def _slots(slots: Any, key: Key | None) -> int | Adaptive | Callable[[Any], int]:
    if hasattr(slots, "sample"):
        adaptive: Adaptive = slots
        return adaptive
    if callable(slots):
        if key is None:
            raise InvalidPolicyError("max_concurrent", "a function of the key needs key=")
        number: Callable[[Any], int] = slots
        return number
    count = whole("max_concurrent", slots)
    Numbers(slots=count)
    return count
