"""Pools of queues, as operators set them; and how fetches were spread lately."""

from collections import Counter
from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from penstock.dialects.ojs.format.names import check_key, check_queue
from penstock.dialects.ojs.format.requests import ORDERS, Strategy
from penstock.dialects.ojs.format.responses import PoolAnswer
from penstock.errors import InvalidError, NotFoundError
from penstock.http.access import OPERATORS
from penstock.http.fetch_order import WINDOW, Queues
from penstock.http.routes import Reply, Request, Route
from penstock.job import Order, Pool
from penstock.limits.durations import to_iso
from penstock.limits.rules import MAX_NUMBER

Weight = Annotated[int, Meta(ge=1, le=1_000_000)]
_PATH: Final = "/admin/pools/{name}"
_NAMES: Final = {order: word for word, order in reversed(ORDERS.items())}


class MemberBody(Struct):
    """A queue of a pool."""

    weight: Weight = 1


class PoolBody(Struct):
    """A set of queues: how workers choose between them, and how many of their jobs may run at once."""

    queues: dict[str, MemberBody] | list[str]
    strategy: Strategy | None = None
    weights: dict[str, Weight] | None = None
    concurrency: Annotated[int, Meta(ge=0, le=MAX_NUMBER)] | None = None


async def put(request: Request) -> Reply:
    """Add a pool or replace it."""
    body = request.read(PoolBody)
    pool = _pool(request, body)
    await request.service.run(lambda engine: engine.set_pool(pool))
    request.service.part(Queues).forget_pools()
    return Reply({"pool": _shown(pool), **_shown(pool)})


async def get(request: Request) -> Reply:
    """Return a pool."""
    pool = await _found(request)
    return Reply({"pool": _shown(pool), **_shown(pool)})


async def listed(request: Request) -> Reply:
    """Return all pools."""
    pools = await request.service.run(lambda engine: engine.pools(request.tenant))
    return Reply({"pools": [_shown(pool) for pool in pools], "items": [_shown(pool) for pool in pools]})


async def delete(request: Request) -> Reply:
    """Delete a pool; its queues stay."""
    name = check_key(request.params["name"], "name")
    await request.service.run(lambda engine: engine.delete_pool(name, tenant=request.owner))
    request.service.part(Queues).forget_pools()
    return Reply({"deleted": True, "name": name})


async def stats(request: Request) -> Reply:
    """Tell how what this server handed out was spread over queues, in this minute and the one before."""
    part = request.service.part(Queues)
    part.went([])
    counts = await request.service.run(lambda engine: engine.queues())
    pools = await request.service.run(lambda engine: engine.pools(request.tenant))
    given = part.handed_out + part.before
    mine = Counter({key: number for key, number in given.items() if request.tenant in (None, key[0])})
    queues = _spread(mine, [queue for queue in counts if request.tenant in (None, queue["tenant"])])
    window = {"duration": to_iso(WINDOW), "windows": 2, "dispatched": sum(mine.values())}
    answer = {"queues": queues, "window": window, "pools": [_shown(pool) for pool in pools]}
    return Reply({"stats": answer, **answer})


def _spread(given: Counter[tuple[str, str]], counts: list[dict[str, object]]) -> list[dict[str, Any]]:
    known = {(str(queue["tenant"]), str(queue["name"])): queue for queue in counts}
    total = sum(given.values())
    shown = []
    for key in sorted(known.keys() | given.keys()):
        tenant, name = key
        of_queue = known.get(key, {})
        one: dict[str, Any] = {
            "name": name,
            "available": of_queue.get("waiting", 0),
            "active": of_queue.get("running", 0),
            "dispatched": given[key],
            "dispatch_ratio": round(given[key] / total, 4) if total else 0.0,
        }
        if tenant:
            one["tenant_id"] = tenant
        shown.append(one)
    return shown


def _pool(request: Request, body: PoolBody) -> Pool:
    name = check_key(request.params["name"], "name")
    members = body.queues if isinstance(body.queues, dict) else dict.fromkeys(body.queues, MemberBody())
    for queue in members:
        check_queue(queue, "queues")
    weights = {queue: member.weight for queue, member in members.items()} | (body.weights or {})
    unknown = weights.keys() - members.keys()
    if unknown:
        raise InvalidError("weights", f"{min(unknown)!r} is none of the pool's queues")
    order = Order.ROUND_ROBIN if body.strategy is None else ORDERS[body.strategy]
    numbers = tuple(weights[queue] for queue in members)
    return Pool(name, tuple(members), order, numbers, body.concurrency, request.owner)


def _shown(pool: Pool) -> dict[str, Any]:
    names = pool.queues
    weights = pool.weights or (1,) * len(names)
    shown: dict[str, Any] = {
        "name": pool.name,
        "strategy": _NAMES[pool.order],
        "queues": {name: {"weight": weight} for name, weight in zip(names, weights, strict=True)},
        "weights": dict(zip(names, weights, strict=True)),
    }
    if pool.slots is not None:
        shown["concurrency"] = pool.slots
    if pool.tenant:
        shown["tenant_id"] = pool.tenant
    return shown


async def _found(request: Request) -> Pool:
    name = check_key(request.params["name"], "name")
    for pool in await request.service.run(lambda engine: engine.pools(request.owner)):
        if pool.name == name:
            return pool
    raise NotFoundError("pool", name)


ROUTES = (
    Route("GET", "/admin/pools", listed, OPERATORS, "List pools"),
    Route("GET", _PATH, get, OPERATORS, "Look at a pool", PoolAnswer),
    Route("PUT", _PATH, put, OPERATORS, "Set a pool", PoolAnswer, PoolBody),
    Route("DELETE", _PATH, delete, OPERATORS, "Delete a pool"),
    Route("GET", "/admin/scheduling/stats", stats, OPERATORS, "How fetches were spread over queues"),
)
