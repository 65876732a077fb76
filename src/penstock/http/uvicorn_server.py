"""Run the server on uvicorn: one process, until it is asked to stop."""

import asyncio
import logging
import signal
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Final, Protocol

import uvicorn

from penstock.engine import Engine
from penstock.errors import InvalidError, StoreBrokenError
from penstock.http.addresses import is_loopback
from penstock.http.app import app_for
from penstock.http.asgi import AsgiApp, Site
from penstock.http.cross_site import Visitors
from penstock.http.dialect import Dialect
from penstock.http.engine_service import EngineService
from penstock.http.tokens import Keyring
from penstock.worker.upkeep import Upkeep

GOODBYE: Final = 0.1  # seconds in which readers of events hear that it ends
GRACE: Final = 10  # seconds for requests that are under way when the server is asked to stop

UPKEEP_EVERY: Final = 0.3  # seconds: about so soon a lease that ran out or a moment that came shows
UPKEEP_ENDS: Final = 5.0  # seconds for upkeep that is under way when the server stops

log = logging.getLogger("penstock.server")


@dataclass(frozen=True, slots=True)
class Settings:
    """How to serve."""

    host: str = "127.0.0.1"
    port: int = 8080
    test_mode: bool = False
    insecure: bool = False
    keep: int | None = None
    most_bytes: int = 10 * 1024 * 1024
    names: tuple[str, ...] = ()
    proxies: tuple[str, ...] = ()  # that say truly for whom they ask


class Beside(Protocol):
    """A server in another protocol, on the loop of the HTTP server."""

    async def start(self) -> None:
        """Listen; raise `InvalidError` if that cannot be."""

    async def stop(self, grace: float) -> None:
        """Take no more calls, and let those that are under way end within so many seconds."""


def serve(
    engine: Engine,
    dialects: Sequence[Dialect],
    keyring: Keyring,
    settings: Settings,
    ready: Callable[[str], None],
    beside: Callable[[EngineService], Beside] | None = None,
    site: Callable[[Keyring, Visitors], Site] | None = None,
) -> None:
    """Serve until a signal comes; *ready* is called with the address once it answers.

    What *site* makes answers where no dialect does.
    What *beside* makes serves the same engine in another protocol, on the same loop.
    Raises `StoreBrokenError` when the store's file was removed, replaced or damaged.
    """
    check_open(settings, keyring)
    app = app_for(
        engine,
        dialects,
        keyring=keyring,
        test_mode=settings.test_mode,
        most_bytes=settings.most_bytes,
        loopback=is_loopback(settings.host),
        names=(settings.host, *settings.names),
        site=site,
    )
    server = Server(app, settings, ready, app.drain, None if beside is None else beside(app.service))
    upkeep = Upkeep(engine, settings.keep, UPKEEP_EVERY, log).thread
    upkeep.broken = server.give_up
    upkeep.start()
    try:
        server.run(sockets=[listening(settings)])
    finally:
        upkeep.stop()
        upkeep.join(UPKEEP_ENDS)
    if server.trouble is not None:
        raise server.trouble


class Server(uvicorn.Server):
    """Serves one application; *drain* ends what only waits, before it stops."""

    def __init__(
        self,
        app: AsgiApp | Site,
        settings: Settings,
        ready: Callable[[str], None],
        drain: Callable[[], None],
        beside: Beside | None = None,
    ) -> None:
        config = uvicorn.Config(
            app,
            host=settings.host,
            port=settings.port,
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            timeout_graceful_shutdown=GRACE,
            timeout_keep_alive=75,
            ws_max_size=1024 * 1024,
            proxy_headers=bool(settings.proxies),
            forwarded_allow_ips=list(settings.proxies),
            lifespan="on",
        )
        logging.getLogger("uvicorn").setLevel(logging.WARNING)
        super().__init__(config)
        self._ready = ready
        self._drain = drain
        self._beside = beside
        self.trouble: StoreBrokenError | InvalidError | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started and self._beside is not None:
            try:
                await self._beside.start()
            except InvalidError as error:
                self.trouble = error
                self.should_exit = True
                return
        if self.started and sockets:
            host, port = sockets[0].getsockname()[:2]
            self._ready(f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}")

    def give_up(self, error: StoreBrokenError) -> None:
        """Stop because the store is broken.  Called by any thread."""
        log.error("the server stops: %s", error)
        self.trouble = error
        self.should_exit = True

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # uvicorn raises what it caught again once it has stopped. After an orderly stop the status is 0;
        # a second Ctrl-C cuts off requests, and the status tells so.
        if self.should_exit and sig == signal.SIGINT:
            super().handle_exit(sig, frame)
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # Requests that only wait would keep it from ending.
        self._drain()
        await asyncio.sleep(GOODBYE)
        if self._beside is not None:
            await self._beside.stop(GRACE)
        await super().shutdown(sockets)


def check_open(settings: Settings, keyring: Keyring) -> None:
    """Raise if the whole network could do everything."""
    if keyring.is_open and not settings.insecure and not is_loopback(settings.host):
        raise InvalidError(
            "host",
            f"{settings.host} can be reached from elsewhere and no token is set; give --token or --token-file, "
            "or say --insecure to let every request in",
        )


def listening(settings: Settings) -> socket.socket:
    """Return a socket at which the server will answer."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((settings.host, settings.port))
    except OSError as error:
        sock.close()
        raise InvalidError(
            "port", f"cannot listen at {settings.host}:{settings.port}: {error.strerror or error}"
        ) from None
    sock.listen(2048)
    sock.setblocking(False)  # noqa: FBT003
    return sock
