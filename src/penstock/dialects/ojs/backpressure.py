"""What producers hear when a queue is full, or nearly; and how they wait for room."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from penstock.clock import SECOND, monotonic
from penstock.dialects.ojs.fetch_order import Queues
from penstock.errors import InvalidError, QueueFullError
from penstock.http.feed import Feed
from penstock.http.routes import Request, if_possible
from penstock.job import Bound, Enqueued, NewJob, OnFull

HEADER: Final = "ojs-block-timeout"
LONGEST: Final = 60.0  # seconds that a producer may wait for room
FRESH: Final = SECOND  # how long other servers may not know of a new bound
_AGAIN: Final = 0.02  # seconds between two tries for room
_APART: Final = SECOND  # how often refusals of one queue are told
WARNING: Final = 0.8


class Bounds:
    """The bounds of queues as they were a moment ago, and who waits for room in one."""

    def __init__(self) -> None:
        self._known: dict[str, Bound] = {}
        self._read = -FRESH - 1
        # Whoever waits for room in a queue waits behind those who came before.
        self.turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def of(self, request: Request) -> dict[str, Bound]:
        """Return the bounds of all queues that have one."""
        now = monotonic()
        if now - self._read > FRESH:
            self._read = now
            self._known = await request.service.run(lambda engine: engine.bounds())
        return self._known

    def forget(self) -> None:
        """Read them anew when they are asked for next."""
        self._read = -FRESH - 1


async def add(request: Request, jobs: Sequence[NewJob]) -> tuple[list[Enqueued], dict[str, str]]:
    """Enqueue jobs; return them with the headers that tell how full their queues are."""
    bounds = await request.service.part(Bounds).of(request)
    if not bounds:
        return await _added(request, jobs), {}
    queues = Counter(job.queue for job in jobs)
    # What is more than a queue may ever hold waits in vain.
    blocking = {
        queue
        for queue, coming in queues.items()
        if queue in bounds and bounds[queue].strategy is OnFull.BLOCK and coming <= bounds[queue].max_depth
    }
    try:
        if blocking:
            added = await _add_patiently(request, jobs, blocking)
        else:
            added = await _added(request, jobs)
    except QueueFullError as error:
        request.service.part(Strain).refused(request.service.feed, error)
        raise
    return added, await if_possible(_warnings(request, {q: bounds[q] for q in queues if q in bounds}), {})


async def _added(request: Request, jobs: Sequence[NewJob]) -> list[Enqueued]:
    added = await request.service.enqueue(jobs)
    if request.tenant:
        request.service.part(Queues).came(jobs)
    return added


async def _add_patiently(request: Request, jobs: Sequence[NewJob], blocking: set[str]) -> list[Enqueued]:
    """Wait for room as long as the client says; those who wait for the same queue take turns."""
    patience = block_timeout(request)
    end = monotonic() + int(patience * SECOND)
    turn = request.service.part(Bounds).turns[min(blocking)]
    if not patience:
        return await _added(request, jobs)
    try:
        await asyncio.wait_for(turn.acquire(), patience)
    except TimeoutError:
        return await _added(request, jobs)
    try:
        while True:
            try:
                return await _added(request, jobs)
            except QueueFullError as error:
                if error.queue not in blocking or monotonic() >= end:
                    raise
            await asyncio.sleep(_AGAIN)
    finally:
        turn.release()


def block_timeout(request: Request) -> float:
    """Return how many seconds the client would wait for room."""
    text = request.headers.get(HEADER)
    if text is None:
        return 0.0
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 86_400:  # noqa: PLR2004 - a day
        raise InvalidError("OJS-Block-Timeout", f"{text[:40]!r} must be a number of seconds, zero or more")
    return min(seconds, LONGEST)


async def _depth(request: Request, queue: str) -> int:
    return await request.service.run(lambda engine: engine.depth(queue))


async def _warnings(request: Request, bounds: dict[str, Bound]) -> dict[str, str]:
    """Return the headers for the fullest of these queues, if it is nearly full."""
    fullest, headers = 0.0, {}
    for queue, bound in bounds.items():
        depth = await _depth(request, queue)
        pressure = min(depth / bound.max_depth, 1.0)
        nearly = pressure >= (WARNING if bound.warning is None else bound.warning)
        request.service.part(Strain).seen(request.service.feed, queue, depth, bound.max_depth, nearly=nearly)
        if nearly and pressure > fullest:
            fullest = pressure
            headers = {
                "X-OJS-Queue-Pressure": f"{pressure:.3g}",
                "X-OJS-Queue-Depth": str(depth),
                "X-OJS-Queue-Bound": str(bound.max_depth),
            }
    return headers


@dataclass(slots=True)
class _Queue:
    warned: bool = False
    refused: int = 0  # since it was last told
    told: int = -_APART


class Strain:
    """Tells once when a queue is nearly full and when it no longer is; and of refusals, once a second."""

    def __init__(self) -> None:
        self._queues: dict[str, _Queue] = {}

    def refused(self, feed: Feed, error: QueueFullError) -> None:
        """Note that a queue had no room."""
        queue = self._queues.setdefault(error.queue, _Queue())
        queue.refused += 1
        queue.warned = True
        if monotonic() - queue.told >= _APART:
            facts = {"depth": error.depth, "max_depth": error.bound, "rejected": queue.refused}
            feed.tell("backpressure.rejected", queue=error.queue, **facts)
            queue.told, queue.refused = monotonic(), 0

    def seen(self, feed: Feed, queue: str, depth: int, most: int, *, nearly: bool) -> None:
        """Note how full a queue is."""
        known = self._queues.get(queue)
        if nearly and (known is None or not known.warned):
            self._queues[queue] = _Queue(warned=True)
            feed.tell("backpressure.warning", queue=queue, depth=depth, max_depth=most)
        elif known is not None and not nearly:
            del self._queues[queue]
            feed.tell("backpressure.cleared", queue=queue, depth=depth, max_depth=most)
