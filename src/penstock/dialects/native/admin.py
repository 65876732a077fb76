"""Gates and queues: look at them, and change their rules."""

from typing import Any

from msgspec.structs import asdict, replace

from penstock.client import verbs, wire
from penstock.dialects.native.endpoint import endpoint
from penstock.dialects.native.tenancy import only_for_all, tenant_in, tenant_or_all
from penstock.http.routes import Request
from penstock.job import AuditEntry, AuditFilter, WorkerView


async def gates(request: Request, body: wire.GatesRequest) -> wire.GatePage:
    """Return a page of gates."""
    page, total = await request.service.run(
        lambda engine: engine.gates(
            prefix=body.prefix, offset=body.offset, limit=body.limit, tenant=request.tenant
        )
    )
    return wire.GatePage(page, total)


async def floating_limits(request: Request, body: wire.FloatingLimitsRequest) -> wire.FloatingPage:
    """Return a page of floating limits."""
    tenant = tenant_or_all(request, body.tenant)
    limits, total = await request.service.run(
        lambda engine: engine.floating_limits(
            tenant=tenant, prefix=body.prefix, offset=body.offset, limit=body.limit
        )
    )
    return wire.FloatingPage(limits, total)


async def queues(request: Request, _: wire.EmptyRequest) -> list[dict[str, Any]]:
    """Return queues."""
    found = await request.service.run(lambda engine: engine.queues())
    return [each for each in found if request.tenant in (None, each["tenant"])]


async def audit(request: Request, body: wire.AuditRequest) -> list[AuditEntry]:
    """Return what was changed, newest first."""
    given = asdict(body)
    before, limit = given.pop("before"), given.pop("limit")
    wanted = AuditFilter(**{**given, "tenant": tenant_or_all(request, body.tenant)})
    return await request.service.run(lambda engine: engine.audit(wanted, before=before, limit=limit))


async def hear(request: Request, body: wire.HearRequest) -> list[str]:
    """Note what workers tell of themselves, and tell what is asked of each.

    Those of a token for one tenant are that tenant's.
    """
    reports = [replace(each, tenant=tenant_in(request, each.tenant)) for each in body.reports]
    return await request.service.run(lambda engine: engine.hear(reports))


async def workers(request: Request, body: wire.WorkersRequest) -> list[WorkerView]:
    """Return workers, those heard from over other protocols included."""
    tenant = tenant_or_all(request, body.tenant)
    return await request.service.run(lambda engine: engine.workers(tenant))


async def configure(request: Request, body: wire.ConfigureRequest) -> None:
    """Set the numbers of a key, a queue or a type."""
    tenant = tenant_in(request, body.tenant)
    if body.scope == "type":
        only_for_all(request, "a type has numbers")
    await request.service.run(
        lambda engine: engine.configure(body.scope, body.name, body.numbers, tenant=tenant)
    )


ROUTES = (
    endpoint(verbs.GATE),
    endpoint(verbs.GATES, gates),
    endpoint(verbs.QUEUES, queues),
    endpoint(verbs.FLOATING),
    endpoint(verbs.FLOATING_LIMITS, floating_limits),
    endpoint(verbs.PAUSE),
    endpoint(verbs.RESUME),
    endpoint(verbs.CONFIGURE, configure),
    endpoint(verbs.OVERRIDE),
    endpoint(verbs.CLEAR_OVERRIDE),
    endpoint(verbs.SHUT),
    endpoint(verbs.SET_FLOATING),
    endpoint(verbs.REFRESH_FLOATING),
    endpoint(verbs.DELETE_FLOATING),
    endpoint(verbs.HEAR, hear),
    endpoint(verbs.WORKERS, workers),
    endpoint(verbs.AUDIT, audit),
    endpoint(verbs.PRUNE, for_all="jobs are pruned"),
    endpoint(verbs.DOCTOR, for_all="the database is examined"),
    endpoint(verbs.ADVICE, for_all="the database is examined"),
)
