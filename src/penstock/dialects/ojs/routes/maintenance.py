"""Maintenance: jobs are taken in, but none is handed out."""

from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from penstock.dialects.ojs.format.names import span, written
from penstock.dialects.ojs.format.patterns import Span
from penstock.dialects.ojs.settings_cache import PREFIX, decide, decided
from penstock.dialects.ojs.tenancy import ForbiddenError
from penstock.http.access import OPERATORS
from penstock.http.routes import Reply, Request, Route
from penstock.http.service import Service

NAME: Final = "maintenance"


class MaintenanceBody(Struct):
    """Whether fetches are to find nothing."""

    enabled: bool
    reason: Annotated[str, Meta(max_length=1_000)] = ""
    estimated_duration: Span | None = None


class MaintenanceAnswer(Struct):
    maintenance: bool
    enabled: bool


async def is_on(service: Service) -> bool:
    """Tell whether nothing is to be handed out."""
    return f"{PREFIX}{NAME}" in await decided(service)


def for_everybody(request: Request) -> None:
    """Raise unless the one who asks may decide for all tenants."""
    if request.access.tenant is not None:
        raise ForbiddenError("this is decided for all tenants, by an operator who belongs to none")


async def show(request: Request) -> Reply:
    """Tell whether maintenance is on."""
    return Reply(_shown((await decided(request.service)).get(f"{PREFIX}{NAME}")))


async def change(request: Request) -> Reply:
    """Begin or end maintenance."""
    for_everybody(request)
    body = request.read(MaintenanceBody)
    now = request.service.engine.clock.now()
    since: dict[str, Any] = {"at": now, "reason": body.reason}
    if body.estimated_duration is not None:
        since["until"] = now + span(body.estimated_duration, "estimated_duration")
    await decide(request.service, NAME, since if body.enabled else None)
    return Reply(_shown(since if body.enabled else None))


def _shown(since: dict[str, Any] | None) -> dict[str, Any]:
    shown: dict[str, Any] = {"maintenance": since is not None, "enabled": since is not None}
    if since is not None:
        shown |= {"reason": since["reason"], "enabled_at": written(since["at"])}
        if "until" in since:
            shown["estimated_end"] = written(since["until"])
    return shown


ROUTES = tuple(
    route
    for path in ("/ojs/v1/admin/system/maintenance", "/ojs/v1/admin/maintenance")
    for route in (
        Route("GET", path, show, OPERATORS, "Is it maintenance?", None, MaintenanceAnswer),
        Route(
            "POST", path, change, OPERATORS, "Begin or end maintenance", MaintenanceBody, MaintenanceAnswer
        ),
        Route("PUT", path, change, OPERATORS, "Begin or end maintenance", MaintenanceBody, MaintenanceAnswer),
    )
)
