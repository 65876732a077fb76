"""Compute floating limits when they are due."""

import asyncio
import inspect
import logging
import operator
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

from penstock.background.periodic import PeriodicThread
from penstock.clock import SECOND, monotonic
from penstock.errors import InvalidLimitError, StoreError
from penstock.job import Refresh
from penstock.limits.durations import format_duration
from penstock.limits.rules import MAX_NUMBER, bounds_text, nearest
from penstock.worker.backend import Backend
from penstock.worker.failure import shortened
from penstock.worker.loop import Loop

EVERY: Final = 1.0
AT_ONCE: Final = 4
TIMEOUT: Final = 30 * SECOND
# How much longer a coroutine has that is being cancelled.
TO_CANCEL: Final = SECOND
MAX_ERROR: Final = 500

log = logging.getLogger("penstock.worker")


@dataclass(frozen=True, slots=True)
class Refresher:
    """What computes a floating limit, plain or async, and how long it may take."""

    compute: Callable[[Refresh], object]
    timeout: int = TIMEOUT

    @property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.compute)


@dataclass(eq=False, slots=True)
class _Call:
    """A computation under way; a worker that gives it up at *deadline* does not wait for its end."""

    refresh: Refresh
    refresher: Refresher
    deadline: int
    renewed: int
    over: bool = False


class Refreshes:
    """Asks the store every second which limits are due, and runs their *refreshers*, a few at once.

    One that outlives its timeout is a failure and makes room for others.  A thread cannot be ended: a handler of
    which several calls hang is not called again here until one of them ends.
    """

    def __init__(
        self,
        engine: Backend,
        refreshers: Mapping[str, Refresher],
        loop: Loop | None,
        *,
        worker: str,
        lease: int,
    ) -> None:
        self._engine = engine
        self._refreshers = refreshers
        self._loop = loop
        self._worker = worker
        self._lease = lease
        self._lock = threading.Lock()
        self._running: set[_Call] = set()
        self._hanging: Counter[str] = Counter()  # calls that were given up and still run, by handler
        self.thread = PeriodicThread("refreshes", self._round)

    def _round(self) -> float | None:
        if not self._refreshers:
            return None
        self._give_up()
        self._renew()
        for refresh in self._due():
            self._begin(refresh)
        return min(EVERY, self._lease / 3 / SECOND)

    def _due(self) -> list[Refresh]:
        with self._lock:
            places = AT_ONCE - len(self._running)
            handlers = [name for name in self._refreshers if self._hanging[name] < AT_ONCE]
        if places <= 0 or not handlers:
            return []
        return self._engine.refreshes(handlers, places, worker=self._worker, lease=self._lease)

    def _begin(self, refresh: Refresh) -> None:
        refresher = self._refreshers[refresh.handler]
        now = monotonic()
        patience = refresher.timeout + (TO_CANCEL if refresher.is_async else 0)
        call = _Call(refresh, refresher, now + patience, now)
        with self._lock:
            self._running.add(call)
        # A thread each: they are rare, and one that hangs must not hold up the others.
        thread = threading.Thread(target=self._run, args=(call,), name="penstock-refresh", daemon=True)
        try:
            thread.start()
        except BaseException:
            self._end(call)
            raise

    def _run(self, call: _Call) -> None:
        value, error = self._compute(call)
        if self._end(call):
            self._report(call.refresh, value, error)
        self.thread.wake()

    def _end(self, call: _Call, *, hanging: bool = False) -> bool:
        """Take a call off the list, as *hanging* or for good; False if it was given up before."""
        name = call.refresh.handler
        with self._lock:
            if call.over:
                self._hanging[name] -= 1
                return False
            call.over = True
            self._running.discard(call)
            self._hanging[name] += hanging
            return True

    def _give_up(self) -> None:
        """Report the calls that took too long."""
        now = monotonic()
        with self._lock:
            late = [call for call in self._running if call.deadline <= now and not call.over]
        for call in late:
            if self._end(call, hanging=True):
                self._report(call.refresh, None, _too_long(call.refresher))

    def _renew(self) -> None:
        now = monotonic()
        with self._lock:
            old = [call for call in self._running if call.renewed + self._lease // 3 <= now]
        if old:
            lent = [(call.refresh.gate, call.refresh.fence) for call in old]
            self._engine.renew_refreshes(lent, lease=self._lease)
            for call in old:
                call.renewed = now

    def _compute(self, call: _Call) -> tuple[int | None, str]:
        try:
            value = call.refresher.compute(call.refresh)
            if inspect.isawaitable(value):
                value = self._awaited(value, call.refresher.timeout)
            return self._bounded(call.refresh, whole(value)), ""
        except _TookTooLongError:
            return None, _too_long(call.refresher)
        except BaseException as error:  # noqa: BLE001 - whatever it raises, the others go on
            return None, shortened(f"{type(error).__name__}: {error}", MAX_ERROR)

    def _awaited(self, value: Awaitable[object], timeout: int) -> object:
        async def answer() -> object:
            try:
                async with asyncio.timeout(timeout / SECOND) as limit:
                    return await value
            except TimeoutError:
                if limit.expired():
                    raise _TookTooLongError from None
                raise

        return self._loop.run(answer()) if self._loop else asyncio.run(answer())

    @staticmethod
    def _bounded(refresh: Refresh, value: int) -> int:
        used = nearest(value, refresh.least, refresh.most)
        if used != value:
            bounds = bounds_text(refresh.least, refresh.most)
            log.warning(
                "limit %s: %d was computed, but it must be %s; %d is used", refresh.key, value, bounds, used
            )
        return used

    def _report(self, refresh: Refresh, value: int | None, error: str) -> None:
        if error:
            log.warning("limit %s could not be refreshed: %s", refresh.key, error)
        try:
            if not self._engine.refreshed(refresh, value=value, error=error):
                log.warning("limit %s was refreshed too late; its value was not taken", refresh.key)
        except StoreError as failed:
            log.warning("limit %s: its new value could not be written: %s", refresh.key, failed)


class _TookTooLongError(Exception):
    """A coroutine was cancelled because its time was over."""


def _too_long(refresher: Refresher) -> str:
    return f"TimeoutError: it took longer than {format_duration(refresher.timeout)}"


def whole(value: object) -> int:
    """Return *value* as a number of slots, or raise if it is not one."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise InvalidLimitError("slots", f"{value!r} must be a whole number, at least 0")
    number = operator.index(value)
    if not 0 <= number <= MAX_NUMBER:
        raise InvalidLimitError("slots", f"{number} must be at least 0 and at most {MAX_NUMBER}")
    return number
