"""What operators decided, kept in the store; other processes see it within half a second."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from penstock.clock import MILLISECOND, monotonic
from penstock.http.codec import decode, encode
from penstock.http.engine_service import EngineService

FRESH: Final = 500 * MILLISECOND
_PREFIX: Final = "http:"


class SettingsCache:
    """The settings as this process last saw them."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.read: int | None = None  # when
        self.changes = 0
        self.reading = asyncio.Lock()

    @property
    def is_fresh(self) -> bool:
        """Whether they need not be read again."""
        return self.read is not None and monotonic() - self.read <= FRESH


async def settings(service: EngineService) -> Mapping[str, Any]:
    """Return all settings, by name."""
    cache = service.part(SettingsCache)
    if not cache.is_fresh:
        async with cache.reading:
            while not cache.is_fresh:
                now, changes = monotonic(), cache.changes
                found = await service.run(lambda engine: engine.settings(_PREFIX))
                cache.values = {name.removeprefix(_PREFIX): decode(value) for name, value in found.items()}
                # A setting made meanwhile may be missing.
                cache.read = now if changes == cache.changes else None
    return cache.values


async def set_setting(service: EngineService, name: str, value: object) -> None:
    """Set something for every process; None removes it."""
    text = None if value is None else encode(value).decode()
    await service.run(lambda engine: engine.set_setting(f"{_PREFIX}{name}", text))
    cache = service.part(SettingsCache)
    cache.changes += 1
    cache.read = None
