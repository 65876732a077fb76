"""Pools of resources: a step that names one takes, when it starts, one resource that has room.

A pool is known by its name, and a resource by its key.
"""

from datetime import date
from typing import Annotated, Any, Final

from msgspec import UNSET, Meta, Struct, UnsetType, structs

from penstock.dialects.orch8.format.values import (
    PAGE,
    check_name,
    maybe_written,
    page_of,
    tenant_in,
    tenant_of,
    written,
)
from penstock.engine import Engine
from penstock.engine.resources import MAX_RESOURCES
from penstock.errors import InvalidError
from penstock.http.access import JOBS, PRODUCERS
from penstock.http.routes import Reply, Request, Route
from penstock.job import ResourceGroup, ResourceView
from penstock.limits.calendar import DailyCap, Ramp
from penstock.limits.groups import Resource, Strategy
from penstock.sequences.gate_keys import resource_key, resource_name

_UTC: Final = "UTC"
_FIELDS: Final = {
    "cap": "daily_cap",
    "zone": "timezone",
    "title": "name",
    "ramp.cap": "warmup_start_cap",
    "ramp.days": "warmup_days",
    "ramp.start": "warmup_start",
}
Whole = Annotated[int, Meta(ge=0, le=2**31 - 1)]


class PoolBody(Struct):
    """A pool to add, or to change if there is one of its name."""

    name: str
    strategy: str = Strategy.ROUND_ROBIN.value
    tenant_id: str | None = None


class PoolShape(Struct):
    id: str
    tenant_id: str
    name: str
    strategy: str
    current_size: int
    max_size: int
    config: dict[str, Any]
    created_at: str
    updated_at: str


class ChangeBody(Struct):
    """What is to change of a resource; a *daily_cap* of 0 is none, a *warmup_start* of null ends the warm-up."""

    name: str | UnsetType = UNSET
    weight: Whole | UnsetType = UNSET
    enabled: bool | UnsetType = UNSET
    daily_cap: Whole | UnsetType = UNSET
    timezone: str | UnsetType = UNSET
    warmup_start: str | UnsetType | None = UNSET
    warmup_days: Whole | UnsetType = UNSET
    warmup_start_cap: Whole | UnsetType = UNSET


class ResourceBody(Struct):
    """A resource to add, or to set again if the pool has one of its key."""

    resource_key: str
    name: str = ""
    weight: Whole = 1
    enabled: bool = True
    daily_cap: Whole = 0
    timezone: str = _UTC
    warmup_start: str | None = None
    warmup_days: Whole = 0
    warmup_start_cap: Whole = 0


class ResourceShape(Struct):
    """A resource, how much of its present day is used, and when it has room; null if nothing but a change helps."""

    id: str
    pool_id: str
    resource_key: str
    name: str
    weight: int
    enabled: bool
    daily_cap: int
    timezone: str
    warmup_start: str | None
    warmup_days: int
    warmup_start_cap: int
    state: str
    daily_usage: int
    effective_daily_cap: int | None
    running: int
    next_slot_at: str | None
    created_at: str
    updated_at: str


async def create(request: Request) -> Reply:
    """Add a pool, or change the strategy of the one of its name."""
    body = request.read(PoolBody)
    tenant, name = tenant_in(request, body.tenant_id) or "", check_name(body.name, "name")
    if body.strategy not in [each.value for each in Strategy]:
        known = ", ".join(each.value for each in Strategy)
        raise InvalidError("strategy", f"{body.strategy[:40]!r} must be one of: {known}")

    def work(engine: Engine) -> ResourceGroup:
        engine.put_resource_group(name, Strategy(body.strategy), tenant=tenant)
        return engine.resource_group(name, tenant=tenant)

    return Reply(_pool(await request.service.run(work)), 201)


async def listing(request: Request) -> Reply:
    """Return pools by name."""
    tenant, (offset, limit) = tenant_of(request), page_of(request, 1_000)
    found = await request.service.run(lambda engine: engine.resource_groups(tenant))
    return Reply([_pool(each) for each in found[offset : offset + limit]])


async def look(request: Request) -> Reply:
    """Return one pool."""
    name, tenant = _named(request)
    return Reply(_pool(await request.service.run(lambda engine: engine.resource_group(name, tenant=tenant))))


async def delete(request: Request) -> Reply:
    """Delete a pool with its resources; steps that name it wait."""
    name, tenant = _named(request)
    await request.service.run(lambda engine: engine.delete_resource_group(name, tenant=tenant))
    return Reply(status=204)


async def resources(request: Request) -> Reply:
    """Return the resources of a pool by key."""
    pool, tenant = _named(request)
    found = await request.service.run(lambda engine: engine.resources(pool, tenant=tenant))
    return Reply([_resource(pool, each) for each in found])


async def put(request: Request) -> Reply:
    """Add a resource to a pool, or set the one of its key again."""
    (pool, tenant), body = _named(request), request.read(ResourceBody)
    resource = _read(body)

    def work(engine: Engine) -> ResourceView:
        engine.put_resource(pool, resource, tenant=tenant)
        return _found(engine, pool, resource.key, tenant)

    return Reply(_resource(pool, await request.service.run(work)), 201)


async def change(request: Request) -> Reply:
    """Change some of a resource; steps that wait start as soon as that allows."""
    (pool, tenant), body = _named(request), request.read(ChangeBody)
    key = resource_key(request.params["resource_key"])
    wanted = {field: value for field, value in structs.asdict(body).items() if value is not UNSET}

    def work(engine: Engine) -> ResourceView:
        engine.change_resource(
            pool, key, lambda known: _read(structs.replace(_body(known), **wanted)), tenant=tenant
        )
        return _found(engine, pool, key, tenant)

    return Reply(_resource(pool, await request.service.run(work)))


async def remove(request: Request) -> Reply:
    """Take a resource out of a pool."""
    (pool, tenant), key = _named(request), resource_key(request.params["resource_key"])
    await request.service.run(lambda engine: engine.delete_resource(pool, key, tenant=tenant))
    return Reply(status=204)


def _named(request: Request) -> tuple[str, str]:
    return request.params["pool"], tenant_of(request) or ""


def _found(engine: Engine, pool: str, key: str, tenant: str) -> ResourceView:
    return next(each for each in engine.resources(pool, tenant=tenant) if each.resource.key == key)


def _read(body: ResourceBody) -> Resource:
    key = resource_key(check_name(body.resource_key, "resource_key"))
    try:
        return Resource(key, body.weight, body.enabled, _daily(body), body.name)
    except InvalidError as error:
        raise InvalidError(_FIELDS.get(error.field, error.field), error.problem) from None


def _daily(body: ResourceBody) -> DailyCap | None:
    start = None if body.warmup_start is None else _day(body.warmup_start)
    if start is not None and not body.warmup_days:
        raise InvalidError("warmup_days", "a warm-up needs the days that it takes")
    ramp = (
        None
        if start is None or not body.warmup_days
        else Ramp(start, body.warmup_days, body.warmup_start_cap)
    )
    if body.daily_cap:
        return DailyCap(body.daily_cap, body.timezone, ramp)
    if ramp is not None:
        raise InvalidError("daily_cap", "a warm-up needs the cap that it leads to")
    DailyCap(0, body.timezone)  # must be a zone all the same
    return None


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise InvalidError("warmup_start", f"{text[:40]!r} must be a day, such as 2026-05-25") from None


def _body(resource: Resource) -> ResourceBody:
    """Return a resource as a request would write it."""
    daily = resource.daily
    ramp = None if daily is None else daily.ramp
    return ResourceBody(
        resource_name(resource.key), resource.title, resource.weight, resource.enabled,
        0 if daily is None else daily.most, _UTC if daily is None else daily.zone,
        None if ramp is None else ramp.start.isoformat(), 0 if ramp is None else ramp.days,
        0 if ramp is None else ramp.cap,
    )  # fmt: skip


def _pool(group: ResourceGroup) -> PoolShape:
    return PoolShape(
        group.name, group.tenant, group.name, group.strategy.value, group.size, MAX_RESOURCES, {},
        written(group.created), written(group.updated),
    )  # fmt: skip


def _resource(pool: str, view: ResourceView) -> dict[str, Any]:
    body = _body(view.resource)
    full = view.cap is not None and view.used >= view.cap
    return {
        "id": body.resource_key,
        "pool_id": pool,
        **structs.asdict(body),
        "state": "disabled" if not body.enabled else "exhausted" if full else "available",
        "daily_usage": view.used,
        "effective_daily_cap": view.cap,
        "running": view.running,
        "next_slot_at": maybe_written(view.opens_at),
        "created_at": written(view.created),
        "updated_at": written(view.updated),
    }


_POOL: Final = "/pools/{pool}"
_RESOURCES: Final = f"{_POOL}/resources"
_ONE: Final = f"{_RESOURCES}/{{+resource_key}}"
_TENANT: Final = ("tenant_id",)
ROUTES: Final = (
    Route("POST", "/pools", create, PRODUCERS, "Add or change a pool", PoolShape, PoolBody, 201),
    Route("GET", "/pools", listing, JOBS, "List pools", list[PoolShape], query=PAGE),
    Route("GET", _POOL, look, JOBS, "Look at a pool", PoolShape, query=_TENANT),
    Route("DELETE", _POOL, delete, PRODUCERS, "Delete a pool", status=204, query=_TENANT),
    Route("GET", _RESOURCES, resources, JOBS, "List the resources of a pool", list[ResourceShape], query=_TENANT),
    Route("POST", _RESOURCES, put, PRODUCERS, "Add a resource to a pool", ResourceShape, ResourceBody, 201,
          query=_TENANT),
    Route("PUT", _ONE, change, PRODUCERS, "Change a resource", ResourceShape, ChangeBody, query=_TENANT),
    Route("DELETE", _ONE, remove, PRODUCERS, "Take a resource out of a pool", status=204, query=_TENANT),
)  # fmt: skip
