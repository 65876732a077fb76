"""Send requests to another server, but not to any address that a stranger names.

A name is resolved, every address of it is checked, and the connection goes to a checked address: a name that
resolves to something else a moment later gains nothing by it.
"""

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final
from urllib.parse import SplitResult, urljoin, urlsplit

from penstock.errors import InvalidError
from penstock.http.answer_body import read_answer

TIMEOUT: Final = 30.0  # seconds for the whole exchange
REDIRECTS: Final = 3
_MOST_URL: Final = 2_048
_MOST_HEAD: Final = 64 * 1024
_FOLLOWED: Final = (301, 302, 307, 308)
_FINAL: Final = 200  # what is below only announces more
_EMPTY: Final = (204, 304)  # answers that never have a body
# Where clouds tell their machines their secrets, besides the link-local addresses.
_METADATA: Final = frozenset(
    ipaddress.ip_address(text)
    for text in ("100.100.100.200", "192.0.0.192", "168.63.129.16", "fd00:ec2::254", "fd20:ce::254")
)
_EMBEDDED: Final = ipaddress.ip_network("64:ff9b::/96")  # addresses of IPv4, as IPv6 writes them
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back; without its body where that was not wanted."""

    status: int
    headers: dict[str, str]
    body: bytes = b""


def check_url(text: str, *, loopback: bool, field: str = "url") -> SplitResult:
    """Return a URL that may be posted to; *loopback* allows this machine."""
    if len(text) > _MOST_URL or not text.isprintable() or not text.isascii() or " " in text:
        raise InvalidError(field, f"must be at most {_MOST_URL} printable characters of ASCII without spaces")
    try:
        url = urlsplit(text)
        host, _ = url.hostname, url.port
    except ValueError as error:
        raise InvalidError(field, f"is no URL: {error}") from None
    if url.scheme not in ("http", "https") or not host:
        raise InvalidError(field, "must be a URL of http or https")
    if url.username is not None or url.password is not None:
        raise InvalidError(field, "must not hold a name or a password")
    if host == "localhost" or host.endswith(".localhost"):
        host = "127.0.0.1"
    with suppress(ValueError):  # a name is checked when it is used
        _check(ipaddress.ip_address(host), loopback=loopback, field=field)
    return url


async def post(url: str, body: bytes, headers: Mapping[str, str], *, loopback: bool) -> Answer:
    """Post *body* and return the answer.  Raises OSError, TimeoutError or InvalidError if none comes."""
    async with asyncio.timeout(TIMEOUT):
        for _ in range(REDIRECTS + 1):
            checked = check_url(url, loopback=loopback)
            answer = await _exchange("POST", checked, body, headers, loopback=loopback)
            location = answer.headers.get("location")
            if answer.status not in _FOLLOWED or not location:
                break
            url = urljoin(url, location)
        return answer


async def request(
    method: str, url: str, body: bytes, headers: Mapping[str, str], *, loopback: bool, most: int
) -> Answer:
    """Send a request and return the answer with its body, which must have no more than *most* bytes.

    A redirect is an answer.  Raises OSError or InvalidError if none comes; it waits as long as its caller does.
    """
    checked = check_url(url, loopback=loopback)
    return await _exchange(method, checked, body, headers, loopback=loopback, most=most)


async def _exchange(
    method: str,
    url: SplitResult,
    body: bytes,
    headers: Mapping[str, str],
    *,
    loopback: bool,
    most: int | None = None,
) -> Answer:
    host = url.hostname or ""
    port = url.port or (443 if url.scheme == "https" else 80)
    reader, writer = await _connected(host, port, secure=url.scheme == "https", loopback=loopback)
    try:
        path = (url.path or "/") + (f"?{url.query}" if url.query else "")
        sent = {"Host": url.netloc, **headers, "Content-Length": str(len(body)), "Connection": "close"}
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in sent.items()), "", ""]
        writer.write("\r\n".join(lines).encode("latin-1", "replace") + body)
        await writer.drain()
        answer = await _answer(reader)
        if most is None or method == "HEAD" or answer.status in _EMPTY:
            return answer
        return replace(answer, body=await read_answer(reader, answer.headers, most))
    finally:
        writer.close()


async def _connected(
    host: str, port: int, *, secure: bool, loopback: bool
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError:
        raise InvalidError("url", f"{host[:80]!r} cannot be the name of a host") from None
    addresses = list(dict.fromkeys(str(info[4][0]) for info in found))
    for address in addresses:
        _check(ipaddress.ip_address(address.partition("%")[0]), loopback=loopback, field="url")
    trouble: OSError = OSError(f"{host} has no address")
    for address in addresses:
        try:
            return await asyncio.open_connection(
                address,
                port,
                ssl=_context() if secure else None,
                server_hostname=host if secure else None,
                limit=_MOST_HEAD,
            )
        except OSError as error:
            trouble = error
        except ValueError as error:
            raise InvalidError("url", f"cannot be used: {error}") from None
    raise trouble


async def _answer(reader: asyncio.StreamReader) -> Answer:
    status = 0
    try:
        while status < _FINAL:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            status = int(head[0].split(" ")[1])
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError, IndexError):
        raise OSError("the answer is not HTTP") from None
    pairs = (line.partition(":") for line in head[1:])
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    return Answer(status, headers)


def _check(address: Address, *, loopback: bool, field: str) -> None:
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if address in _EMBEDDED:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
        address = inner or address
    refused = address.is_link_local or address.is_multicast or address.is_unspecified or address in _METADATA
    # To Python all of ::/8 is reserved, this machine among it.
    own = address.is_loopback
    if refused or (own and not loopback) or (address.is_reserved and not own):
        raise InvalidError(field, f"{address} is an address to which nothing is sent from here")


@lru_cache(maxsize=1)
def _context() -> ssl.SSLContext:
    return ssl.create_default_context()
