"""What should a worker do: go on, take no more, or stop?"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from penstock.http.routes import Request
from penstock.http.settings_cache import set_setting, settings
from penstock.http.worker_registry import WorkerRegistry
from penstock.job import Claimed

RUNNING: Final = "running"


async def directive(request: Request, tenant: str, worker: str) -> str:
    """Return what an operator asked of a worker; empty if nothing."""
    return str((await settings(request.service)).get(f"worker:{tenant}/{worker}", ""))


async def set_directive(request: Request, tenant: str, worker: str, wanted: str) -> None:
    """Ask something of a worker, which it hears with its next heartbeat."""
    await set_setting(request.service, f"worker:{tenant}/{worker}", None if wanted == RUNNING else wanted)


async def unless_idle(
    request: Request, worker: str, wait: float, claim: Callable[[], Awaitable[list[Claimed]]]
) -> list[Claimed]:
    """Start jobs for a worker by *claim*, unless it must have none now."""
    if await _is_idle(request, worker):
        # A request that would have waited for a job does so, or the worker asks again at once.
        await asyncio.sleep(wait)
        return []
    jobs = await claim()
    if jobs and wait and await _is_idle(request, worker):
        await request.service.hand_back(jobs)
        return []
    return jobs


async def _is_idle(request: Request, worker: str) -> bool:
    service = request.service
    willing = service.part(WorkerRegistry).fetches(worker, request.tenant, service.engine.clock.now())
    return not willing or bool(await directive(request, request.owner, worker))
