"""What a protocol brings to the server: each in `dialects/served.py` has one such record, called `DIALECT`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from msgspec import Struct

from penstock.errors import PenstockError
from penstock.http.engine_service import EngineService
from penstock.http.errors import RefusedError, status_of
from penstock.http.routes import Reply, Route
from penstock.http.sockets import SocketRoute
from penstock.http.tenancy import check_tenant

JSON: Final = "application/json"


class PlainProblem(Struct):
    code: str
    message: str


class PlainError(Struct):
    """What went wrong, at a path of no protocol."""

    error: PlainProblem


def plain_error(error: PenstockError, _: str) -> Reply:
    """Return *error* as it is written at paths of no protocol."""
    code, headers = (error.reason, error.headers) if isinstance(error, RefusedError) else (error.code, {})
    return Reply(PlainError(PlainProblem(code, str(error))), status_of(error), headers, JSON)


@dataclass(frozen=True, slots=True)
class MetricNames:
    """How a protocol names what the server counts, and the *path* at which it shows that."""

    path: str
    prefix: str
    task: str = "task"  # the label for the type of a job
    limit: str = "gate"  # the part of a name that stands for a limit
    rule: str = "rule"  # the label for what of a limit refused
    workflow: str = ""  # the label for the workflow of an instance; a protocol without one shows no instances
    states: Mapping[str, str] = field(default_factory=dict)  # other words for waiting, running, scheduled
    rules: Mapping[str, str] = field(default_factory=dict)  # other words for slots, rate, throttle, shut


@dataclass(frozen=True, slots=True)
class Dialect:
    """One protocol: its routes, and how it writes what every answer has.

    Every path that begins with one of *paths* is the dialect's, also where it has no route: its errors are
    written by *error*, and its answers have *media* and *headers*.
    """

    name: str
    title: str
    paths: tuple[str, ...]
    routes: tuple[Route, ...]
    error: Callable[[PenstockError, str], Reply] = plain_error  # takes the error and the request's id
    error_shape: Any = PlainError
    media: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)
    tenant_header: str = "X-Penstock-Tenant"
    read_tenant: Callable[[str, str], str] = check_tenant  # takes what the header says, and the header's name
    sockets: tuple[SocketRoute, ...] = ()
    test_routes: tuple[Route, ...] = ()  # offered in test mode only
    metrics: MetricNames | None = None
    # For the OpenAPI page: the schemas of what may stand in a path and in a query.
    path_schema: Callable[[str, str], dict[str, Any]] = lambda _name, _path: {"type": "string"}
    query_schemas: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    tag: str = ""  # one heading for all its routes; else they are told apart by their paths
    # The page of the monitor that shows what is at a path, for a browser that asks there.
    pages: Mapping[str, str] = field(default_factory=dict)
    attach: Callable[[EngineService], object] = lambda _: None  # starts what goes on without requests
