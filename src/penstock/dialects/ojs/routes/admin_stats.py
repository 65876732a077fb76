"""Counts of everything."""

from typing import Any

from msgspec import Struct

from penstock.dialects.ojs.format.counts import MINUTE, counts_of, of_tenant, throughput
from penstock.engine import Engine
from penstock.http.access import OPERATORS
from penstock.http.routes import Reply, Request, Route
from penstock.http.worker_registry import STALE, WorkerRegistry
from penstock.job import QueueCounts


class ThroughputShape(Struct):
    processed_per_minute: float
    failed_per_minute: float


class SystemStats(Struct):
    queues: int
    workers: int
    jobs: dict[str, int]
    throughput: ThroughputShape
    uptime_seconds: float


async def stats(request: Request) -> Reply:
    """Return how many there are of everything, and how fast jobs end."""
    now = request.now

    def work(engine: Engine) -> tuple[list[QueueCounts], list[QueueCounts], list[dict[str, object]]]:
        return engine.tally(), engine.ended_since(now - MINUTE), engine.queues()

    tallies, ended, queues = await request.service.run(work)
    tallies, ended = of_tenant(tallies, request.tenant), of_tenant(ended, request.tenant)
    names = {tally.queue for tally in tallies} | {
        str(queue["name"]) for queue in queues if _is_own(queue, request)
    }
    crew = request.service.part(WorkerRegistry).of(request.tenant)
    shown: dict[str, Any] = {
        "queues": len(names),
        "workers": sum(now - member.seen <= STALE for member in crew),
        "jobs": counts_of(tallies),
        "throughput": throughput(ended),
        "uptime_seconds": round(request.service.uptime, 3),
        "maintenance": await request.service.run(lambda engine: engine.maintenance()) is not None,
    }
    return Reply(shown)


def _is_own(queue: dict[str, object], request: Request) -> bool:
    return request.tenant in (None, queue["tenant"])


ROUTES = (Route("GET", "/admin/stats", stats, OPERATORS, "How it is going", SystemStats),)
