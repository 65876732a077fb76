"""Start runs of workflows, look at them, signal them, and move them on."""

from msgspec.structs import asdict, replace

from penstock.client import verbs, wire
from penstock.dialects.native.endpoint import endpoint
from penstock.dialects.native.json_checks import check_instance, check_value
from penstock.dialects.native.tenancy import tenant_in, tenant_or_all
from penstock.http.routes import Request
from penstock.http.tenancy import check_shared
from penstock.job import CreatedInstance, NewInstance, NewJob
from penstock.lifecycle.checks import MAX_NUMBER, check_whole


async def create_instances(request: Request, body: wire.CreateInstancesRequest) -> list[CreatedInstance]:
    """Start workflows, all or none."""
    new = [_new(request, each) for each in body.new]
    check_shared(request, [NewJob(each.workflow, limits=each.limits) for each in new])
    return await request.service.run(lambda engine: engine.create_instances(new))


async def instances(request: Request, body: wire.InstancesRequest) -> wire.InstancePage:
    """Return a page of instances."""
    wanted = {**asdict(body), "tenant": tenant_or_all(request, body.tenant)}
    found, total = await request.service.run(lambda engine: engine.instances(**wanted))
    return wire.InstancePage(found, total)


async def signal(request: Request, body: wire.SignalRequest) -> str:
    """Send a signal."""
    check_value("payload", body.payload)
    wanted = {**asdict(body), "tenant": tenant_or_all(request, body.tenant)}
    return await request.service.run(lambda engine: engine.signal(**wanted))


def _new(request: Request, new: NewInstance) -> NewInstance:
    check_instance(new)
    for name in ("due", "expires"):
        value = getattr(new, name)
        if value is not None:
            check_whole(name, value, 0, MAX_NUMBER)
    return new if request.tenant is None else replace(new, tenant=tenant_in(request, new.tenant))


ROUTES = (
    endpoint(verbs.CREATE_INSTANCES, create_instances),
    endpoint(verbs.INSTANCE),
    endpoint(verbs.INSTANCES, instances),
    endpoint(verbs.MEMO),
    endpoint(verbs.TIMERS),
    endpoint(verbs.SIGNAL, signal),
    endpoint(verbs.CANCEL_INSTANCE),
    endpoint(verbs.PAUSE_INSTANCE),
    endpoint(verbs.RESUME_INSTANCE),
    endpoint(verbs.RETRY_INSTANCE),
)
