"""What a call holds of a limit while it runs, and what it reports to have used."""

import warnings
from collections.abc import Hashable, Mapping
from contextlib import suppress
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

import msgspec

from penstock.clock import SECOND
from penstock.policies.clock import Caller, caller
from penstock.policies.options import Amount, by_name, whole
from penstock.policies.spending import Start
from penstock.policies.waiter import NO_WISHES, Wishes

if TYPE_CHECKING:
    from penstock.policies.call_limit import CallLimit

# What the calls of functions that run here hold, the innermost last.
calls: Final[ContextVar[tuple["CallSlot", ...]]] = ContextVar("penstock_calls", default=())


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

    def spend(self, used: Amount) -> None:
        """Report what was really *used*, in place of the cost or of what was reported before.

        Less gives budget back at once; more may fill a window beyond its limit, and nothing else starts until it fits
        again.  A call that reports nothing keeps its cost.  If several of its limits count starts, say what was used
        of each by its name.
        """
        if not self.held:
            raise RuntimeError(
                f"a slot of {self.limit.name} is not held; report what was used before it is given back"
            )
        starts = self.starts()
        amounts = by_name("used", used, [start.name for start in starts], self.limit.name)
        for name, amount in amounts.items():
            whole(f"used.{name}" if isinstance(used, Mapping) else "used", amount, least=0)
        for start in starts:
            if start.name in amounts:
                start.spend(amounts[start.name])

    def starts(self) -> tuple[Start, ...]:
        """Return the starts that its limits remember, while it is held."""
        grant = self.grant
        return () if grant is None else self.limit.starts_of(grant)

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


class CallSlot(Slot):
    """A slot of the call of a function, inside which its limits find it."""

    outside: Token[tuple["CallSlot", ...]] | None = None

    def __enter__(self) -> Self:
        self.acquire()
        self.outside = calls.set((*calls.get(), self))
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        self._come_out()
        self.end(error)

    async def __aenter__(self) -> Self:
        await self.aacquire()
        self.outside = calls.set((*calls.get(), self))
        return self

    async def __aexit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        self._come_out()
        self.end(error)

    def _come_out(self) -> None:
        if self.outside is not None:
            # A coroutine that was never finished is closed in another context, which knows nothing of the call.
            with suppress(ValueError):
                calls.reset(self.outside)
