"""Maintenance: jobs are taken in, but none is handed out."""

from typing import Annotated, Any

from msgspec import Meta, Struct

from penstock.dialects.ojs.format.names import span, written
from penstock.dialects.ojs.format.patterns import Span
from penstock.http.access import OPERATORS
from penstock.http.routes import Reply, Request, Route
from penstock.http.tenancy import check_unbound
from penstock.job import Maintenance


class MaintenanceBody(Struct):
    """Whether fetches find nothing."""

    enabled: bool
    reason: Annotated[str, Meta(max_length=1_000)] = ""
    estimated_duration: Span | None = None


class MaintenanceAnswer(Struct):
    maintenance: bool
    enabled: bool


async def show(request: Request) -> Reply:
    """Tell whether maintenance is on."""
    return Reply(_shown(await request.service.run(lambda engine: engine.maintenance())))


async def change(request: Request) -> Reply:
    """Begin or end maintenance."""
    check_unbound(request)
    body = request.read(MaintenanceBody)
    now = request.now
    until = None
    if body.estimated_duration is not None:
        until = now + span(body.estimated_duration, "estimated_duration")
    wanted = Maintenance(now, body.reason, until) if body.enabled else None
    await request.service.run(lambda engine: engine.set_maintenance(wanted))
    return Reply(_shown(wanted))


def _shown(since: Maintenance | None) -> dict[str, Any]:
    shown: dict[str, Any] = {"maintenance": since is not None, "enabled": since is not None}
    if since is not None:
        shown |= {"reason": since.reason, "enabled_at": written(since.at)}
        if since.until is not None:
            shown["estimated_end"] = written(since.until)
    return shown


ROUTES = tuple(
    route
    for path in ("/admin/system/maintenance", "/admin/maintenance")
    for route in (
        Route("GET", path, show, OPERATORS, "Is it maintenance?", MaintenanceAnswer),
        Route(
            "POST", path, change, OPERATORS, "Begin or end maintenance", MaintenanceAnswer, MaintenanceBody
        ),
        Route("PUT", path, change, OPERATORS, "Begin or end maintenance", MaintenanceAnswer, MaintenanceBody),
    )
)
