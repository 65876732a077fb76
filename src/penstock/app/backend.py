"""What apps and commands ask of an engine, be it a database's or one behind a server."""

import os
from typing import Final

from penstock.client import RemoteEngine
from penstock.client.address import is_server
from penstock.engine import Engine, open_engine
from penstock.errors import InvalidError

URL: Final = "PENSTOCK_URL"


# Apps and commands call only what both have; each verb blocks, and any thread may call it.
AnyEngine = Engine | RemoteEngine


def open_backend(url: str, *, token: str | None = None, migrate: bool = True) -> AnyEngine:
    """Open what *url* names: a database, or a server such as `http://host:8080`, to which *token* is sent."""
    if is_server(url):
        return RemoteEngine(url, token=token)
    return open_engine(url, migrate=migrate)


def named_url(example: str) -> str:
    """Return what PENSTOCK_URL names; if that is nothing, raise an error that shows an *example*."""
    url = os.environ.get(URL)
    if not url:
        raise InvalidError("url", f"no store was named: write {example}, or set {URL}")
    return url
