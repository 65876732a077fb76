"""The address of a server and the token to send to it.  Neither messages nor logs ever show the token."""

import os
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote, urlsplit

from penstock.errors import InvalidError

TOKEN: Final = "PENSTOCK_TOKEN"  # noqa: S105 - where it is, not what it is
SCHEMES: Final = ("http", "https")
_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """A server: *path* is what its own paths begin with."""

    secure: bool
    host: str
    port: int
    path: str = ""
    token: str | None = field(default=None, repr=False)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.secure else 'http'}://{host}:{self.port}{self.path}"


def is_server(url: str) -> bool:
    """Tell whether *url* names a server, and not a database."""
    return url.partition("://")[0].lower() in SCHEMES and "://" in url


def server_address(url: str, token: str | None = None) -> ServerAddress:
    """Read `http://host:8080`; the token is the one given, else what stands before an @, else PENSTOCK_TOKEN."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise InvalidError("url", f"is no address of a server: {error}") from None
    if parts.scheme not in SCHEMES or not parts.hostname or parts.query or parts.fragment:
        raise InvalidError("url", "must be the address of a server, such as http://127.0.0.1:8080")
    named = parts.password or parts.username
    found = token or (unquote(named) if named else os.environ.get(TOKEN)) or None
    if found is not None and (not found.isascii() or not found.isprintable() or " " in found):
        raise InvalidError("token", "must be printable characters without spaces")
    secure = parts.scheme == "https"
    return ServerAddress(secure, parts.hostname, port or _PORTS[parts.scheme], parts.path.rstrip("/"), found)
