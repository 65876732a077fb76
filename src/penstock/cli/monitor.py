"""`penstock monitor`: look at a store in a browser."""

import sys
from typing import TYPE_CHECKING, Annotated, Final

import typer

from penstock.cli.options import (
    DEFAULT_STORE,
    LogFormat,
    LogLevel,
    file_of,
    flag,
    log_to_stderr,
    named,
    shown,
)
from penstock.errors import InvalidError, StoreDownError

if TYPE_CHECKING:
    from penstock.engine import Engine

_PORT: Final = 8088


def monitor(
    ctx: typer.Context,
    store: Annotated[
        str,
        typer.Argument(
            metavar="[STORE]",
            help="The database: a file, sqlite:///FILE or postgresql://HOST/DATABASE.",
            show_default=f"$PENSTOCK_URL or {DEFAULT_STORE}",
        ),
    ] = "",
    *,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="The port; 0 takes a free one.")] = _PORT,
    operate: Annotated[bool, flag("--operate", "Let its pages change things too.")] = False,
) -> None:
    """Show every gate, every line and every job of a store, in a browser on this machine.

    A store that cannot be read, or is of another version, is tried again with every page.  Ctrl-C ends it.
    """
    try:
        from penstock.http.uvicorn_server import Server, Settings, listening
        from penstock.monitor import Monitor
    except ImportError as error:
        raise InvalidError(
            "monitor", f"needs more packages: pip install 'penstock[server]' ({error})"
        ) from None

    address = store or str(ctx.obj or DEFAULT_STORE)
    if address.startswith(("http://", "https://")):
        raise InvalidError("store", "is a server; look at its own pages, which are at this very address")
    file_of(address)  # refuses a store in memory
    log_to_stderr(LogLevel.WARNING, LogFormat.TEXT)
    settings = Settings(port=port)
    looked_at = Monitor(lambda: _opened(address), operate=operate, store=named(address))
    server = Server(looked_at, settings, lambda url: _say(address, url), looked_at.end_streams)
    server.run(sockets=[listening(settings)])


def _opened(address: str) -> "Engine":
    """Open a store that exists already, as it is."""
    from penstock.engine import open_engine

    path = file_of(address)
    if path is not None and not path.is_file():
        raise StoreDownError(f"there is no database {str(path)!r}; `penstock migrate` makes one")
    return open_engine(address, migrate=False)


def _say(address: str, url: str) -> None:
    print(f"penstock shows {shown(address)} at {url}", file=sys.stderr, flush=True)
