"""Gates and queues: look at them, and change their rules."""

from typing import Any

from penstock.client import wire
from penstock.dialects.native.endpoint import verb
from penstock.dialects.native.tenancy import (
    check_own_key,
    engine_queue_of,
    only_for_all,
    own_queue,
    tenant_in,
)
from penstock.dialects.ojs.format.names import queue_tenant
from penstock.http.access import JOBS, OPERATORS
from penstock.http.routes import Request
from penstock.job import FloatingView, GateView


async def gate(request: Request, body: wire.GateBody) -> GateView:
    """Return one gate."""
    tenant = tenant_in(request, body.tenant)
    return await request.service.run(lambda engine: engine.gate(body.key, tenant))


async def gates(request: Request, body: wire.GatesBody) -> wire.GatePage:
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


async def queues(request: Request, _: wire.EmptyBody) -> list[dict[str, Any]]:
    """Return queues."""
    found = await request.service.run(lambda engine: engine.queues())
    if request.tenant is None:
        return found
    own = [each for each in found if queue_tenant(str(each["name"])) == request.tenant]
    return [{**each, "name": own_queue(request, str(each["name"]))} for each in own]


async def pause(request: Request, body: wire.QueueBody) -> None:
    """Let nothing start from a queue."""
    queue = engine_queue_of(request, body.queue)
    await request.service.run(lambda engine: engine.pause(queue))


async def resume(request: Request, body: wire.QueueBody) -> None:
    """Let jobs start from a queue again."""
    queue = engine_queue_of(request, body.queue)
    await request.service.run(lambda engine: engine.resume(queue))


async def configure(request: Request, body: wire.ConfigureBody) -> None:
    """Set the numbers of a key, a queue or a type."""
    name, tenant = body.name, tenant_in(request, body.tenant)
    check_own_key(request, name)
    if body.scope == "type":
        only_for_all(request, "a type has numbers")
    if body.scope == "queue" and request.tenant is not None:
        # The name of the queue says whose it is.
        name, tenant = engine_queue_of(request, name), ""
    await request.service.run(lambda engine: engine.configure(body.scope, name, body.numbers, tenant=tenant))


async def override(request: Request, body: wire.OverrideBody) -> None:
    """Let other numbers rule a key."""
    check_own_key(request, body.key)
    tenant = tenant_in(request, body.tenant)
    await request.service.run(
        lambda engine: engine.override(body.key, body.numbers, until=body.until, tenant=tenant)
    )


async def clear_override(request: Request, body: wire.GateBody) -> None:
    """End an override."""
    check_own_key(request, body.key)
    tenant = tenant_in(request, body.tenant)
    await request.service.run(lambda engine: engine.clear_override(body.key, tenant=tenant))


async def shut(request: Request, body: wire.ShutBody) -> None:
    """Let nothing through a gate for a while."""
    check_own_key(request, body.key)
    tenant = tenant_in(request, body.tenant)
    await request.service.run(
        lambda engine: engine.shut(body.key, body.until, tenant=tenant, reason=body.reason)
    )


async def floating(request: Request, body: wire.GateBody) -> FloatingView:
    """Return the floating limit of a key."""
    tenant = tenant_in(request, body.tenant)
    return await request.service.run(lambda engine: engine.floating(body.key, tenant))


async def set_floating(request: Request, body: wire.SetFloatingBody) -> None:
    """Change a floating limit."""
    tenant = tenant_in(request, body.tenant)
    await request.service.run(
        lambda engine: engine.set_floating(
            body.key, value=body.value, every=body.every, metadata=body.metadata, tenant=tenant
        )
    )


async def delete_floating(request: Request, body: wire.GateBody) -> None:
    """Let a key float no longer."""
    tenant = tenant_in(request, body.tenant)
    await request.service.run(lambda engine: engine.delete_floating(body.key, tenant=tenant))


async def prune(request: Request, body: wire.PruneBody) -> int:
    """Delete jobs that ended long ago."""
    only_for_all(request, "jobs are pruned")
    return await request.service.run(lambda engine: engine.prune(body.older_than, body.most))


async def doctor(request: Request, _: wire.EmptyBody) -> list[str]:
    """Return what is not as it should be."""
    only_for_all(request, "the database is examined")
    return await request.service.run(lambda engine: engine.doctor())


async def advice(request: Request, _: wire.EmptyBody) -> list[str]:
    """Return what somebody should look after."""
    only_for_all(request, "the database is examined")
    return await request.service.run(lambda engine: engine.advice())


ROUTES = (
    verb("gate", wire.GateBody, gate, JOBS, "Look at a gate", GateView),
    verb("gates", wire.GatesBody, gates, JOBS, "Look at gates", wire.GatePage),
    verb("queues", wire.EmptyBody, queues, JOBS, "Look at queues", list[dict[str, Any]]),
    verb("pause", wire.QueueBody, pause, OPERATORS, "Pause a queue"),
    verb("resume", wire.QueueBody, resume, OPERATORS, "Resume a queue"),
    verb("configure", wire.ConfigureBody, configure, OPERATORS, "Set numbers for a key, a queue or a type"),
    verb("override", wire.OverrideBody, override, OPERATORS, "Override the numbers of a key"),
    verb("clear_override", wire.GateBody, clear_override, OPERATORS, "End an override"),
    verb("shut", wire.ShutBody, shut, OPERATORS, "Shut a gate for a while"),
    verb("floating", wire.GateBody, floating, JOBS, "Look at a floating limit", FloatingView),
    verb("set_floating", wire.SetFloatingBody, set_floating, OPERATORS, "Change a floating limit"),
    verb("delete_floating", wire.GateBody, delete_floating, OPERATORS, "Let a key float no longer"),
    verb("prune", wire.PruneBody, prune, OPERATORS, "Forget jobs that ended long ago", int),
    verb("doctor", wire.EmptyBody, doctor, OPERATORS, "Examine the database", list[str]),
    verb("advice", wire.EmptyBody, advice, OPERATORS, "Ask what the database needs", list[str]),
)
