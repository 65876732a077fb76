"""Which queues a fetch looks into, and in which order.

A fetch that names no tenant works for all of them: the queues of that name take turns, tenant by tenant.
"""

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from penstock.clock import MILLISECOND, SECOND, monotonic
from penstock.errors import NotFoundError
from penstock.http.routes import Request
from penstock.http.service import Service
from penstock.http.tenancy import engine_queue, queue_tenant, spec_queue
from penstock.job import Claimed, ClaimFor, NewJob, Order, Pool

FRESH: Final = SECOND  # how long other servers may not know of a changed pool
LATELY: Final = 100 * MILLISECOND  # how long they may not know that a tenant's queue has its first job
SLICE: Final = 2.0  # seconds after which a request that waits looks at all queues again
TOGETHER: Final = 32  # tenants asked in one round
MOST: Final = 100_000  # tenants whose turns are remembered
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


class Queues:
    """What this process knows of pools, of tenants' queues, and of what it handed out lately."""

    def __init__(self) -> None:
        self.pools: list[Pool] = []
        self.busy: set[str] = set()  # tenants' queues in which jobs wait
        self.served: dict[str, int] = {}  # when each tenant was served last, in turns
        self._turns = itertools.count(1)
        self.handed_out: Counter[str] = Counter()
        self.before: Counter[str] = Counter()  # the same, in the window before
        self.window = monotonic() // WINDOW
        self._pools_read: int | None = None
        self._busy_read: int | None = None

    async def refresh_pools(self, service: Service) -> list[Pool]:
        """Return the pools of all tenants."""
        now = monotonic()
        if self._pools_read is None or now - self._pools_read > FRESH:
            self._pools_read = now
            self.pools = await service.run(lambda engine: engine.pools())
        return self.pools

    async def refresh_busy(self, service: Service) -> set[str]:
        """Return the tenants' queues in which jobs wait."""
        now = monotonic()
        if self._busy_read is None or now - self._busy_read > LATELY:
            self._busy_read = now
            found = await service.run(lambda engine: engine.busy_queues())
            self.busy = {name for name in found if queue_tenant(name)}
        return self.busy

    def forget_pools(self) -> None:
        """Read the pools again when they are asked for next."""
        self._pools_read = None

    def came(self, jobs: Sequence[NewJob]) -> None:
        """Note in which queues jobs wait now."""
        self.busy.update(job.queue for job in jobs if job.tenant)

    def went(self, jobs: Sequence[Claimed]) -> None:
        """Note what was handed out."""
        window = monotonic() // WINDOW
        if window != self.window:
            self.before = self.handed_out if window == self.window + 1 else Counter()
            self.handed_out, self.window = Counter(), window
        self.handed_out.update(job.queue for job in jobs)
        if len(self.served) > MOST:
            self.served.clear()
        for job in jobs:
            self.served[queue_tenant(job.queue)] = next(self._turns)


async def claim(request: Request, fetch: Fetch) -> list[Claimed]:
    """Start jobs for a worker: in the order of its pool, else as it wishes, else the first queue first."""
    part = request.service.part(Queues)
    pool = _pool(await part.refresh_pools(request.service), request.tenant, fetch)
    end = monotonic() + fetch.wait
    while True:
        revision = request.service.revision() if fetch.wait else 0
        groups = await _groups(request, fetch, part)
        left = max(end - monotonic(), 0)
        wait = min(left / SECOND, SLICE)
        if len(groups) == 1:
            wanted = _wanted(fetch, pool, groups[0], fetch.count)
            jobs = await request.service.claim(wanted, request.claims, wait)
        else:
            jobs = await _by_turns(request, fetch, pool, groups)
            if not jobs and wait:
                await request.service.changed(revision, wait)
        if jobs or monotonic() >= end or request.service.draining:
            part.went(jobs)
            return jobs


async def _by_turns(
    request: Request, fetch: Fetch, pool: Pool | None, groups: Sequence[list[str]]
) -> list[Claimed]:
    """Ask the queues of one tenant after the other, each for its share, until there are enough jobs."""
    jobs: list[Claimed] = []
    left = list(groups)
    while left and len(jobs) < fetch.count:
        missing = fetch.count - len(jobs)
        now, left = left[: min(missing, TOGETHER)], left[min(missing, TOGETHER) :]
        share, more = divmod(missing, len(now))
        for n, group in enumerate(now):
            wanted = share + (n < more)
            asked = _wanted(fetch, pool, group, wanted)
            found = await request.service.claim(asked, request.claims)
            jobs += found
            if len(found) == wanted and len(groups) > 1:
                left.append(group)  # it has perhaps more, once the others were asked
    return jobs


async def _groups(request: Request, fetch: Fetch, part: Queues) -> list[list[str]]:
    """Return the engine's queues that a fetch means, tenant by tenant, the one not served for longest first."""
    if request.tenant is not None:
        return [[engine_queue(request.tenant, name) for name in fetch.queues]]
    tenants = {
        queue_tenant(name)
        for name in await part.refresh_busy(request.service)
        if spec_queue(name) in fetch.queues
    }
    owners = sorted({"", *tenants}, key=lambda owner: (part.served.get(owner, 0), owner))
    return [[engine_queue(owner, name) for name in fetch.queues] for owner in owners]


def _wanted(fetch: Fetch, pool: Pool | None, queues: list[str], count: int) -> ClaimFor:
    weights: tuple[int, ...] = ()
    if pool is not None:
        order = pool.order
        known = {spec_queue(queue): weight for queue, weight in zip(pool.queues, pool.weights, strict=False)}
    else:
        order, known = fetch.order, dict(fetch.weights)
    if order is Order.WEIGHTED:
        weights = tuple(known.get(spec_queue(queue), 1) for queue in queues)
    return ClaimFor(tuple(queues), count, fetch.worker, fetch.lease, timed=True, order=order, weights=weights)


def _pool(pools: Sequence[Pool], tenant: str | None, fetch: Fetch) -> Pool | None:
    """Return the pool that a fetch names, or else the first that has all its queues; a tenant's own goes first."""
    mine = [pool for pool in pools if tenant and pool.tenant == tenant]
    known = [*mine, *(pool for pool in pools if not pool.tenant)]
    if fetch.pool is not None:
        for pool in known:
            if pool.name == fetch.pool:
                return pool
        raise NotFoundError("pool", fetch.pool)
    wanted = set(fetch.queues)
    return next((pool for pool in known if wanted <= {spec_queue(queue) for queue in pool.queues}), None)
