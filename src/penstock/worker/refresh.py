"""Compute floating limits when they are due."""

import asyncio
import inspect
import logging
import operator
import threading
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from penstock.background.periodic import PeriodicThread
from penstock.errors import InvalidLimitError, StoreError
from penstock.job import Refresh
from penstock.limits.rules import MAX_NUMBER
from penstock.worker.backend import Backend
from penstock.worker.failure import shortened
from penstock.worker.loop import Loop

EVERY: Final = 1.0
AT_ONCE: Final = 4
MAX_ERROR: Final = 500

Refresher = Callable[[Refresh], object]

log = logging.getLogger("penstock.worker")


class Refreshes:
    """Asks the store every second which limits are due, and runs their *refreshers*, a few at once."""

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
        self._free = threading.Semaphore(AT_ONCE)
        self.thread = PeriodicThread("refreshes", self._round)

    def _round(self) -> float | None:
        if not self._refreshers:
            return None
        places = sum(self._free.acquire(blocking=False) for _ in range(AT_ONCE))
        try:
            for refresh in self._due(places):
                # A thread each: they are rare, and one that hangs must not hold up the others.
                thread = threading.Thread(
                    target=self._run, args=(refresh,), name="penstock-refresh", daemon=True
                )
                thread.start()
                places -= 1
        finally:
            if places:
                self._free.release(places)
        return EVERY

    def _due(self, places: int) -> list[Refresh]:
        if not places:
            return []
        return self._engine.refreshes(list(self._refreshers), places, worker=self._worker, lease=self._lease)

    def _run(self, refresh: Refresh) -> None:
        try:
            self._report(refresh, *self._compute(refresh))
        except StoreError as error:
            log.warning("limit %s: its new value could not be written: %s", refresh.key, error)
        finally:
            self._free.release()
            self.thread.wake()

    def _compute(self, refresh: Refresh) -> tuple[int | None, str]:
        try:
            value = self._refreshers[refresh.handler](refresh)
            if inspect.isawaitable(value):
                value = self._awaited(value)
            return whole(value), ""
        except Exception as error:  # noqa: BLE001
            return None, shortened(f"{type(error).__name__}: {error}", MAX_ERROR)

    def _awaited(self, value: Awaitable[object]) -> object:
        async def answer() -> object:
            return await value

        return self._loop.run(answer()) if self._loop else asyncio.run(answer())

    def _report(self, refresh: Refresh, value: int | None, error: str) -> None:
        if error:
            log.warning("limit %s could not be refreshed: %s", refresh.key, error)
        if not self._engine.refreshed(refresh, value=value, error=error):
            log.warning("limit %s was refreshed too late; its value was not taken", refresh.key)


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
