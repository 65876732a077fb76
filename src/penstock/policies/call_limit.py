"""A limit that calls pass, and the ways to use it: around a function, a block or one call, or by hand."""

import warnings
from collections.abc import Awaitable, Callable, Hashable
from functools import wraps
from types import FunctionType
from typing import Any, Final, ParamSpec, Protocol, TypeVar, Unpack
from weakref import WeakKeyDictionary

from penstock.limits.durations import Duration
from penstock.policies import clock
from penstock.policies.clock import NEVER
from penstock.policies.errors import InvalidPolicyError, NestedLimitsWarning
from penstock.policies.events import Counters, Listener, Stats
from penstock.policies.options import Amount, Key, Pick, SlotOptions, Weigh, checked_key, picker, whole
from penstock.policies.slot import LooseSlot, Slot
from penstock.policies.spending import Start
from penstock.policies.waiter import NO_WISHES, Wishes, myself
from penstock.policies.wrapper import Entered, is_async, refuse_generators

P = ParamSpec("P")
R = TypeVar("R")

MakeSlot = Callable[[tuple[Any, ...], dict[str, Any]], Slot]

# The outermost limit of a decorated function.  No attribute, since other decorators would copy it.
_decorated: Final[WeakKeyDictionary[FunctionType, "CallLimit"]] = WeakKeyDictionary()


class Slots(Protocol):
    """What a limit asks of its slot pool.

    A *grant* is what the pool gives out with a slot and is shown at the release.  `acquire` also returns how long the
    call waited.
    """

    counters: Counters

    def try_acquire(self, key: Hashable, weight: int, owner: object) -> Any: ...
    def acquire(self, key: Hashable, weight: int, owner: object, wishes: Wishes = ...) -> tuple[Any, int]: ...
    async def aacquire(
        self, key: Hashable, weight: int, owner: object, wishes: Wishes = ...
    ) -> tuple[Any, int]: ...
    def release(
        self, key: Hashable, weight: int, owner: object, grant: Any, error: BaseException | None = None
    ) -> None: ...
    def ask_once(self, key: Hashable, weight: int, owner: object) -> Any: ...
    def watch(self) -> None: ...
    def close(self, drain: int) -> None: ...
    def stats(self) -> Stats: ...


class CallLimit:
    """What bulkheads, throttlers, rate limiters and `Limits` have in common."""

    key: Key | None
    weight: int = 1
    pool: Slots
    call_slot: type[Slot] = Slot  # what a call of a function holds

    def __init__(self) -> None:
        self._entered: Entered[Slot] = Entered()

    @property
    def name(self) -> str:
        """Its name in errors, events and metrics."""
        return self.pool.counters.name

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Return *function* bounded by this limit."""
        inner = _decorated.get(function) if isinstance(function, FunctionType) else None
        if inner is not None:
            self._warn_of(inner)
        bounded: Any = self.bound(function)
        _decorated[bounded] = self
        return bounded  # type: ignore[no-any-return]

    def bound(self, function: Callable[P, R]) -> Callable[P, R]:
        """Return *function* bounded by this limit, without a look at what else is around it."""
        refuse_generators(function)
        make = self.slots_for(function)
        wrapped: Any = (
            self._around_async(function, make) if is_async(function) else self._around(function, make)
        )
        return wraps(function)(wrapped)

    def call(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call *function* within this limit; await the answer if *function* is async."""
        return self.bound(function)(*args, **kwargs)

    async def acall(self, function: Callable[P, Awaitable[R]], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call *function*, which returns something to await, within this limit."""
        async with self.slots_for(function)(args, kwargs):
            return await function(*args, **kwargs)

    def slot(
        self,
        key: Any = None,
        *,
        weight: int | None = None,
        cost: Amount | None = None,
        priority: int = 0,
        deadline: Duration | None = None,
        group: Hashable = None,
    ) -> Slot:
        """Return a slot to be used in `with` or `async with`; *deadline* is how long an answer is of use.

        It takes *weight* of a bulkhead's slots.  Where starts are counted it counts for *cost*; if several of its
        limits count starts, say the cost of each by its name.
        """
        return Slot(
            self,
            self.checked(key),
            self.weighed(weight, cost),
            wishes=self._wishes(priority, deadline, group),
        )

    def acquire(self, key: Any = None, **options: Unpack[SlotOptions]) -> Slot:
        """Wait in this thread for a slot, to be given back by hand."""
        return self._loose(self.slot(key, **options)).acquire()

    async def aacquire(self, key: Any = None, **options: Unpack[SlotOptions]) -> Slot:
        """Wait in this task for a slot, to be given back by hand."""
        return await self._loose(self.slot(key, **options)).aacquire()

    def try_acquire(self, key: Any = None, **options: Unpack[SlotOptions]) -> Slot | None:
        """Return a slot, to be given back by hand, if one is free and no call waits for it."""
        slot = self._loose(self.slot(key, **options))
        slot.owner = self.owner_of(slot)
        slot.grant = self.try_once(slot)
        return slot if slot.grant is not None else None

    def stats(self) -> Stats:
        """Return a snapshot: what is in use, and what happened so far."""
        return self.pool.stats()

    def listen(self, listener: Listener) -> None:
        """Tell *listener* of every event from now on."""
        self.pool.counters.listeners.append(listener)

    def close(self, drain: Duration = 30) -> None:
        """Refuse new calls; waiting calls may still come in, as slots are freed, until *drain* is over."""
        self.pool.close(clock.span(drain, "drain", zero=True))

    def __enter__(self) -> Slot:
        return self._entered.push(self.slot().acquire())

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        self._entered.pop().end(error)

    async def __aenter__(self) -> Slot:
        return self._entered.push(await self.slot().aacquire())

    async def __aexit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        self._entered.pop().end(error)

    def checked(self, key: Any) -> Any:
        """Return *key* if it is one for this limit."""
        if self.key is None:
            if key is not None:
                raise TypeError(f"{self.name} has no keys; it was made without key=")
            return None
        if key is None:
            raise TypeError(f"{self.name} has slots for each key; name one, as in .slot(key=...)")
        return checked_key(key, self.key)

    def pick_for(self, function: Callable[..., Any]) -> Pick | None:
        """Return what finds the key of a call of *function*."""
        return picker(self.key, function)

    def weighed(self, weight: int | None, cost: Amount | None) -> Any:
        """Return how much of this limit a call takes that asks for so much, or raise: here, so many slots."""
        if cost is not None:
            raise InvalidPolicyError("cost", f"{self.name} counts no starts; say weight= for slots")
        return self.weight if weight is None else whole("weight", weight)

    def weigher_for(self, function: Callable[..., Any]) -> Weigh | None:  # noqa: ARG002
        """Return what finds how much a call of *function* takes; None if all calls take the same."""
        return None

    def slots_for(self, function: Callable[..., Any]) -> MakeSlot:
        """Return what makes the slot that a call of *function* needs."""
        pick, weigh = self.pick_for(function), self.weigher_for(function)
        usual = self.weighed(None, None) if weigh is None else None

        def make(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Slot:
            key = None if pick is None else pick(args, kwargs)
            return self.call_slot(self, key, usual if weigh is None else weigh(args, kwargs))

        return make

    def owner_of(self, slot: Slot) -> object:
        """Return in whose name *slot* is held."""
        return None if slot.loose else myself()[0]

    def try_enter(self, slot: Slot) -> Any:
        """Take *slot* if it is free."""
        return self.pool.try_acquire(slot.key, slot.weight, slot.owner)

    def try_once(self, slot: Slot) -> Any:
        """Take *slot* if it can be had without waiting for other calls."""
        return self.try_enter(slot)

    def is_lost(self, grant: Any) -> bool:  # noqa: ARG002
        """Tell whether another process may have what was granted: never inside one process."""
        return False

    def starts_of(self, grant: Any) -> tuple[Start, ...]:  # noqa: ARG002
        """Return the starts that were remembered with *grant*: none, where slots are counted."""
        return ()

    def enter(self, slot: Slot) -> tuple[Any, int]:
        """Take *slot*, waiting in this thread."""
        grant = self.try_enter(slot)
        if grant is not None:
            return grant, 0
        return self.pool.acquire(slot.key, slot.weight, slot.owner, slot.wishes)

    async def aenter(self, slot: Slot) -> tuple[Any, int]:
        """Take *slot*, waiting in this task."""
        grant = self.try_enter(slot)
        if grant is not None:
            return grant, 0
        return await self.pool.aacquire(slot.key, slot.weight, slot.owner, slot.wishes)

    def leave(self, slot: Slot, grant: Any, error: BaseException | None) -> None:
        """Give *slot* back."""
        self.pool.release(slot.key, slot.weight, slot.owner, grant, error)

    def watch(self) -> None:
        """Measure from now on how long slots are held, so that waits can be estimated."""
        self.pool.watch()

    def parts(self) -> tuple["CallLimit", ...]:
        """Return the limits of which it is made."""
        return (self,)

    def apart(self) -> str | None:
        """Tell why it cannot be a member of `Limits`, if so."""
        return None

    def _wishes(self, priority: int, deadline: Duration | None, group: Hashable) -> Wishes:
        if deadline is None:
            return Wishes(NEVER, priority, group) if priority or group is not None else NO_WISHES
        self.watch()
        return Wishes(clock.now() + clock.span(deadline, "deadline", zero=True), priority, group)

    def _warn_of(self, inner: "CallLimit") -> None:
        parts = (*self.parts(), *inner.parts())
        if len({id(each) for each in parts}) == len(parts) and not any(each.apart() for each in parts):
            together = ", ".join(each.name for each in parts)
            warnings.warn(NestedLimitsWarning(self.name, inner.name, together), stacklevel=3)

    def _loose(self, slot: Slot) -> LooseSlot:
        return LooseSlot(self, slot.key, slot.weight, wishes=slot.wishes)

    def _around(self, function: Callable[..., Any], make: MakeSlot) -> Callable[..., Any]:
        def bounded(*args: Any, **kwargs: Any) -> Any:
            with make(args, kwargs):
                return function(*args, **kwargs)

        return bounded

    def _around_async(self, function: Callable[..., Any], make: MakeSlot) -> Callable[..., Any]:
        async def bounded(*args: Any, **kwargs: Any) -> Any:
            async with make(args, kwargs):
                return await function(*args, **kwargs)

        return bounded
