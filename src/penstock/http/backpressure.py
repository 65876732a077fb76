"""What producers hear when a queue is full, or nearly; and how they wait for room."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from penstock.clock import SECOND, monotonic
from penstock.errors import QueueFullError
from penstock.http.feed import Feed
from penstock.http.routes import Request, if_possible
from penstock.job import Bound, Enqueued, NewJob, OnFull, Topic

LONGEST: Final = 60.0  # seconds that a producer may wait for room
FRESH: Final = SECOND  # how long other servers may not know of a new bound
_APART: Final = SECOND  # how often refusals of one queue are told
WARNING: Final = 0.8

Queue = tuple[str, str]  # a tenant, empty if it belongs to none, and the name that its queue has there


class Fullness(NamedTuple):
    """How full a queue is that is nearly full."""

    depth: int
    bound: int

    @property
    def share(self) -> float:
        """How much of its room is taken, 1.0 if all is."""
        return min(self.depth / self.bound, 1.0)


class Bounds:
    """The bounds of queues as they were a moment ago, and the requests that wait for room in one."""

    def __init__(self) -> None:
        self._known: dict[Queue, Bound] = {}
        self._read = -FRESH - 1
        # A request that waits for room in a queue waits behind those that came before.
        self.locks: defaultdict[Queue, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def of(self, request: Request) -> dict[Queue, Bound]:
        """Return the bounds of all queues that have one."""
        now = monotonic()
        if now - self._read > FRESH:
            self._read = now
            self._known = await request.service.run(lambda engine: engine.bounds())
        return self._known

    def forget(self) -> None:
        """Read them again when they are asked for next."""
        self._read = -FRESH - 1


async def add(
    request: Request, jobs: Sequence[NewJob], patience: Callable[[], float] = lambda: 0.0
) -> tuple[list[Enqueued], Fullness | None]:
    """Enqueue jobs; return them, and the fullest of their queues that is nearly full.

    Where a queue makes producers wait for room, this waits as many seconds as *patience* says.
    """
    bounds = await request.service.part(Bounds).of(request)
    if not bounds:
        return await request.service.enqueue(jobs), None
    queues = Counter((job.tenant, job.queue) for job in jobs)
    # What is more than a queue may ever hold waits in vain.
    blocking = {
        queue
        for queue, coming in queues.items()
        if queue in bounds and bounds[queue].strategy is OnFull.BLOCK and coming <= bounds[queue].max_depth
    }
    try:
        if blocking:
            added = await _add_patiently(request, jobs, blocking, min(patience(), LONGEST))
        else:
            added = await request.service.enqueue(jobs)
    except QueueFullError as error:
        request.service.part(Strain).refused(request.service.feed, error)
        raise
    return added, await if_possible(_fullest(request, {q: bounds[q] for q in queues if q in bounds}), None)


async def _add_patiently(
    request: Request, jobs: Sequence[NewJob], blocking: set[Queue], patience: float
) -> list[Enqueued]:
    """Wait for room so many seconds; requests for the same queue are served in the order in which they came."""
    service = request.service
    end = monotonic() + int(patience * SECOND)
    lock = service.part(Bounds).locks[min(blocking)]
    if not patience:
        return await service.enqueue(jobs)
    try:
        await asyncio.wait_for(lock.acquire(), patience)
    except TimeoutError:
        return await service.enqueue(jobs)
    try:
        while True:
            revision = service.revision(Topic.ROOM)
            try:
                return await service.enqueue(jobs)
            except QueueFullError as error:
                left = end - monotonic()
                if (error.tenant, error.queue) not in blocking or left <= 0 or service.draining:
                    raise
            await service.changed(revision, left / SECOND, Topic.ROOM)
    finally:
        lock.release()


async def _depth(request: Request, queue: Queue) -> int:
    tenant, name = queue
    return await request.service.run(lambda engine: engine.depth(name, tenant=tenant))


async def _fullest(request: Request, bounds: dict[Queue, Bound]) -> Fullness | None:
    """Return the fullest of these queues, if it is nearly full."""
    fullest = None
    for queue, bound in bounds.items():
        full = Fullness(await _depth(request, queue), bound.max_depth)
        nearly = full.share >= (WARNING if bound.warning is None else bound.warning)
        request.service.part(Strain).seen(request.service.feed, queue, full, nearly=nearly)
        if nearly and (fullest is None or full.share > fullest.share):
            fullest = full
    return fullest


@dataclass(slots=True)
class _Queue:
    warned: bool = False
    refused: int = 0  # since it was last told
    told: int = -_APART


class Strain:
    """Tells once when a queue is nearly full and when it no longer is; and of refusals, once a second."""

    def __init__(self) -> None:
        self._queues: dict[Queue, _Queue] = {}

    def refused(self, feed: Feed, error: QueueFullError) -> None:
        """Note that a queue had no room."""
        queue = self._queues.setdefault((error.tenant, error.queue), _Queue())
        queue.refused += 1
        queue.warned = True
        if monotonic() - queue.told >= _APART:
            facts = {"depth": error.depth, "max_depth": error.bound, "rejected": queue.refused}
            feed.tell("backpressure.rejected", tenant=error.tenant, queue=error.queue, **facts)
            queue.told, queue.refused = monotonic(), 0

    def seen(self, feed: Feed, queue: Queue, full: Fullness, *, nearly: bool) -> None:
        """Note how full a queue is."""
        facts = {"tenant": queue[0], "queue": queue[1], "depth": full.depth, "max_depth": full.bound}
        known = self._queues.get(queue)
        if nearly and (known is None or not known.warned):
            self._queues[queue] = _Queue(warned=True)
            feed.tell("backpressure.warning", **facts)
        elif known is not None and not nearly:
            del self._queues[queue]
            feed.tell("backpressure.cleared", **facts)
