"""Which queues a fetch looks into, and in which order."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from penstock.clock import SECOND, monotonic
from penstock.errors import NotFoundError
from penstock.http.engine_service import EngineService
from penstock.http.routes import Request
from penstock.job import Claimed, ClaimFor, Order, Pool

FRESH: Final = SECOND  # how long other servers may not know of a changed pool
WINDOW: Final = 60 * SECOND


@dataclass(frozen=True, slots=True)
class Fetch:
    """A worker asks for jobs; times in microseconds.  Without a *pool*, *order* and *weights* are its own wish."""

    queues: Sequence[str]
    count: int
    worker: str
    lease: int
    wait: int = 0
    pool: str | None = None
    order: Order = Order.STRICT
    weights: Mapping[str, int] = field(default_factory=dict)
    tasks: tuple[str, ...] | None = None  # those that it knows, and patterns; None for all


class Queues:
    """What this process knows of pools, and of what it handed out lately, by tenant and queue."""

    def __init__(self) -> None:
        self.pools: list[Pool] = []
        self.handed_out: Counter[tuple[str, str]] = Counter()
        self.before: Counter[tuple[str, str]] = Counter()  # the same, in the window before
        self.window = monotonic() // WINDOW
        self._pools_read: int | None = None

    async def refresh_pools(self, service: EngineService) -> list[Pool]:
        """Return the pools of all tenants."""
        now = monotonic()
        if self._pools_read is None or now - self._pools_read > FRESH:
            self._pools_read = now
            self.pools = await service.run(lambda engine: engine.pools())
        return self.pools

    def forget_pools(self) -> None:
        """Read the pools again when they are asked for next."""
        self._pools_read = None

    def went(self, jobs: Sequence[Claimed]) -> None:
        """Note what was handed out."""
        window = monotonic() // WINDOW
        if window != self.window:
            self.before = self.handed_out if window == self.window + 1 else Counter()
            self.handed_out, self.window = Counter(), window
        self.handed_out.update((job.tenant, job.queue) for job in jobs)


async def claim(request: Request, fetch: Fetch) -> list[Claimed]:
    """Start jobs for a worker: in the order of its pool, else as it wishes, else the first queue first.

    A fetch that names no tenant works for all of them, which take turns.
    """
    part = request.service.part(Queues)
    pool = _pool(await part.refresh_pools(request.service), request.tenant, fetch)
    if pool is None:
        order, known = fetch.order, dict(fetch.weights)
    else:
        order, known = pool.order, dict(zip(pool.queues, pool.weights, strict=False))
    weights = tuple(known.get(queue, 1) for queue in fetch.queues) if order is Order.WEIGHTED else ()
    wanted = ClaimFor(
        tuple(fetch.queues), fetch.count, fetch.worker, fetch.lease, timed=True, order=order, weights=weights,
        tenant=request.tenant, tasks=fetch.tasks,
    )  # fmt: skip
    jobs = await request.service.claim(wanted, request.claims, fetch.wait / SECOND)
    part.went(jobs)
    return jobs


def _pool(pools: Sequence[Pool], tenant: str | None, fetch: Fetch) -> Pool | None:
    """Return the pool that a fetch names, or else the first that has all its queues; a tenant's own goes first."""
    mine = [pool for pool in pools if tenant and pool.tenant == tenant]
    known = [*mine, *(pool for pool in pools if not pool.tenant)]
    if fetch.pool is not None:
        for pool in known:
            if pool.name == fetch.pool:
                return pool
        raise NotFoundError("pool", fetch.pool)
    return next((pool for pool in known if set(fetch.queues) <= set(pool.queues)), None)
