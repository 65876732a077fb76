"""Whose is it?  A tenant neither sees nor touches what is another's."""

from collections.abc import Iterable

from penstock.dialects.ojs.format.names import check_tenant
from penstock.errors import NotFoundError, PenstockError
from penstock.http.access import Access
from penstock.http.routes import Request
from penstock.job import JobView, NewJob

HEADER = "x-ojs-tenant"


class ForbiddenError(PenstockError):
    """The token does not allow it."""

    code = "forbidden"


def tenant_of(access: Access, named: str | None) -> str | None:
    """Return for whom a request speaks: its token's tenant, or the one that it names in its header."""
    if named is not None:
        check_tenant(named, "X-OJS-Tenant")
        if access.tenant is not None and named != access.tenant:
            raise ForbiddenError(f"this token speaks for tenant {access.tenant!r} only")
    return access.tenant if access.tenant is not None else named


def check_shared(request: Request, jobs: Iterable[NewJob]) -> None:
    """Raise if jobs of a token that speaks for one tenant would pass gates that all tenants share."""
    if request.access.tenant is not None and any(limit.shared for job in jobs for limit in job.limits):
        raise ForbiddenError(
            "a limit of scope global is shared by all tenants, and this token speaks for one"
        )


async def own(request: Request, job_id: str) -> JobView:
    """Return a job of the one who asks; another's is not there for them."""
    view = await request.service.run(lambda engine: engine.job(job_id))
    if request.tenant is not None and view.tenant != request.tenant:
        raise NotFoundError("job", job_id)
    return view
