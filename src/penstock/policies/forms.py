"""The ways to use a limit: around a function, around a block, around one call, or by hand."""

import inspect
import warnings
from asyncio import iscoroutinefunction
from collections.abc import Awaitable, Callable, Hashable
from functools import partial, wraps
from types import FunctionType, TracebackType
from typing import Any, Final, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from penstock.limits.durations import Duration
from penstock.policies import moment
from penstock.policies.errors import NestedLimitsWarning
from penstock.policies.events import Listener
from penstock.policies.keys import Key, Pick, checked, picker
from penstock.policies.ledger import Stats
from penstock.policies.pool import Pool, Slots
from penstock.policies.shared import SharedPool
from penstock.policies.slot import LooseSlot, Slot
from penstock.policies.waiter import myself

P = ParamSpec("P")
R = TypeVar("R")

# Which limit is the outermost of a decorated function.  No attribute, since other decorators would copy it.
_decorated: Final[WeakKeyDictionary[FunctionType, "Limit"]] = WeakKeyDictionary()


def is_async(function: Callable[..., Any]) -> bool:
    """Tell whether calling *function* gives something to await."""
    while isinstance(function, partial):
        function = function.func
    return iscoroutinefunction(function) or iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


def refuse_generators(function: Callable[..., Any]) -> None:
    """Raise if *function* returns before its work is done."""
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(
            f"{function!r} is a generator, whose work goes on after the call; use a `with` block inside"
        )


class Limit:
    """A limit that calls pass: a decorator, a context manager, and what is called."""

    key: Key | None
    weight: int
    pool: Slots

    def __init__(self) -> None:
        self._entered: dict[object, Slot] = {}

    @property
    def name(self) -> str:
        """What it is called in errors, events and metrics."""
        return self.pool.ledger.name

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Return *function* bounded by this limit."""
        inner = _decorated.get(function) if isinstance(function, FunctionType) else None
        if inner is not None:
            self._warn_of(inner)
        bounded: Any = self.bound(function)
        _decorated[bounded] = self
        return bounded  # type: ignore[no-any-return]

    def bound(self, function: Callable[P, R]) -> Callable[P, R]:
        """Return *function* bounded by this limit, whatever else is around it."""
        refuse_generators(function)
        pick = self.pick_for(function)
        wrapped: Any = (
            self._around_async(function, pick) if is_async(function) else self._around(function, pick)
        )
        return wraps(function)(wrapped)

    def call(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call *function* within this limit; await the answer if *function* is async."""
        return self.bound(function)(*args, **kwargs)

    async def acall(self, function: Callable[P, Awaitable[R]], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call *function*, which returns something to await, within this limit."""
        slot = self.slot_for(self.pick_for(function), args, kwargs)
        async with slot:
            return await function(*args, **kwargs)

    def slot(
        self,
        key: Any = None,
        *,
        weight: int | None = None,
        priority: int = 0,
        deadline: Duration | None = None,
        group: Hashable = None,
    ) -> Slot:
        """Return a slot to be used in `with` or `async with`; *deadline* is how long an answer is of use."""
        slot = Slot(self, self.checked(key), self.weight if weight is None else weight)
        if priority or deadline is not None or group is not None:
            slot.wishes = {"priority": priority, "group": group}
            if deadline is not None:
                self.pool.watch()
                slot.wishes["until"] = moment.now() + moment.span(deadline, "deadline", zero=True)
        return slot

    def acquire(self, key: Any = None, **options: Any) -> Slot:
        """Wait in this thread for a slot, to be given back by hand."""
        return self._loose(self.slot(key, **options)).acquire()

    async def aacquire(self, key: Any = None, **options: Any) -> Slot:
        """Wait in this task for a slot, to be given back by hand."""
        return await self._loose(self.slot(key, **options)).aacquire()

    def try_acquire(self, key: Any = None, **options: Any) -> Slot | None:
        """Return a slot, to be given back by hand, if one is free and nobody waits for it."""
        slot = self._loose(self.slot(key, **options))
        slot.owner = self.owner_of(slot)
        slot.hold = self.try_once(slot)
        return slot if slot.hold is not None else None

    def stats(self) -> Stats:
        """Return how things stand, and what happened so far."""
        return self.pool.stats()

    def listen(self, listener: Listener) -> None:
        """Tell *listener* of every event from now on."""
        self.pool.ledger.listeners.append(listener)

    def close(self, drain: Duration = 30) -> None:
        """Let nobody in any more; those who wait may still come in, as slots are freed, until *drain* is over."""
        self.pool.close(moment.span(drain, "drain", zero=True))

    def __enter__(self) -> Slot:
        return self._push(self.slot().acquire())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._pop().end(error)

    async def __aenter__(self) -> Slot:
        return self._push(await self.slot().aacquire())

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._pop().end(error)

    def checked(self, key: Any) -> Any:
        """Return *key* if it is one for this limit."""
        if self.key is None:
            if key is not None:
                raise TypeError(f"{self.name} has no keys; it was made without key=")
            return None
        if key is None:
            raise TypeError(f"{self.name} has a slot pool for each key; name one, as in .slot(key=...)")
        return checked(key, self.key)

    def pick_for(self, function: Callable[..., Any]) -> Pick | None:
        """Return what finds the key of a call of *function*."""
        return picker(self.key, function)

    def slot_for(self, pick: Pick | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Slot:
        """Return the slot that a call wants."""
        return Slot(self, None if pick is None else pick(args, kwargs), self.weight)

    def owner_of(self, slot: Slot) -> object:
        """Return in whose name *slot* is held."""
        return None if slot.loose else myself()[0]

    def try_enter(self, slot: Slot) -> Any:
        """Take *slot* if that can be had at once."""
        return self.pool.try_acquire(slot.key, slot.weight, slot.owner)

    def try_once(self, slot: Slot) -> Any:
        """Take *slot* if that can be had without waiting for others."""
        return self.try_enter(slot)

    def is_lost(self, hold: Any) -> bool:  # noqa: ARG002
        """Tell whether somebody else may have what is held: never inside one process."""
        return False

    def enter(self, slot: Slot) -> tuple[Any, int]:
        """Take *slot*, waiting in this thread."""
        hold = self.try_enter(slot)
        if hold is not None:
            return hold, 0
        return self.pool.acquire(slot.key, slot.weight, slot.owner, **(slot.wishes or {}))

    async def aenter(self, slot: Slot) -> tuple[Any, int]:
        """Take *slot*, waiting in this task."""
        hold = self.try_enter(slot)
        if hold is not None:
            return hold, 0
        return await self.pool.aacquire(slot.key, slot.weight, slot.owner, **(slot.wishes or {}))

    def leave(self, slot: Slot, hold: Any, error: BaseException | None) -> None:
        """Give *slot* back."""
        self.pool.release(slot.key, slot.weight, slot.owner, hold, error)

    def parts(self) -> tuple["Limit", ...]:
        """Return the limits of which it is made."""
        return (self,)

    def apart(self) -> str | None:
        """Tell why it cannot be one of `Limits`, if so."""
        pool: Any = self.pool
        if isinstance(pool, SharedPool):
            return "is shared; put it around the others instead"
        if isinstance(pool, Pool) and pool.groups is not None:
            return "has fair_by, which needs a line of its own; put it around the others instead"
        return None

    def _warn_of(self, inner: "Limit") -> None:
        parts = (*self.parts(), *inner.parts())
        if len({id(each) for each in parts}) == len(parts) and not any(each.apart() for each in parts):
            together = ", ".join(each.name for each in parts)
            warnings.warn(NestedLimitsWarning(self.name, inner.name, together), stacklevel=3)

    def _loose(self, slot: Slot) -> LooseSlot:
        return LooseSlot(self, slot.key, slot.weight, wishes=slot.wishes, loose=True)

    def _push(self, slot: Slot) -> Slot:
        slot.outer = self._entered.get(slot.owner)
        self._entered[slot.owner] = slot
        return slot

    def _pop(self) -> Slot:
        owner = myself()[0]
        slot = self._entered.pop(owner)
        if slot.outer is not None:
            self._entered[owner] = slot.outer
        return slot

    def _around(self, function: Callable[..., Any], pick: Pick | None) -> Callable[..., Any]:
        def bounded(*args: Any, **kwargs: Any) -> Any:
            with self.slot_for(pick, args, kwargs):
                return function(*args, **kwargs)

        return bounded

    def _around_async(self, function: Callable[..., Any], pick: Pick | None) -> Callable[..., Any]:
        async def bounded(*args: Any, **kwargs: Any) -> Any:
            async with self.slot_for(pick, args, kwargs):
                return await function(*args, **kwargs)

        return bounded
