"""What operators decided, kept in the store; other processes see it within half a second."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from penstock.clock import MILLISECOND, monotonic
from penstock.http.service import Service

FRESH: Final = 500 * MILLISECOND
PREFIX: Final = "ojs:"
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode


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


async def decided(service: Service) -> Mapping[str, Any]:
    """Return what is decided, by name."""
    part = service.part(SettingsCache)
    if not part.is_fresh:
        async with part.reading:
            while not part.is_fresh:
                now, changes = monotonic(), part.changes
                found = await service.run(lambda engine: engine.settings(PREFIX))
                part.values = {name: _decode(value) for name, value in found.items()}
                # What was decided meanwhile may not be among them.
                part.read = now if changes == part.changes else None
    return part.values


async def decide(service: Service, name: str, value: object) -> None:
    """Decide something, for every process; None takes it back."""
    text = None if value is None else _encode(value).decode()
    await service.run(lambda engine: engine.set_setting(f"{PREFIX}{name}", text))
    part = service.part(SettingsCache)
    part.changes += 1
    part.read = None
