"""Put the server together: one engine, and the dialects it is served in."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from penstock.engine import Engine
from penstock.http import metrics, openapi
from penstock.http.asgi import MOST_BYTES, AsgiApp, Site
from penstock.http.counters import Metrics
from penstock.http.cross_site import Visitors
from penstock.http.dialect import Dialect
from penstock.http.engine_service import EngineService
from penstock.http.routes import Route
from penstock.http.tokens import Keyring
from penstock.http.worker_reports import WorkerReports


def app_for(
    engine: Engine,
    dialects: Sequence[Dialect],
    *,
    keyring: Keyring | None = None,
    test_mode: bool = False,
    most_bytes: int = MOST_BYTES,
    loopback: bool = False,
    names: Iterable[str] = (),
    more: Sequence[Route] = (),
    site: Callable[[Keyring, Visitors], Site] | None = None,
) -> AsgiApp:
    """Return the application that serves *engine*, which stays its owner's to close, and *more* routes.

    What *site* makes answers where no dialect does, to the same tokens and names.
    *loopback* says that only this machine can reach it; *names* are those by which it is known besides this
    machine's own.
    """
    # Clients may be anywhere, also behind a proxy on this machine.
    engine.far = True
    service = EngineService(engine, test_mode=test_mode, loopback=loopback)
    reports = WorkerReports(service)
    service.at_start.append(reports.begin)
    service.at_end.append(reports.end)
    for dialect in dialects:
        dialect.attach(service)
    observed = Metrics(service)
    offered = [_offered(dialect, test_mode=test_mode) for dialect in dialects]
    keyring = keyring or Keyring()
    visitors = Visitors(names)
    own = Dialect("server", "", ("",), tuple(more), tag="server")  # what belongs to no protocol
    return AsgiApp(
        service,
        openapi.documented([*offered, own], secured=not keyring.is_open),
        keyring=keyring,
        visitors=visitors,
        most_bytes=most_bytes,
        close=service.close,
        observe=observed.request,
        site=None if site is None else site(keyring, visitors),
    )


def _offered(dialect: Dialect, *, test_mode: bool) -> Dialect:
    """Return a dialect with all its routes."""
    routes = [*dialect.routes, *(dialect.test_routes if test_mode else ())]
    if dialect.metrics is not None:
        routes.append(metrics.route(dialect.metrics))
    return replace(dialect, routes=tuple(routes))
