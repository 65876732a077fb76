"""A slot that somebody holds, or wants to."""

import warnings
from collections.abc import Hashable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import msgspec

from penstock.policies.deadline import Caller, caller
from penstock.policies.waiter import myself

if TYPE_CHECKING:
    from penstock.policies.forms import Limit

_SECOND = 1_000_000
BLOCK: Final = "block"  # the hold of one who is noted in its pool, with this very slot, until its block ends


class Slot(msgspec.Struct, eq=False):
    """A slot of *limit* for *key*: usable in `with` and `async with`, and given back once.

    *waited* is how long it took to get, in seconds.
    """

    limit: "Limit"
    key: Hashable = None
    weight: int = 1
    owner: object = None
    hold: Any = None
    waited: float = 0.0
    wishes: dict[str, Any] | None = None
    outer: "Slot | None" = None
    loose: bool = False
    caller: Caller | None = None

    @property
    def held(self) -> bool:
        """Whether it was got and not given back."""
        if self.hold is BLOCK:
            pool: Any = self.limit.pool
            return pool.owners.get(self.owner) is self
        return self.hold is not None

    @property
    def lost(self) -> bool:
        """Whether it was shared and its lease ended while it was held: others may have it now."""
        return self.hold is not None and self.limit.is_lost(self.hold)

    @property
    def abandoned(self) -> bool:
        """Whether its work goes on in a thread for whose answer nobody waits any more."""
        return self.held and self.caller is not None and self.caller.gone

    def acquire(self) -> Self:
        """Get it, waiting in this thread."""
        self._check_free()
        self.caller = caller.get()
        self.owner = self.limit.owner_of(self)
        self.hold, waited = self.limit.enter(self)
        self.waited = waited / _SECOND
        return self

    async def aacquire(self) -> Self:
        """Get it, waiting in this task."""
        self._check_free()
        self.owner = self.limit.owner_of(self)
        self.hold, waited = await self.limit.aenter(self)
        self.waited = waited / _SECOND
        return self

    def release(self) -> None:
        """Give it back; safe to repeat."""
        if self.held and not self.loose and self.owner is not None:
            owner = self.limit.owner_of(self)
            if owner != self.owner:
                raise RuntimeError(
                    f"a slot of {self.limit.name} is given back by somebody who does not hold it"
                )
        self.end()

    def end(self, error: BaseException | None = None) -> None:
        """Give it back, whoever asks."""
        held = self.held
        hold, self.hold = self.hold, None
        if held and hold is not None:  # another thread may have been quicker
            self.limit.leave(self, hold, error)

    def __enter__(self) -> Self:
        return self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.end(error)

    async def __aenter__(self) -> Self:
        return await self.aacquire()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.end(error)

    def _check_free(self) -> None:
        if self.held:
            raise RuntimeError(f"this slot of {self.limit.name} is held already; ask for another one")


class LooseSlot(Slot):
    """A slot that is held without a block around it, by whoever has it at hand.

    One that nobody has at hand any more gives itself back, and says so.
    """

    def __enter__(self) -> Self:
        return self

    async def __aenter__(self) -> Self:
        return self

    def __del__(self) -> None:
        if self.hold is not None:
            self.end()
            warnings.warn(f"a slot of {self.limit.name} was never given back", ResourceWarning, stacklevel=2)


def current_owner() -> object:
    """Return who asks: the task, else the thread."""
    return myself()[0]
