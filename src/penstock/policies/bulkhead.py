"""At most so many at once."""

from collections.abc import Callable
from typing import Any, Unpack

from penstock.limits.rules import Numbers
from penstock.limits.rules import check_key as check_gate_key
from penstock.policies.adaptive import Adaptive
from penstock.policies.call_limit import MakeSlot, Slots
from penstock.policies.errors import InvalidPolicyError
from penstock.policies.events import Listener
from penstock.policies.fast_path import FastPath, FastSlotPool
from penstock.policies.options import Key, LimitOptions, WaitOptions, checked, picker, whole
from penstock.policies.shared.slot_pool import SharedSlotPool, Shares
from penstock.policies.slot import Slot
from penstock.policies.slot_pool import SlotPool
from penstock.policies.waiter import Wishes, myself

Number = int | Adaptive | Callable[[Any], int]


class Bulkhead(FastPath):
    """At most *max_concurrent* at once, in tasks and threads together, for each key if there is one.

    It belongs to no event loop and can be made anywhere.  When it is full, calls wait (`mode="queue"`), at most
    *max_queue* of them, each at most *max_wait*; or they are refused (`mode="reject"`) with `BulkheadFull`.

    *shared* by all processes that use an app's store, its calls and the jobs of the same key obey one limit together.
    Slots are then borrowed in blocks of *block*; `on_lost="cancel"` cancels tasks whose slots the store gave to others.
    """

    def __init__(
        self,
        max_concurrent: Number,
        *,
        key: Key | None = None,
        fair_by: Key | None = None,
        weight: int = 1,
        reentrant: bool = False,
        shared: Shares | None = None,
        block: int | None = None,
        on_lost: str | None = None,
        **options: Unpack[LimitOptions],
    ) -> None:
        super().__init__()
        asked = checked("bulkhead", options, key, fair_by)
        self.key = key
        self.weight = whole("weight", weight)
        self.fair_by = fair_by
        slots = _checked_number(max_concurrent, key)
        if isinstance(slots, int) and weight > slots:
            raise InvalidPolicyError("weight", f"{weight} is more than all {slots} slots")
        pool: SlotPool
        if shared is not None:
            if key is None:
                _check_name(options.get("name"))
            pool = _shared(slots, asked, shared, block, on_lost, reentrant=reentrant, keyed=key is not None)
        elif block is not None or on_lost is not None:
            raise InvalidPolicyError("block" if block is not None else "on_lost", "needs shared=app")
        elif isinstance(slots, int) and key is None and fair_by is None and asked.max_keys is None:
            pool = fast = FastSlotPool(slots, asked, reentrant=reentrant)
            self._fast = fast if weight == 1 else None
        else:
            pool = SlotPool(slots, asked, reentrant=reentrant, keyed=key is not None)
        if fair_by is not None:
            pool.groups = {}
        self.pool: Slots = pool

    def listen(self, listener: Listener) -> None:
        super().listen(listener)
        if isinstance(self.pool, SlotPool):
            self.pool.tune()

    def try_once(self, slot: Slot) -> Any:
        grant = self.try_enter(slot)
        return self.pool.ask_once(slot.key, slot.weight, slot.owner) if grant is None else grant

    def is_lost(self, grant: Any) -> bool:
        return isinstance(self.pool, SharedSlotPool) and self.pool.is_lost(grant)

    def apart(self) -> str | None:
        if isinstance(self.pool, SharedSlotPool):
            return "is shared; put it around the others instead"
        if self.fair_by is not None:
            return "has fair_by, which needs a wait list of its own; put it around the others instead"
        return None

    def owner_of(self, slot: Slot) -> object:
        if self.fair_by is None:
            return None if slot.loose else myself()[0]
        return (object() if slot.loose else myself()[0], slot.wishes.group)

    def slots_for(self, function: Callable[..., Any]) -> MakeSlot:
        make = super().slots_for(function)
        group = picker(self.fair_by, function)
        if group is None:
            return make

        def make_in_group(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Slot:
            slot = make(args, kwargs)
            slot.wishes = Wishes(group=group(args, kwargs))
            return slot

        return make_in_group


def _shared(
    slots: Number,
    options: WaitOptions,
    app: Shares,
    block: int | None,
    on_lost: str | None,
    *,
    reentrant: bool,
    keyed: bool,
) -> SharedSlotPool:
    if not isinstance(slots, int) and not callable(slots):
        raise InvalidPolicyError("max_concurrent", "a shared bulkhead has a number that all agree on")
    if on_lost not in (None, "event", "cancel"):
        raise InvalidPolicyError("on_lost", f'{on_lost!r} must be "event" or "cancel"')
    if not hasattr(type(app), "engine"):
        raise InvalidPolicyError("shared", f"{app!r} must be an App")
    size = 1 if block is None else whole("block", block)
    cancels = on_lost == "cancel"
    return SharedSlotPool(
        slots, options, app=app, size=size, cancels=cancels, reentrant=reentrant, keyed=keyed
    )


def _check_name(name: str | None) -> None:
    if name is None:
        raise InvalidPolicyError("name", "is the key of a shared bulkhead that has no key=; say one")
    check_gate_key(name)


def _checked_number(number: Number, key: Key | None) -> Number:
    if isinstance(number, Adaptive):
        return number
    if callable(number):
        if key is None:
            raise InvalidPolicyError("max_concurrent", "a function of the key needs key=")
        return number
    count = whole("max_concurrent", number)
    Numbers(slots=count)
    return count
