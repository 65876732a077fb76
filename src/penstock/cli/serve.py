"""`penstock serve`: jobs over HTTP, for clients and workers in any language."""

import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer.core import TyperCommand

from penstock.cli.options import (
    LogFormat,
    LogFormatOption,
    LogLevel,
    StoreOption,
    flag,
    log_to_stderr,
    named,
    option,
    read_time,
    shown,
)
from penstock.errors import InvalidError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.http.cross_site import Visitors
    from penstock.http.engine_service import EngineService
    from penstock.http.tokens import Keyring
    from penstock.http.uvicorn_server import Beside, Settings

TOKEN: Final = "PENSTOCK_TOKEN"  # noqa: S105 - where it is, not what it is
SILO_PORT: Final = 7450
_KEEP: Final = "7d"


class ServeCommand(TyperCommand):
    """The command `serve`, one of whose options may have a value."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - typer does not name it
        """Read the arguments; `--silo` alone means its usual port."""
        given = list(args)
        for place in [place for place, word in enumerate(given) if word == "--silo"][::-1]:
            if not given[place + 1 : place + 2] or given[place + 1].startswith("-"):
                given.insert(place + 1, str(SILO_PORT))
        return super().parse_args(ctx, given)


def serve(
    *,
    store: StoreOption = "",
    host: Annotated[str, option("ADDRESS", "Where to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="The port; 0 takes a free one.")] = 8080,
    token: Annotated[
        list[str] | None,
        option(
            "TOKEN",
            "Let in only requests with `Authorization: Bearer TOKEN`; repeatable.  Other users can see the "
            f"arguments of a process: ${TOKEN} or --token-file keep it to yourself.",
            default=False,
        ),
    ] = None,
    token_file: Annotated[
        Path | None,
        option(
            "FILE",
            "Tokens, one on each line: `TOKEN roles=viewer,producer,worker,operator tenant=NAME name=NAME`.",
            default=False,
        ),
    ] = None,
    insecure: Annotated[bool, flag("--insecure", "Listen beyond this machine without any token.")] = False,
    allow_host: Annotated[
        list[str] | None,
        option(
            "NAME",
            "Without a token: answer to requests for this name too, as a proxy or a container sends them; "
            "repeatable.  Others must be for localhost or for the address they arrive at, so that no web page "
            "can operate the server.",
            default=False,
        ),
    ] = None,
    trusted_proxy: Annotated[
        list[str] | None,
        option(
            "ADDRESS",
            "Believe the proxy at this address, or of this network, for whom it asks (X-Forwarded-For) and whether "
            "over TLS (X-Forwarded-Proto); repeatable.  Without it these headers are ignored.",
            default=False,
        ),
    ] = None,
    keep: Annotated[
        str, option("TIME", "How long ended jobs can be looked at; `forever` is a time too.")
    ] = _KEEP,
    most_megabytes: Annotated[
        int,
        typer.Option("--max-body", metavar="MB", min=1, max=1024, help="The longest request that is taken."),
    ] = 10,
    test_mode: Annotated[
        bool,
        flag(
            "--test-mode",
            "Offer POST /ojs/v1/admin/reset and ResetShards, which empty everything; heed the spec's test directives.",
        ),
    ] = False,
    silo: Annotated[
        int | None,
        typer.Option(
            "--silo",
            metavar="[PORT]",
            min=0,
            max=65_535,
            show_default=False,
            help=f"Serve clients and workers of Silo over gRPC too, at this port or {SILO_PORT}; 0 takes a free one.",
        ),
    ] = None,
    silo_advertise: Annotated[
        str,
        option(
            "HOST:PORT",
            "The address at which Silo's clients reach this server; they keep no other.",
            "where it listens",
        ),
    ] = "",
    tls_cert: Annotated[
        Path | None,
        option("FILE", "Serve Silo's clients over TLS, with this certificate (PEM).", default=False),
    ] = None,
    tls_key: Annotated[
        Path | None, option("FILE", "The key of that certificate (PEM).", default=False)
    ] = None,
    log_level: Annotated[
        LogLevel, typer.Option(help="How much to tell; info tells of each request.")
    ] = LogLevel.WARNING,
    log_format: LogFormatOption = LogFormat.TEXT,
) -> None:
    """Offer the jobs of a store over HTTP, by the Open Job Spec.

    Ctrl-C or SIGTERM lets requests that are under way finish first; the exit status is then 0.
    """
    from contextlib import closing

    try:
        from penstock.dialects.served import SERVED
        from penstock.http.addresses import proxy_address
        from penstock.http.cross_site import host_name
        from penstock.http.uvicorn_server import Settings, check_open
        from penstock.http.uvicorn_server import serve as run
        from penstock.monitor import Monitor
    except ImportError as error:
        raise InvalidError(
            "serve", f"needs more packages: pip install 'penstock[server]' ({error})"
        ) from None
    from penstock.engine import open_engine

    settings = Settings(
        host, port, test_mode, insecure, read_time("keep", keep), most_megabytes * 1024 * 1024,
        tuple(map(host_name, allow_host or [])), tuple(map(proxy_address, trusted_proxy or [])),
    )  # fmt: skip
    keyring = _keyring(token or [], token_file)
    check_open(settings, keyring)
    beside = _beside(silo, silo_advertise, tls_cert, tls_key, host, keyring)
    log_to_stderr(log_level, log_format)
    with closing(open_engine(store)) as engine:

        def site(keys: "Keyring", visitors: "Visitors") -> Monitor:
            return Monitor(engine, keyring=keys, visitors=visitors, operate=True, store=named(store))

        run(engine, SERVED, keyring, settings, lambda url: _say(url, store, keyring, settings), beside, site)


def _beside(
    port: int | None, advertise: str, cert: Path | None, key: Path | None, host: str, keyring: "Keyring"
) -> "Callable[[EngineService], Beside] | None":
    """Return what makes the server for Silo's clients, if one is wanted."""
    if port is None:
        for name, value in (("--silo-advertise", advertise), ("--tls-cert", cert), ("--tls-key", key)):
            if value:
                raise InvalidError(name, "is for clients of Silo; give --silo too")
        return None
    try:
        from penstock.dialects.silo.server import SiloServer, SiloSettings
    except ImportError as error:
        raise InvalidError("--silo", f"needs more packages: pip install 'penstock[silo]' ({error})") from None
    settings = SiloSettings(host, port, advertise, cert, key)
    settings.check()

    def say(address: str) -> None:
        print(f"penstock serves Silo's clients at {address}", file=sys.stderr, flush=True)

    return lambda service: SiloServer(service, keyring, settings, say)


def _keyring(tokens: list[str], file: Path | None) -> "Keyring":
    from penstock.http.access import Access, Role
    from penstock.http.tokens import Keyring

    keyring = Keyring()
    kept = os.environ.get(TOKEN)
    for n, token in enumerate([*tokens, *([kept] if kept else [])], 1):
        keyring.add(token, Access(f"token {n}", frozenset(Role)))
    if file is not None:
        keyring.read(file)
        if keyring.is_open:
            raise InvalidError("--token-file", f"{file} holds no token")
    return keyring


def _say(url: str, store: str, keyring: "Keyring", settings: "Settings") -> None:
    print(f"penstock serves {shown(store)} at {url}", file=sys.stderr, flush=True)
    if settings.insecure and keyring.is_open:
        names = ", ".join(("localhost", "the address they arrive at", *settings.names))
        told = f"no token: every request for {names} is let in; --allow-host adds a name"
        print(told, file=sys.stderr, flush=True)
    if settings.test_mode:
        print("test mode: every operator can empty the store", file=sys.stderr, flush=True)
    logging.getLogger("penstock.server").info("serving at %s", url)
