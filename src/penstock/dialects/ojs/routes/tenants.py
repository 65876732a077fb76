"""Tenants: what each has, and what it may use."""

from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from penstock.clock import SECOND
from penstock.dialects.ojs.format.counts import MINUTE, counts_of, of_tenant, throughput
from penstock.dialects.ojs.format.limits import window_of
from penstock.dialects.ojs.format.names import written
from penstock.dialects.ojs.format.paging import OFFSETS, page_of
from penstock.dialects.ojs.format.requests import WindowBody
from penstock.engine import Engine
from penstock.errors import NotFoundError
from penstock.http.access import OPERATORS
from penstock.http.routes import Reply, Request, Route, converted
from penstock.http.settings_cache import set_setting, settings
from penstock.http.tenancy import check_tenant, check_unbound
from penstock.job import QueueCounts, TenantLimits
from penstock.limits.rules import Window

DAY: Final = 24 * 60 * MINUTE
_NAMES: Final = "tenant:"
_MOST: Final = 9_007_199_254_740_991
RATES: Final = 1_000_000  # the most jobs that a window remembers
Number = Annotated[int, Meta(ge=0, le=_MOST)]


class TenantLimitsBody(Struct, omit_defaults=True):
    """What one tenant may use; what is not given is not limited."""

    max_concurrency: Number | None = None
    max_queue_depth: Number | None = None
    max_enqueue_rate: WindowBody | Annotated[int, Meta(ge=1, le=RATES)] | None = None
    max_scheduled: Number | None = None


class LimitsBody(TenantLimitsBody):
    """What a tenant may use; null takes a limit away, what is not given stays."""

    reason: Annotated[str, Meta(max_length=1_000)] | None = None


class TenantBody(Struct):
    """What a tenant may use."""

    limits: TenantLimitsBody = msgspec.field(default_factory=TenantLimitsBody)
    name: Annotated[str, Meta(max_length=255)] | UnsetType = UNSET


class TenantShape(Struct):
    tenant_id: str
    limits: dict[str, Any]


class TenantsAnswer(Struct):
    items: list[TenantShape]


class TenantStats(Struct):
    tenant_id: str
    total_jobs: int
    jobs: dict[str, int]


async def listing(request: Request) -> Reply:
    """Return the tenants that have jobs or limits."""
    page = page_of(request)
    known = await settings(request.service)
    tallies = await request.service.run(lambda engine: engine.tally())
    names = {tally.tenant for tally in tallies if tally.tenant}
    names |= {name.removeprefix(_NAMES) for name in known if name.startswith(_NAMES)}
    if request.tenant is not None:
        names &= {request.tenant}
    items = [await _shown(request, tenant, tallies) for tenant in page.of(sorted(names))]
    return Reply({"items": items, "pagination": page.shown(len(names))})


async def info(request: Request) -> Reply:
    """Return a tenant."""
    tenant = _meant(request)
    return Reply(await _shown(request, tenant, await request.service.run(lambda engine: engine.tally())))


async def put(request: Request) -> Reply:
    """Decide what a tenant may use, in all."""
    check_unbound(request)
    tenant, body = _meant(request), request.read(TenantBody)
    kept: dict[str, Any] = {"at": request.now}
    if body.name is not UNSET:
        kept["name"] = body.name
    return await _set(request, tenant, body.limits, kept)


async def put_limits(request: Request) -> Reply:
    """Change some of what a tenant may use."""
    check_unbound(request)
    tenant, sent = _meant(request), request.read(LimitsBody)
    limits = converted((await _kept(request, tenant)).get("shown", {}), TenantLimitsBody)
    for name in TenantLimitsBody.__struct_fields__:
        if name in request.fields():
            setattr(limits, name, getattr(sent, name))
    kept: dict[str, Any] = {"at": request.now, "reason": sent.reason}
    return await _set(request, tenant, limits, kept)


async def _set(request: Request, tenant: str, body: TenantLimitsBody, kept: dict[str, Any]) -> Reply:
    rate = body.max_enqueue_rate
    window = Window(rate, SECOND) if isinstance(rate, int) else window_of(rate, "max_enqueue_rate")
    limits = TenantLimits(body.max_concurrency, body.max_queue_depth, body.max_scheduled, window)
    shown = msgspec.to_builtins(body)
    await request.service.run(lambda engine: engine.set_tenant_limits(tenant, limits))
    await set_setting(request.service, f"{_NAMES}{tenant}", {**kept, "shown": shown})
    return Reply({"tenant_id": tenant, "id": tenant, "limits": shown})


async def _kept(request: Request, tenant: str) -> dict[str, Any]:
    return dict((await settings(request.service)).get(f"{_NAMES}{tenant}", {}))


async def delete(request: Request) -> Reply:
    """Let a tenant use as much as it wants; its jobs stay."""
    check_unbound(request)
    tenant = _meant(request)
    if not await _kept(request, tenant):
        raise NotFoundError("tenant", tenant)
    await request.service.run(lambda engine: engine.set_tenant_limits(tenant, TenantLimits()))
    await set_setting(request.service, f"{_NAMES}{tenant}", None)
    return Reply({"deleted": True, "tenant_id": tenant})


async def stats(request: Request) -> Reply:
    """Tell how much a tenant has, and how fast it goes."""
    tenant, now = _meant(request), request.now

    def work(engine: Engine) -> tuple[list[list[QueueCounts]], TenantLimits]:
        ended = [engine.ended_since(now - span) for span in (MINUTE, DAY)]
        tallies = [of_tenant(tallies, tenant) for tallies in (engine.tally(), *ended)]
        return tallies, engine.tenant_limits(tenant)

    (tallies, minute, day), limits = await request.service.run(work)
    counts, of_day = counts_of(tallies), counts_of(day)
    used = {
        "max_concurrency": (limits.slots, counts["active"]),
        "max_queue_depth": (limits.waiting, _depth(counts)),
    }
    shown: dict[str, Any] = {
        "tenant_id": tenant,
        "total_jobs": sum(counts.values()),
        "jobs": {**counts, "completed_24h": of_day["completed"], "failed_24h": of_day["discarded"]},
        "queues": {tally.queue: counts_of([tally]) for tally in tallies},
        "throughput": throughput(minute),
        "limits": {
            name: {"limit": most, "current": current}
            for name, (most, current) in used.items()
            if most is not None
        },
    }
    return Reply(shown)


def _depth(counts: dict[str, int]) -> int:
    return counts["available"] + counts["scheduled"] + counts["retryable"]


def _meant(request: Request) -> str:
    """Return the tenant of the path; `NotFoundError` if the request is another tenant's."""
    tenant = check_tenant(request.params["id"], "id")
    if request.tenant not in (None, tenant):
        raise NotFoundError("tenant", tenant)
    return tenant


async def _shown(request: Request, tenant: str, tallies: list[QueueCounts]) -> dict[str, Any]:
    kept = await _kept(request, tenant)
    counts = counts_of(of_tenant(tallies, tenant))
    shown = {"tenant_id": tenant, "id": tenant, "limits": kept.get("shown", {}), "jobs": counts}
    shown["total_jobs"] = sum(counts.values())
    if "at" in kept:
        shown["updated_at"] = written(kept["at"])
    for name in ("name", "reason"):
        if kept.get(name):
            shown[name] = kept[name]
    return shown


_ONE: Final = "/admin/tenants/{id}"
ROUTES = (
    Route("GET", "/admin/tenants", listing, OPERATORS, "List tenants", TenantsAnswer, query=OFFSETS),
    Route("GET", _ONE, info, OPERATORS, "Look at a tenant", TenantShape),
    Route("PUT", _ONE, put, OPERATORS, "Decide what a tenant may use", TenantShape, TenantBody),
    Route("DELETE", _ONE, delete, OPERATORS, "Take a tenant's limits away"),
    Route(
        "PUT",
        f"{_ONE}/limits",
        put_limits,
        OPERATORS,
        "Change what a tenant may use",
        TenantShape,
        LimitsBody,
    ),
    Route("GET", f"{_ONE}/stats", stats, OPERATORS, "How a tenant is going", TenantStats),
)
