"""Queues, as operators see them."""

from typing import Any, Final

from msgspec import Struct

from penstock.dialects.ojs.format.counts import MINUTE, counts_of, of_tenant, throughput
from penstock.dialects.ojs.format.limits import shown_numbers
from penstock.dialects.ojs.format.names import check_queue, written
from penstock.dialects.ojs.format.paging import OFFSETS, page_of
from penstock.dialects.ojs.routes.queues import pause as pause_queue
from penstock.dialects.ojs.routes.queues import resume as resume_queue
from penstock.engine import Engine
from penstock.http.access import OPERATORS
from penstock.http.routes import Reply, Request, Route
from penstock.job import QueueCounts
from penstock.limits.rules import Numbers

_NO_QUEUE: Final[dict[str, object]] = {"paused": False, "numbers": None}


class AdminQueueShape(Struct):
    name: str
    state: str
    counts: dict[str, int]
    paused: bool


class AdminQueuesAnswer(Struct):
    items: list[AdminQueueShape]


class PausedAnswer(Struct):
    name: str
    paused: bool


_Key = tuple[str, str]  # a tenant, and the name that its queue has there


class _Look:
    """Everything about queues at one moment."""

    def __init__(self, engine: Engine, tenant: str | None, now: int) -> None:
        self._rules = {
            (str(queue["tenant"]), str(queue["name"])): queue
            for queue in engine.queues()
            if tenant in (None, queue["tenant"])
        }
        self._tallies = _by_queue(of_tenant(engine.tally(), tenant))
        self._ended = _by_queue(of_tenant(engine.ended_since(now - MINUTE), tenant))

    @property
    def keys(self) -> list[_Key]:
        return sorted(self._rules.keys() | self._tallies.keys())

    def shown(self, key: _Key) -> dict[str, Any]:
        tenant, name = key
        rules = self._rules.get(key, _NO_QUEUE)
        shown: dict[str, Any] = {
            "name": name,
            "state": "paused" if rules["paused"] else "active",
            "counts": counts_of(self._tallies.get(key, [])),
            "throughput": throughput(self._ended.get(key, [])),
            "paused": bool(rules["paused"]),
            "configuration": _configuration(rules["numbers"]),
        }
        if tenant:
            shown["tenant_id"] = tenant
        return shown


async def listing(request: Request) -> Reply:
    """Return queues by name."""
    page, now = page_of(request), request.now
    look = await request.service.run(lambda engine: _Look(engine, request.tenant, now))
    items = [look.shown(key) for key in page.of(look.keys)]
    return Reply({"items": items, "pagination": page.shown(len(look.keys))})


async def info(request: Request) -> Reply:
    """Return a queue; one that has no jobs yet is empty."""
    name = check_queue(request.params["name"], "name")
    now = request.now
    look = await request.service.run(lambda engine: _Look(engine, request.tenant, now))
    return Reply(look.shown((request.owner, name)))


async def pause(request: Request) -> Reply:
    """Let nothing start from a queue."""
    return await _paused(request, "paused_at", paused=True)


async def resume(request: Request) -> Reply:
    """Let jobs start from a queue again."""
    return await _paused(request, "resumed_at", paused=False)


async def _paused(request: Request, when: str, *, paused: bool) -> Reply:
    name = check_queue(request.params["name"], "name")
    await (pause_queue if paused else resume_queue)(request)
    at = written(request.now)
    return Reply({"name": name, "paused": paused, "state": "paused" if paused else "active", when: at})


def _configuration(numbers: object) -> dict[str, Any]:
    if not isinstance(numbers, Numbers):
        return {}
    shown = shown_numbers(numbers)
    if "rate" in shown:
        shown["rate_limit"] = shown["rate"]
    return shown


def _by_queue(tallies: list[QueueCounts]) -> dict[_Key, list[QueueCounts]]:
    found: dict[_Key, list[QueueCounts]] = {}
    for tally in tallies:
        found.setdefault((tally.tenant, tally.queue), []).append(tally)
    return found


ROUTES = (
    Route("GET", "/admin/queues", listing, OPERATORS, "List queues", AdminQueuesAnswer, query=OFFSETS),
    Route("GET", "/admin/queues/{name}", info, OPERATORS, "Look at a queue", AdminQueueShape),
    Route("POST", "/admin/queues/{name}/pause", pause, OPERATORS, "Pause a queue", PausedAnswer),
    Route("POST", "/admin/queues/{name}/resume", resume, OPERATORS, "Resume a queue", PausedAnswer),
)
