"""Refuse requests that a page of another site sends.

A browser lets any page send requests to this machine, and some without asking first.  It says which site the page
is of (`Origin`, `Sec-Fetch-Site`) and which name it asked for (`Host`): a name of another site that resolves to this
machine is not one of the server's.  Without a token nothing else tells such a page from a program of the user's.
"""

import ipaddress
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from penstock.errors import InvalidError

_OWN: Final = ("same-origin", "none")  # none: a person typed the address
_MOST: Final = 260  # characters of a name with its port


class Refusal(NamedTuple):
    """Why a request is not answered."""

    code: str
    text: str


class Visitors:
    """Answers to this machine's names and to *more*, and to no page of another site."""

    def __init__(self, more: Iterable[str] = ()) -> None:
        self._more = frozenset(more)
        self._known = lru_cache(maxsize=256)(self._is_ours)

    def refusal(self, headers: Mapping[str, str], arrived: str) -> Refusal | None:
        """Return why a request that arrived at this address is refused; None if it is not."""
        host = headers.get("host", "").lower()
        if len(host) > _MOST or not self._known(host, arrived):
            name = _name(host) or "NAME"
            return Refusal(
                "host_not_allowed",
                f"{host[:80]!r} is not known as a name of this server.  Without a token it answers to localhost, "
                f"127.0.0.1 and [::1]; start it with --allow-host {name[:80]} to add this one, or with a token",
            )
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        if origin is None and site is None:
            return None
        own = origin is not None and origin.lower() in (f"http://{host}", f"https://{host}")
        if (origin is not None and not own) or not (
            site is None or site in _OWN or (own and site == "same-site")
        ):
            return Refusal(
                "origin_not_allowed",
                f"a page of {(origin or 'another site')[:80]!r} sends this.  Without a token the server answers "
                "to programs and to pages of its own, never to those of other sites",
            )
        return None

    def _is_ours(self, host: str, arrived: str) -> bool:
        name = _name(host)
        if name is None:
            return False
        if name == "localhost" or name in self._more:
            return True
        try:
            address = ipaddress.ip_address(name)
            return address.is_loopback or address == ipaddress.ip_address(arrived)
        except ValueError:
            return False


def host_name(text: str) -> str:
    """Return the name of a host as requests are compared with it; raise if it is none."""
    name = text.lower() if _is_address(text) else _name(text.lower())
    if name is None or text.lower() not in (name, f"{name}.", f"[{name}]"):
        raise InvalidError(
            "--allow-host", f"{text!r} must be the name of a host, such as jobs.example.com, without a port"
        )
    return name


def _name(host: str) -> str | None:
    """Return the name in a Host header, without its port; None if there is none."""
    if host.startswith("["):
        name, found, port = host[1:].partition("]")
        port = port.removeprefix(":")
        well = bool(found) and _is_address(name)
    else:
        name, _, port = host.partition(":")
        name = name.removesuffix(".")
        well = bool(name) and all(each.isalnum() or each in "-_." for each in name)
    return name if well and (not port or port.isdigit()) else None


def _is_address(name: str) -> bool:
    try:
        ipaddress.IPv6Address(name)
    except ValueError:
        return False
    return True
