"""Create instances and look at them."""

from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from penstock.dialects.orch8.format.instance import STATUS, InstanceShape, outputs, shown, timeline
from penstock.dialects.orch8.format.new_instance import InstanceBody, SequenceFinder, new_instance
from penstock.dialects.orch8.format.values import PAGE, page_of, tenant_of
from penstock.engine import Engine
from penstock.errors import InvalidError
from penstock.http.access import JOBS, PRODUCERS
from penstock.http.routes import Reply, Request, Route
from penstock.job import CreatedInstance, InstanceState, InstanceView

MOST: Final = 10_000  # instances of one batch
_STATES: Final = {
    **{name: (state,) for state, name in STATUS.items()},
    "scheduled": (InstanceState.SCHEDULED, InstanceState.DEFERRED),
    "cancelled": (InstanceState.CANCELLED, InstanceState.DISCARDED, InstanceState.EXPIRED),
    "waiting": (),  # the reference's word for a running instance that waits; here it is running
}


class BatchBody(Struct, forbid_unknown_fields=True):
    """Instances to create, all or none."""

    instances: Annotated[list[InstanceBody], Meta(max_length=MOST)]


class BatchShape(Struct):
    count: int
    created: int
    deduplicated: int
    ids: list[str]


class InstancesShape(Struct):
    items: list[InstanceShape]
    total: int
    has_more: bool


async def create(request: Request) -> Reply:
    """Create an instance; 201 also if an earlier one stands for its idempotency key."""
    body = request.read(InstanceBody)

    def work(engine: Engine) -> tuple[CreatedInstance, InstanceView]:
        new = new_instance(request, SequenceFinder(engine), body)
        (created,) = engine.create_instances([new])
        return created, engine.instance(created.id, new.tenant)

    created, view = await request.service.run(work)
    answer = shown(view, deduplicated=created.reused)
    return Reply(answer, 201, {"Location": f"/instances/{created.id}"})


async def create_batch(request: Request) -> Reply:
    """Create many instances in one transaction; those of one idempotency key are one instance."""
    body = request.read(BatchBody)

    def work(engine: Engine) -> list[CreatedInstance]:
        finder = SequenceFinder(engine)
        new = [
            new_instance(request, finder, each, f"instances[{n}].") for n, each in enumerate(body.instances)
        ]
        return engine.create_instances(new)

    created = await request.service.run(work)
    again = sum(each.reused for each in created)
    answer = BatchShape(len(created), len(created) - again, again, [each.id for each in created])
    return Reply(answer, 201 if created else 200)


async def look(request: Request) -> Reply:
    """Return one instance."""
    return Reply(shown(await instance_of(request)))


async def listing(request: Request) -> Reply:
    """Return a page of instances, newest first."""
    views, total, offset = await _page(request, _states(request))
    items = [shown(view) for view in views]
    return Reply({"items": items, "total": total, "has_more": offset + len(items) < total})


async def dead_letters(request: Request) -> Reply:
    """Return a page of instances that failed, newest first."""
    views, _, _ = await _page(request, (InstanceState.FAILED,))
    return Reply([shown(view) for view in views])


async def show_outputs(request: Request) -> Reply:
    """Return what the steps of an instance came to."""
    return Reply(outputs(await instance_of(request)))


async def show_timeline(request: Request) -> Reply:
    """Return when the steps of an instance began and ended, and how."""
    view = await instance_of(request)
    return Reply({"instance_id": view.id, "items": timeline(view)})


async def instance_of(request: Request) -> InstanceView:
    """Return the instance of the path."""
    id_, tenant = request.params["id"], tenant_of(request)
    return await request.service.run(lambda engine: engine.instance(id_, tenant))


async def _page(
    request: Request, states: tuple[InstanceState, ...] | None
) -> tuple[list[InstanceView], int, int]:
    tenant, (offset, limit), query = tenant_of(request), page_of(request), request.query
    for name in query:
        if name not in _QUERY:
            raise InvalidError(name, f"is no filter; {', '.join(_QUERY)} are")
    views, total = await request.service.run(
        lambda engine: engine.instances(
            tenant, offset, limit, workflow=query.get("sequence_name"), state=states,
            sequence=query.get("sequence_id"), namespace=query.get("namespace"),
        )
    )  # fmt: skip
    return views, total, offset


def _states(request: Request) -> tuple[InstanceState, ...] | None:
    text = request.query.get("state", request.query.get("status"))
    if not text:
        return None
    for name in text.split(","):
        if name not in _STATES:
            raise InvalidError("state", f"{name[:40]!r} must be one of: {', '.join(_STATES)}")
    return tuple(state for name in text.split(",") for state in _STATES[name])


_QUERY: Final = (*PAGE, "namespace", "sequence_id", "sequence_name", "state", "status")
_ONE: Final = "/instances/{id}"
_TENANT: Final = ("tenant_id",)
ROUTES: Final = (
    Route("POST", "/instances", create, PRODUCERS, "Create an instance", InstanceShape, InstanceBody, 201),
    Route("GET", "/instances", listing, JOBS, "List instances", InstancesShape, query=_QUERY),
    Route(
        "POST", "/instances/batch", create_batch, PRODUCERS, "Create many instances", BatchShape, BatchBody, 201
    ),
    Route("GET", "/instances/dlq", dead_letters, JOBS, "List instances that failed", list[InstanceShape],
          query=_QUERY),
    Route("GET", _ONE, look, JOBS, "Look at an instance", InstanceShape, query=_TENANT),
    Route("GET", f"{_ONE}/outputs", show_outputs, JOBS, "What its steps came to", list[dict[str, Any]],
          query=_TENANT),
    Route("GET", f"{_ONE}/timeline", show_timeline, JOBS, "When its steps began and ended", dict[str, Any],
          query=_TENANT),
)  # fmt: skip
