"""Addresses: where a request comes from, whether a proxy passed it on, and where the server is mounted."""

import ipaddress
from collections.abc import Iterable
from typing import Final
from urllib.parse import quote

from penstock.errors import InvalidError

_PASSED_ON: Final = (
    "forwarded",
    "via",
    "x-real-ip",
    "true-client-ip",
    "cf-connecting-ip",
)  # say what a proxy did
_PASSED_ON_TOO: Final = "x-forwarded-"
_PLAIN: Final = (
    "/~!$&'()*+:=@"  # what stands for itself in a path, and ends neither a header nor a part of a cookie
)


def is_loopback(host: str) -> bool:
    """Tell whether an address, or the name `localhost`, is this machine's alone."""
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def is_passed_on(headers: Iterable[str]) -> bool:
    """Tell whether the names of a request's headers, in lower case, say that a proxy passed it on."""
    return any(name in _PASSED_ON or name.startswith(_PASSED_ON_TOO) for name in headers)


def proxy_address(text: str) -> str:
    """Return the address of a proxy, or of a network of them; raise if it is none."""
    try:
        return str(ipaddress.ip_network(text) if "/" in text else ipaddress.ip_address(text))
    except ValueError:
        problem = f"{text[:60]!r} must be an address or a network, such as 10.0.0.7 or 10.0.0.0/24"
        raise InvalidError("--trusted-proxy", problem) from None


def root_address(root: str) -> str:
    """Return the path under which something is mounted as it stands in an address, a header and a cookie."""
    path = root.strip("/")
    return f"/{quote(path, safe=_PLAIN)}" if path else ""
