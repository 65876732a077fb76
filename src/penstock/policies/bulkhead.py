"""At most so many at once."""

from collections.abc import Callable, Hashable
from types import TracebackType
from typing import Any

from penstock.limits.durations import Duration
from penstock.limits.rules import Numbers
from penstock.policies.adaptive import Adaptive
from penstock.policies.errors import InvalidPolicyError
from penstock.policies.events import Listener, Listeners
from penstock.policies.forms import Limit
from penstock.policies.keys import Key, Pick, picker
from penstock.policies.options import Order, options, whole
from penstock.policies.pool import Pool, Slots
from penstock.policies.slot import Slot
from penstock.policies.spelling import spelled
from penstock.policies.waiter import myself, this_task


class Bulkhead(Limit):
    """At most *max_concurrent* at once, in tasks and threads together, for each key if there is one.

    It belongs to no event loop and can be made anywhere.  When it is full, calls wait in line (`mode="queue"`), at
    most *max_queue* of them, each at most *max_wait*; or they are refused (`mode="reject"`) with `BulkheadFull`.
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
        pool = Pool(slots, asked, reentrant=reentrant)
        if fair_by is not None:
            pool.groups = {}
            pool.tune()
        self.pool: Slots = pool

    def listen(self, listener: Listener) -> None:
        """Tell *listener* of every event from now on."""
        super().listen(listener)
        if isinstance(self.pool, Pool):
            self.pool.tune()

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
        if self.key is not None or self.fair_by is not None:
            return await super().__aenter__()
        owner = this_task()
        slot = Slot(self, None, self.weight, owner)
        slot.hold = self.pool.try_acquire(None, self.weight, owner)
        if slot.hold is None:
            await slot.aacquire()
        if owner in self._entered:
            slot.outer = self._entered[owner]
        self._entered[owner] = slot
        return slot

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        owner = this_task()
        slot = self._entered.pop(owner)
        if slot.outer is not None:
            self._entered[owner] = slot.outer
        hold, slot.hold = slot.hold, None
        if hold is not None:
            self.pool.release(slot.key, slot.weight, slot.owner, hold, error)

    def _around_async(self, function: Callable[..., Any], pick: Pick | None) -> Callable[..., Any]:
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
