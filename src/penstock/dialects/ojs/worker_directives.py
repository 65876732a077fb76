"""What is a worker to do: go on, take no more, or stop?"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from penstock.dialects.ojs.routes.maintenance import is_on
from penstock.dialects.ojs.settings_cache import PREFIX, decide, decided
from penstock.dialects.ojs.worker_registry import WorkerRegistry, test_directive
from penstock.http.routes import Request
from penstock.job import Claimed, Running

RUNNING: Final = "running"


async def directive(request: Request, worker: str, alive: Sequence[Running]) -> str:
    """Return what a worker that tells of itself is to do."""
    wanted = test_directive(alive) if request.service.test_mode else ""
    return wanted or await asked(request, request.tenant or "", worker) or RUNNING


async def asked(request: Request, tenant: str, worker: str) -> str:
    """Return what an operator asked of a worker; empty if nothing."""
    return str((await decided(request.service)).get(f"{PREFIX}worker:{tenant}/{worker}", ""))


async def ask(request: Request, tenant: str, worker: str, wanted: str) -> None:
    """Ask something of a worker, which it hears with its next heartbeat."""
    await decide(request.service, f"worker:{tenant}/{worker}", None if wanted == RUNNING else wanted)


async def unless_idle(
    request: Request, worker: str, wait: float, claim: Callable[[], Awaitable[list[Claimed]]]
) -> list[Claimed]:
    """Start jobs for a worker by *claim*, unless it is to have none now."""
    if await _is_idle(request, worker):
        # Whoever would have waited for a job does so, rather than ask again at once.
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
    return not willing or await is_on(service) or bool(await asked(request, request.tenant or "", worker))
