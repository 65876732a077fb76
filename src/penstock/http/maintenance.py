"""Maintenance: jobs are taken in, but none is handed out."""

from typing import Any, Final

from penstock.http.service import Service
from penstock.http.settings_cache import set_setting, settings

_NAME: Final = "maintenance"


async def maintenance(service: Service) -> dict[str, Any] | None:
    """Return since when there is maintenance (`at`), why, and perhaps `until` when; None if there is none."""
    return (await settings(service)).get(_NAME)


async def set_maintenance(service: Service, since: dict[str, Any] | None) -> None:
    """Begin maintenance, or end it."""
    await set_setting(service, _NAME, since)
