"""Gates and queues: look at them, and change their rules."""

from typing import Any

from penstock.client import verbs, wire
from penstock.dialects.native.endpoint import endpoint
from penstock.dialects.native.tenancy import (
    check_own_key,
    engine_queue_of,
    only_for_all,
    own_queue,
    tenant_in,
)
from penstock.http.routes import Request
from penstock.http.tenancy import queue_tenant


async def gates(request: Request, body: wire.GatesRequest) -> wire.GatePage:
    """Return a page of gates."""
    page, total = await request.service.run(
        lambda engine: engine.gates(
            prefix=body.prefix,
            offset=body.offset,
            limit=body.limit,
            tenant=request.tenant,
            without=_hidden(request),
        )
    )
    return wire.GatePage(page, total)


def _hidden(request: Request) -> str:
    """Return how the gates begin that a tenant does not see."""
    return "" if request.tenant is None else "@"


async def queues(request: Request, _: wire.EmptyRequest) -> list[dict[str, Any]]:
    """Return queues."""
    found = await request.service.run(lambda engine: engine.queues())
    if request.tenant is None:
        return found
    own = [each for each in found if queue_tenant(str(each["name"])) == request.tenant]
    return [{**each, "name": own_queue(request, str(each["name"]))} for each in own]


async def configure(request: Request, body: wire.ConfigureRequest) -> None:
    """Set the numbers of a key, a queue or a type."""
    name, tenant = body.name, tenant_in(request, body.tenant)
    check_own_key(request, name)
    if body.scope == "type":
        only_for_all(request, "a type has numbers")
    if body.scope == "queue" and request.tenant is not None:
        # The name of the queue says whose it is.
        name, tenant = engine_queue_of(request, name), ""
    await request.service.run(lambda engine: engine.configure(body.scope, name, body.numbers, tenant=tenant))


ROUTES = (
    endpoint(verbs.GATE),
    endpoint(verbs.GATES, gates),
    endpoint(verbs.QUEUES, queues),
    endpoint(verbs.FLOATING),
    endpoint(verbs.PAUSE),
    endpoint(verbs.RESUME),
    endpoint(verbs.CONFIGURE, configure),
    endpoint(verbs.OVERRIDE),
    endpoint(verbs.CLEAR_OVERRIDE),
    endpoint(verbs.SHUT),
    endpoint(verbs.SET_FLOATING),
    endpoint(verbs.DELETE_FLOATING),
    endpoint(verbs.PRUNE, for_all="jobs are pruned"),
    endpoint(verbs.DOCTOR, for_all="the database is examined"),
    endpoint(verbs.ADVICE, for_all="the database is examined"),
)
