"""A token that is bound to a tenant sees its own jobs, queues and gates, by its own names for them."""

from collections import OrderedDict
from collections.abc import Iterable
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import asdict

from penstock.engine import Engine
from penstock.http.errors import ForbiddenError
from penstock.http.routes import Request
from penstock.lifecycle.checks import MAX_NUMBER

REMEMBERED: Final = 100_000


def tenant_in(request: Request, named: str) -> str:
    """Return the tenant whose gate is meant."""
    if request.tenant is None:
        return named
    if named not in {"", request.tenant}:
        raise ForbiddenError(f"this token speaks for tenant {request.tenant!r} only")
    return request.tenant


def tenant_or_all(request: Request, named: str | None) -> str | None:
    """Return the tenant whose jobs are meant; None for those of all."""
    return named if request.tenant is None else tenant_in(request, named or "")


def only_for_all(request: Request, what: str) -> None:
    """Raise if the request is for one tenant only."""
    if request.tenant is not None:
        raise ForbiddenError(f"{what} for all tenants; this token speaks for tenant {request.tenant!r} only")


def own_arguments(request: Request, body: Struct) -> dict[str, Any]:
    """Return the fields of *body* as arguments for the engine; a tenant means its own queues and gates.

    Raises `ForbiddenError` for another tenant's jobs and gates.
    """
    given = asdict(body)
    if request.tenant is None:
        return given
    if "tenant" in given:
        given["tenant"] = tenant_in(request, given["tenant"] or "")
    return given


class Owners:
    """Remembers the tenants of jobs, by number: a job's tenant never changes."""

    def __init__(self) -> None:
        self._known: OrderedDict[int, str] = OrderedDict()

    def note(self, seq: int, tenant: str) -> None:
        """Remember the tenant of a job."""
        self._known[seq] = tenant
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)

    def get(self, seq: int) -> str | None:
        """Return the tenant of a job, if that is known."""
        return self._known.get(seq)


async def own_attempts(request: Request, numbers: Iterable[int]) -> set[int]:
    """Return those of *numbers* that are jobs of the request's tenant."""
    wanted = set(numbers)
    if request.tenant is None:
        return wanted
    owners = request.service.part(Owners)
    unknown = [seq for seq in wanted if 0 <= seq < MAX_NUMBER and owners.get(seq) is None]
    if unknown:
        for seq, tenant in await request.service.run(lambda engine: _owners(engine, unknown)):
            owners.note(seq, tenant)
    return {seq for seq in wanted if owners.get(seq) == request.tenant}


def _owners(engine: Engine, numbers: Iterable[int]) -> list[tuple[int, str]]:
    """Return the tenants of jobs by number; numbers of no job are left out."""
    found = []
    for seq in numbers:
        views = engine.jobs(before=seq + 1, limit=1)
        found += [(view.seq, view.tenant) for view in views if view.seq == seq]
    return found
