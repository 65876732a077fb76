"""Rate limits of resources: so many starts in any window, for steps that name the resource."""

from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from penstock.clock import SECOND
from penstock.dialects.orch8.format.values import (
    PAGE,
    check_name,
    maybe_written,
    page_of,
    tenant_in,
    tenant_of,
    written,
)
from penstock.http.access import JOBS, PRODUCERS
from penstock.http.routes import Reply, Request, Route
from penstock.job import RateResourceView
from penstock.limits.rules import Window
from penstock.sequences.gate_keys import resource_key, resource_name

_LONGEST: Final = 3_650 * 86_400  # seconds


class RateLimitBody(Struct, forbid_unknown_fields=True):
    """So many starts in any window; a *max_count* of 0 lets nothing start."""

    resource_key: str
    max_count: Annotated[int, Meta(ge=0, le=2**31 - 1)]
    window_seconds: Annotated[int, Meta(ge=1, le=_LONGEST)]
    tenant_id: str | None = None


class RateLimitShape(Struct):
    """A rate limit, how much of it is used, and when the next start may come; null if nothing but a change helps."""

    id: str
    tenant_id: str
    resource_key: str
    max_count: int
    window_seconds: int
    created_at: str
    updated_at: str
    current_count: int
    waiting: int
    next_slot_at: str | None
    shut_until: str | None


async def put(request: Request) -> Reply:
    """Set the rate of a resource; steps that wait for it start as soon as the new one allows."""
    body = request.read(RateLimitBody)
    tenant = tenant_in(request, body.tenant_id) or ""
    key = resource_key(check_name(body.resource_key, "resource_key"))
    rate = Window(body.max_count, body.window_seconds * SECOND)
    found = await request.service.run(lambda engine: engine.put_rate_resource(key, rate, tenant=tenant))
    return Reply(_shown(found), 201)


async def listing(request: Request) -> Reply:
    """Return rate limits by key."""
    tenant, (offset, limit) = tenant_of(request), page_of(request, 1_000)
    found = await request.service.run(lambda engine: engine.rate_resources(tenant, offset, limit))
    return Reply([_shown(each) for each in found])


async def look(request: Request) -> Reply:
    """Return one rate limit."""
    key, tenant = resource_key(request.params["resource_key"]), tenant_of(request) or ""
    return Reply(_shown(await request.service.run(lambda engine: engine.rate_resource(key, tenant=tenant))))


async def delete(request: Request) -> Reply:
    """Delete a rate limit; steps that wait for it start at once."""
    key, tenant = resource_key(request.params["resource_key"]), tenant_of(request) or ""
    await request.service.run(lambda engine: engine.delete_rate_resource(key, tenant=tenant))
    return Reply(status=204)


def _shown(view: RateResourceView) -> dict[str, Any]:
    gate = view.gate
    rate = None if gate.configured is None else gate.configured.rate
    return {
        "id": view.id,
        "tenant_id": view.tenant,
        "resource_key": resource_name(view.key),
        "max_count": 0 if rate is None else rate.limit,
        "window_seconds": 0 if rate is None else rate.period // SECOND,
        "created_at": written(view.created),
        "updated_at": written(view.updated),
        "current_count": gate.recent,
        "waiting": gate.waiting,
        "next_slot_at": maybe_written(gate.opens_at),
        "shut_until": maybe_written(gate.shut_until),
    }


_ONE: Final = "/rate-limits/{+resource_key}"
_TENANT: Final = ("tenant_id",)
ROUTES: Final = (
    Route(
        "POST",
        "/rate-limits",
        put,
        PRODUCERS,
        "Set the rate of a resource",
        RateLimitShape,
        RateLimitBody,
        201,
    ),
    Route("GET", "/rate-limits", listing, JOBS, "List rate limits", list[RateLimitShape], query=PAGE),
    Route("GET", _ONE, look, JOBS, "Look at a rate limit", RateLimitShape, query=_TENANT),
    Route("DELETE", _ONE, delete, PRODUCERS, "Delete a rate limit", status=204, query=_TENANT),
)
