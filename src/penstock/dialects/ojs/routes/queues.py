"""Queues: counts by state, pause and resume."""

from collections import Counter
from typing import Any, Final

from penstock.dialects.ojs.format.names import check_queue
from penstock.dialects.ojs.format.paging import QUERY, page_of
from penstock.dialects.ojs.format.responses import QueueAnswer, QueuesAnswer
from penstock.dialects.ojs.format.states import SPEC_STATE, USED_STATES
from penstock.engine import Engine
from penstock.http.access import JOBS, OPERATORS
from penstock.http.routes import Reply, Request, Route

_DEPTH: Final = ("available", "scheduled", "retryable")


async def listed(request: Request) -> Reply:
    """Return a page of queues: a tenant's own, or those of all under the names their tenants know."""
    page = page_of(request, 50)
    found = await request.service.run(lambda engine: overview(engine, request.tenant))
    names = sorted(found)
    return Reply({"queues": [found[name] for name in page.of(names)], "pagination": page.shown(len(names))})


async def info(request: Request) -> Reply:
    """Return a queue, which need not have any jobs yet."""
    return Reply({"queue": await _queue(request)})


async def stats(request: Request) -> Reply:
    """Return the counts of a queue by state, in every shape that clients read."""
    queue = await _queue(request)
    flat = {name: value for name, value in queue.items() if name != "name"}
    return Reply({"queue": queue, "stats": {"queue": queue["name"], **flat}, "name": queue["name"], **flat})


async def pause(request: Request) -> Reply:
    """Let nothing be fetched from a queue; it still takes jobs."""
    return await _set_paused(request, paused=True)


async def resume(request: Request) -> Reply:
    """Let jobs be fetched from a queue again."""
    return await _set_paused(request, paused=False)


async def _set_paused(request: Request, *, paused: bool) -> Reply:
    name = check_queue(request.params["name"], "name")

    def work(engine: Engine) -> None:
        (engine.pause if paused else engine.resume)(name, tenant=request.owner)

    await request.service.run(work)
    return Reply({"queue": await _queue(request), "name": name, "paused": paused})


async def _queue(request: Request) -> dict[str, Any]:
    name = check_queue(request.params["name"], "name")
    found = await request.service.run(lambda engine: overview(engine, request.tenant, name))
    return found[name]


def overview(engine: Engine, tenant: str | None, name: str | None = None) -> dict[str, dict[str, Any]]:
    """Return queues by name: all of one tenant or of every tenant together, or the one called *name*."""
    counts: dict[str, Counter[str]] = {} if name is None else {name: Counter()}
    paused = set()

    def wanted(owner: str, queue: str) -> bool:
        return tenant in (None, owner) and name in (None, queue)

    for of_queue in engine.tally():
        if wanted(of_queue.tenant, of_queue.queue):
            found = counts.setdefault(of_queue.queue, Counter())
            for state, number in of_queue.counts.items():
                found[SPEC_STATE[state]] += number
    for queue in engine.queues():
        owner, known = str(queue["tenant"]), str(queue["name"])
        if wanted(owner, known):
            counts.setdefault(known, Counter())
            if queue["paused"] and (tenant is not None or not owner):
                paused.add(known)
    shown = {each: _shown(each, number, paused=each in paused) for each, number in counts.items()}
    for (owner, bounded), bound in engine.bounds().items():
        if wanted(owner, bounded):
            empty = _shown(bounded, Counter(), paused=False)
            shown.setdefault(bounded, empty)["max_depth"] = bound.max_depth
    return shown


def _shown(name: str, counts: Counter[str], *, paused: bool) -> dict[str, Any]:
    status = "paused" if paused else "active"
    answer: dict[str, Any] = {"name": name, "status": status, "paused": paused}
    answer |= {state: counts[state] for state in USED_STATES}
    return {**answer, "depth": sum(counts[state] for state in _DEPTH)}


ROUTES = (
    Route("GET", "/queues", listed, JOBS, "List queues", QueuesAnswer, query=QUERY),
    Route("GET", "/queues/{name}", info, JOBS, "Look at a queue", QueueAnswer),
    Route("GET", "/queues/{name}/stats", stats, JOBS, "How many jobs of a queue are where", QueueAnswer),
    Route(
        "POST", "/queues/{name}/pause", pause, OPERATORS, "Let nothing be fetched from a queue", QueueAnswer
    ),
    Route("POST", "/queues/{name}/resume", resume, OPERATORS, "Let jobs be fetched again", QueueAnswer),
)
