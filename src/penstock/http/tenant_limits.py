"""How much may a tenant use?

At once: every job of a tenant passes the gate `TENANT_GATE` of its own, so the number is exact for all queues
and processes, and may change at any time.  What it may have waiting, and how fast it may add, is looked at
before jobs are added: exact within one server, nearly so between several.
"""

import asyncio
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from penstock.clock import SECOND, monotonic
from penstock.engine import Engine
from penstock.http.errors import TenantLimitError
from penstock.http.routes import Request, converted
from penstock.http.service import Service
from penstock.http.settings_cache import set_setting, settings
from penstock.http.tenancy import check_shared
from penstock.job import NewJob
from penstock.limits.rules import UNLIMITED, Limit, Numbers, Window

# No client can name it: keys of clients begin with a letter or a digit.
TENANT_GATE: Final = "@tenant"
_GATE: Final = Limit(TENANT_GATE, UNLIMITED)


@dataclass(frozen=True, slots=True)
class TenantLimits:
    """What one tenant may use; what is not given is not limited."""

    max_concurrency: int | None = None
    max_queue_depth: int | None = None
    max_enqueue_rate: Window | None = None
    max_scheduled: int | None = None


_FREE: Final = TenantLimits()


class Arrivals:
    """When jobs of each tenant came, as far back as their windows reach."""

    def __init__(self) -> None:
        self.times: dict[str, deque[tuple[int, int]]] = {}
        self.locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)


def with_gate(tenant: str | None, limits: tuple[Limit, ...]) -> tuple[Limit, ...]:
    """Return the limits of a job, with the one of its tenant."""
    return (*limits, _GATE) if tenant else limits


def own_limits(limits: Sequence[Limit]) -> list[Limit]:
    """Return the limits that a job came with."""
    return [limit for limit in limits if limit.key != TENANT_GATE]


async def limits_of(service: Service, tenant: str) -> TenantLimits:
    """Return what a tenant may use."""
    plain = (await settings(service)).get(f"tenant:{tenant}")
    return _FREE if plain is None else converted(plain["limits"], TenantLimits)


async def set_limits(service: Service, tenant: str, limits: TenantLimits, kept: dict[str, Any]) -> None:
    """Decide what a tenant may use; *kept* are other facts to keep with that."""
    numbers = None if limits.max_concurrency is None else Numbers(slots=limits.max_concurrency)
    await service.run(lambda engine: engine.configure("key", TENANT_GATE, numbers, tenant=tenant))
    await set_setting(service, f"tenant:{tenant}", {**kept, "limits": limits})


@asynccontextmanager
async def admitted(request: Request, jobs: Sequence[NewJob]) -> AsyncIterator[None]:
    """Raise unless the tenant may add these jobs; its other requests wait until they are added."""
    tenant = request.tenant
    check_shared(request, jobs)
    limits = await limits_of(request.service, tenant) if tenant else _FREE
    if tenant is None or limits == _FREE:
        yield
        return
    arrivals = request.service.part(Arrivals)
    async with arrivals.locks[tenant]:
        await _check_depth(request.service, tenant, limits, jobs)
        _check_rate(arrivals, tenant, limits.max_enqueue_rate, len(jobs))
        yield


async def _check_depth(service: Service, tenant: str, limits: TenantLimits, jobs: Sequence[NewJob]) -> None:
    later = sum(job.due is not None for job in jobs)
    wanted = (
        ("max_queue_depth", limits.max_queue_depth, len(jobs)),
        ("max_scheduled", limits.max_scheduled, later),
    )
    for name, most, adds in wanted:
        if most is not None and adds:
            depth = await service.run(partial(_depth, tenant=tenant, scheduled=name == "max_scheduled"))
            if depth + adds > most:
                raise TenantLimitError(tenant, name, depth, most)


def _depth(engine: Engine, *, tenant: str, scheduled: bool) -> int:
    return engine.tenant_depth(tenant, scheduled=scheduled)


def _check_rate(arrivals: Arrivals, tenant: str, window: Window | None, count: int) -> None:
    if window is None:
        return
    now = monotonic()
    times = arrivals.times.setdefault(tenant, deque())
    while times and times[0][0] <= now - window.period:
        times.popleft()
    used = sum(number for _, number in times)
    if used + count > window.limit:
        opens = times[0][0] + window.period - now if times else window.period
        raise TenantLimitError(tenant, "max_enqueue_rate", used, window.limit, max(1, -(-opens // SECOND)))
    times.append((now, count))
