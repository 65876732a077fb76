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
from penstock.http.tenancy import engine_queue, queue_tenant, spec_queue

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
        for queue in named(engine, request.tenant, name):
            (engine.pause if paused else engine.resume)(queue)

    await request.service.run(work)
    return Reply({"queue": await _queue(request), "name": name, "paused": paused})


async def _queue(request: Request) -> dict[str, Any]:
    name = check_queue(request.params["name"], "name")
    found = await request.service.run(lambda engine: overview(engine, request.tenant, name))
    return found[name]


def named(engine: Engine, tenant: str | None, name: str) -> list[str]:
    """Return the engine's queues of that name: of one tenant, or of none and of all tenants."""
    own = engine_queue(tenant, name)
    if tenant is not None:
        return [own]
    others = [str(queue["name"]) for queue in engine.queues()]
    return [own, *(queue for queue in others if queue != own and spec_queue(queue) == name)]


def overview(engine: Engine, tenant: str | None, name: str | None = None) -> dict[str, dict[str, Any]]:
    """Return queues by the name their tenants know: of one tenant or of all, or only the one called *name*."""
    counts: dict[str, Counter[str]] = {} if name is None else {name: Counter()}
    paused = set()

    def wanted(queue: str) -> bool:
        mine = tenant is None or queue_tenant(queue) == tenant
        return mine and name in (None, spec_queue(queue))

    for of_queue in engine.tally():
        if wanted(of_queue.queue):
            found = counts.setdefault(spec_queue(of_queue.queue), Counter())
            for state, number in of_queue.counts.items():
                found[SPEC_STATE[state]] += number
    for queue in engine.queues():
        known = str(queue["name"])
        if wanted(known):
            counts.setdefault(spec_queue(known), Counter())
            if queue["paused"] and (tenant is not None or not queue_tenant(known)):
                paused.add(spec_queue(known))
    bounds = {queue: bound for queue, bound in engine.bounds().items() if wanted(queue)}
    shown = {each: _shown(each, number, paused=each in paused) for each, number in counts.items()}
    for bounded, bound in bounds.items():
        known = spec_queue(bounded)
        shown.setdefault(known, _shown(known, Counter(), paused=False))["max_depth"] = bound.max_depth
    return shown


def _shown(name: str, counts: Counter[str], *, paused: bool) -> dict[str, Any]:
    status = "paused" if paused else "active"
    answer: dict[str, Any] = {"name": name, "status": status, "paused": paused}
    answer |= {state: counts[state] for state in USED_STATES}
    return {**answer, "depth": sum(counts[state] for state in _DEPTH)}


ROUTES = (
    Route("GET", "/queues", listed, JOBS, "List queues", None, QueuesAnswer, query=QUERY),
    Route("GET", "/queues/{name}", info, JOBS, "Look at a queue", None, QueueAnswer),
    Route(
        "GET", "/queues/{name}/stats", stats, JOBS, "How many jobs of a queue are where", None, QueueAnswer
    ),
    Route(
        "POST",
        "/queues/{name}/pause",
        pause,
        OPERATORS,
        "Let nothing be fetched from a queue",
        None,
        QueueAnswer,
    ),
    Route("POST", "/queues/{name}/resume", resume, OPERATORS, "Let jobs be fetched again", None, QueueAnswer),
)
