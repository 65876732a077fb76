"""An attempt takes at most so long.

An async function is cancelled.  A plain one cannot be: its caller gets `AttemptTimeout` in time, and the slots it holds
stay held until it really ends.
"""

import asyncio
import threading
from collections.abc import Callable
from contextvars import copy_context
from types import TracebackType
from typing import Any, Self

from penstock.clock import SECOND
from penstock.limits.durations import Duration
from penstock.policies import clock
from penstock.policies.clock import Caller, caller, cut_off
from penstock.policies.errors import AttemptTimeout, LimitExceeded
from penstock.policies.slot_pool import note_abandoned
from penstock.policies.waiter import myself
from penstock.policies.wrapper import Entered, Wrapper


class Timeout(Wrapper):
    """An attempt takes at most *seconds*; else it ends with `AttemptTimeout`, which is a `TimeoutError`."""

    def __init__(self, seconds: Duration) -> None:
        self._span = clock.span(seconds, "seconds")
        self.seconds = self._span / SECOND
        self._entered: Entered[Any] = Entered()

    async def __aenter__(self) -> Self:
        bound = asyncio.timeout(self.seconds)
        await bound.__aenter__()
        self._entered.push(bound)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        bound = self._entered.pop()
        try:
            await bound.__aexit__(kind, error, traceback)
        except TimeoutError as late:
            raise AttemptTimeout(self.seconds) from late.__cause__

    def __enter__(self) -> Self:
        """Bound waits inside, and raise at the end if it took too long; nothing can stop a block of plain code."""
        until = clock.now() + self._span
        self._entered.push((until, cut_off.set(min(until, cut_off.get()))))
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        until, token = self._entered.pop()
        cut_off.reset(token)
        if clock.now() >= until and (error is None or isinstance(error, LimitExceeded)):
            raise AttemptTimeout(self.seconds) from error

    def _around_async(self, function: Callable[..., Any]) -> Callable[..., Any]:
        seconds = self.seconds

        async def bounded(*args: Any, **kwargs: Any) -> Any:
            bound = asyncio.timeout(seconds)
            try:
                async with bound:
                    return await function(*args, **kwargs)
            except TimeoutError as late:
                if bound.expired() and not isinstance(late, AttemptTimeout):
                    raise AttemptTimeout(seconds) from late.__cause__
                raise

        return bounded

    def _around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def bounded(*args: Any, **kwargs: Any) -> Any:
            if myself()[1] is not None:
                raise RuntimeError(
                    "a timeout of a plain function would block the event loop; call it in a thread"
                )
            context = copy_context()
            context.run(cut_off.set, min(clock.now() + self._span, cut_off.get()))
            waiting = Caller()
            context.run(caller.set, waiting)
            work = _Work(lambda: context.run(function, *args, **kwargs))
            thread = threading.Thread(target=work.run, daemon=True, name="penstock-timeout")
            thread.start()
            if not work.done.wait(self.seconds):
                waiting.gone = True
                note_abandoned(thread.ident)
                raise AttemptTimeout(self.seconds)
            return work.result(self.seconds, late=clock.now() >= context[cut_off])

        return bounded


class _Work:
    """A call in a thread of its own."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self._value: Any = None
        self._error: BaseException | None = None
        self.done = threading.Event()

    def run(self) -> None:
        try:
            self._value = self._call()
        except BaseException as error:  # noqa: BLE001 - it is the caller's
            self._error = error
        self.done.set()

    def result(self, seconds: float, *, late: bool) -> Any:
        if self._error is None:
            return self._value
        if late and isinstance(self._error, LimitExceeded):
            raise AttemptTimeout(seconds) from self._error
        raise self._error
