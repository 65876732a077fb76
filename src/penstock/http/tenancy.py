"""Whose is it?  A tenant neither sees nor touches what is another's."""

import re
from collections.abc import Iterable
from typing import Final, Protocol
from urllib.parse import unquote

from penstock.errors import InvalidError
from penstock.http.access import Access
from penstock.http.errors import ForbiddenError
from penstock.http.routes import Request
from penstock.job import JobView, NewJob
from penstock.limits.rules import Limit
from penstock.names import name_problem

PATTERN: Final = "[a-zA-Z0-9][a-zA-Z0-9._:-]*"
LONGEST: Final = 100  # characters
_NAME: Final = re.compile(PATTERN)
_SHOWN: Final = 60  # characters of a name that is wrong


class Caller(Protocol):
    """A request, in any protocol, whose token is known."""

    @property
    def access(self) -> Access: ...


def check_tenant(name: object, field: str = "tenant") -> str:
    """Return *name* if it can name a tenant."""
    if not isinstance(name, str) or len(name) > LONGEST or not _NAME.fullmatch(name):
        shown = repr(name) if len(repr(name)) <= _SHOWN else repr(name)[:_SHOWN] + "…"
        how = "letters, digits and . _ : - and begin with a letter or digit"
        raise InvalidError(field, f"{shown} must be {how}, and at most {LONGEST} characters")
    return name


def unquoted_tenant(text: str, field: str = "tenant") -> str:
    """Return the tenant that *text* names: any text, percent-encoded where a header or a file cannot hold it."""
    try:
        name = unquote(text.encode("ascii").decode(), errors="strict")
    except UnicodeError:
        raise InvalidError(
            field, f"{text[:_SHOWN]!r} must be ASCII, or UTF-8 that is percent-encoded"
        ) from None
    if (problem := name_problem(name)) is not None:
        raise InvalidError(field, problem)
    return name


def tenant_of(access: Access, named: str | None) -> str | None:
    """Return the tenant of a request: its token's, or the one that it names."""
    if named is not None and access.tenant is not None and named != access.tenant:
        raise ForbiddenError(f"this token speaks for tenant {access.tenant!r} only")
    return access.tenant if access.tenant is not None else named


def check_unbound(caller: Caller) -> None:
    """Raise if the token is bound to a tenant: what it asks for concerns all of them."""
    if caller.access.tenant is not None:
        raise ForbiddenError("this is decided for all tenants, with a token that is bound to none")


def check_shared(caller: Caller, jobs: Iterable[NewJob]) -> None:
    """Raise if jobs of a token that is bound to a tenant would pass gates that all tenants share."""
    check_own(caller.access.tenant, (limit for job in jobs for limit in job.limits))


def check_own(tenant: str | None, limits: Iterable[Limit]) -> None:
    """Raise if one who is bound to a *tenant* would add a job with these limits to a gate that all tenants share."""
    if tenant is not None and any(limit.shared for limit in limits):
        raise ForbiddenError(
            "a limit of scope global is shared by all tenants, and this token speaks for one"
        )


async def own(request: Request, job_id: str) -> JobView:
    """Return the job of the request's tenant that has this id; `NotFoundError` if it has none."""
    return await request.service.run(lambda engine: engine.job(job_id, request.tenant))
