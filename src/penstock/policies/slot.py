"""What a call holds of a limit while it runs."""

import warnings
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, ClassVar, Self

import msgspec

from penstock.clock import SECOND
from penstock.policies.clock import Caller, caller
from penstock.policies.waiter import NO_WISHES, Wishes

if TYPE_CHECKING:
    from penstock.policies.call_limit import CallLimit


class Slot(msgspec.Struct, eq=False):
    """A slot of *limit* for *key*: usable in `with` and `async with`, and given back once.

    *waited* is how long it took to get, in seconds.  Of several limits, *key* and *weight* have one for each.
    """

    limit: "CallLimit"
    key: Hashable = None
    weight: Any = 1
    owner: object = None
    grant: Any = None
    waited: float = 0.0
    wishes: Wishes = NO_WISHES
    caller: Caller | None = None
    loose: ClassVar[bool] = False

    @property
    def held(self) -> bool:
        """Whether it was granted and not given back."""
        return self.grant is not None

    @property
    def lost(self) -> bool:
        """Whether it was shared and its lease ended while it was held: others may have it now."""
        return self.held and self.limit.is_lost(self.grant)

    @property
    def abandoned(self) -> bool:
        """Whether its work goes on in a thread whose caller has stopped waiting for the answer."""
        return self.held and self.caller is not None and self.caller.gone

    def acquire(self) -> Self:
        """Get it, waiting in this thread."""
        self._check_free()
        self.caller = caller.get()
        self.owner = self.limit.owner_of(self)
        self.grant, waited = self.limit.enter(self)
        self.waited = waited / SECOND
        return self

    async def aacquire(self) -> Self:
        """Get it, waiting in this task."""
        self._check_free()
        self.owner = self.limit.owner_of(self)
        self.grant, waited = await self.limit.aenter(self)
        self.waited = waited / SECOND
        return self

    def release(self) -> None:
        """Give it back; safe to repeat."""
        if self.held and not self.loose and self.owner is not None:
            owner = self.limit.owner_of(self)
            if owner != self.owner:
                raise RuntimeError(
                    f"a slot of {self.limit.name} is given back by a task or thread that does not hold it"
                )
        self.end()

    def end(self, error: BaseException | None = None) -> None:
        """Give it back, from any task or thread."""
        held = self.held
        grant, self.grant = self.grant, None
        if held and grant is not None:  # another thread may have been quicker
            self.limit.leave(self, grant, error)

    def __enter__(self) -> Self:
        return self.acquire()

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        self.end(error)

    async def __aenter__(self) -> Self:
        return await self.aacquire()

    async def __aexit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        self.end(error)

    def _check_free(self) -> None:
        if self.held:
            raise RuntimeError(f"this slot of {self.limit.name} is held already; ask for another one")


class LooseSlot(Slot):
    """A slot that is held without a block around it, and by no task or thread in particular.

    One that is garbage collected while held gives itself back, and warns.
    """

    loose = True

    def __enter__(self) -> Self:
        return self

    async def __aenter__(self) -> Self:
        return self

    def __del__(self) -> None:
        if self.grant is not None:
            self.end()
            warnings.warn(f"a slot of {self.limit.name} was never given back", ResourceWarning, stacklevel=2)
