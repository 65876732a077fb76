"""What the server is made of: the dialects' routes around one engine."""

from collections.abc import Iterable, Sequence

from penstock.dialects import native, ojs
from penstock.engine import Engine
from penstock.http import metrics, openapi
from penstock.http.asgi import MOST_BYTES, AsgiApp
from penstock.http.counters import Metrics
from penstock.http.routes import Route
from penstock.http.service import Service
from penstock.http.tokens import Keyring
from penstock.http.visitors import Visitors


def app_for(
    engine: Engine,
    *,
    keyring: Keyring | None = None,
    test_mode: bool = False,
    most_bytes: int = MOST_BYTES,
    loopback: bool = False,
    names: Iterable[str] = (),
    more: Sequence[Route] = (),
) -> AsgiApp:
    """Return the application that serves *engine*, which stays its owner's to close, and *more* routes.

    *loopback* says that only this machine can reach it; *names* are those by which it is known besides this
    machine's own.
    """
    # Those who ask over HTTP may be anywhere, also behind a proxy on this machine.
    engine.far = True
    service = Service(engine, test_mode=test_mode, loopback=loopback)
    ojs.attach(service)
    observed = Metrics(service)
    routes = [*ojs.ROUTES, *native.ROUTES, *metrics.ROUTES, *more]
    if test_mode:
        routes += ojs.TEST_ROUTES
    routes += openapi.routes(routes, secured=keyring is not None and not keyring.is_open)
    return AsgiApp(
        service,
        routes,
        ojs.SOCKETS,
        keyring=keyring,
        visitors=Visitors(names),
        most_bytes=most_bytes,
        close=service.close,
        observe=observed.request,
    )
