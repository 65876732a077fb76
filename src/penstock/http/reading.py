"""Read the body of a request: bounded, and only JSON that can be handled."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import suppress
from typing import Any, Final

from penstock.http.errors import BadBodyError, GoneError, RefusedError
from penstock.lifecycle.nesting import TOO_DEEP, is_deep

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]

_MOST_HEARD: Final = 64 * 1024 * 1024  # bytes of a body that is too long
_PATIENCE, _LONGEST = 1.0, 30.0  # seconds between two parts of it, and for all of it
_SAFE: Final = ("GET", "HEAD", "OPTIONS")  # methods that change nothing
_BROWSERS: Final = ("origin", "sec-fetch-site")  # what only browsers send


async def read_body(method: str, headers: Mapping[str, str], receive: Receive, most: int) -> bytes:
    """Return the body; raise if it is too long, not JSON, or nested too deeply."""
    body = await received(headers, receive, most)
    # A page can send a form without asking; even an empty one must not change anything.
    if body or (method not in _SAFE and any(name in headers for name in _BROWSERS)):
        _check_type(headers.get("content-type"))
    if is_deep(body):
        raise BadBodyError("body", TOO_DEEP)
    return body


def _check_type(stated: str | None) -> None:
    """Raise unless the body is declared as JSON, which browsers never send for a page of another site."""
    kind = (stated or "").partition(";")[0].strip().lower()
    if kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json")):
        return
    problem = "the header Content-Type is missing" if stated is None else f"{kind[:80]!r} is not JSON"
    raise RefusedError(400, "unsupported_media_type", f"{problem}; send Content-Type: application/json")


async def received(headers: Mapping[str, str], receive: Receive, most: int) -> bytes:
    """Return the body, whatever it is; raise if it is too long."""
    length = headers.get("content-length", "0")
    if length.isdigit() and int(length) > most:
        if "expect" not in headers:  # a client that expects 100-continue has not sent it
            await _hear_out(receive)
        raise _too_much(most)
    message = await receive()
    body: bytes = message.get("body", b"")
    parts = [body]
    size = len(body)
    while message.get("more_body"):
        message = await receive()
        part = message.get("body", b"")
        size += len(part)
        if size > most:
            await _hear_out(receive)
            raise _too_much(most)
        parts.append(part)
    if message["type"] == "http.disconnect":
        raise GoneError
    return b"".join(parts) if len(parts) > 1 else body


def _too_much(most: int) -> RefusedError:
    text = f"at most {most} bytes are taken"
    return RefusedError(413, "payload_too_large", text, {"Connection": "close"})


async def _hear_out(receive: Receive) -> None:
    """Read on for a while: many clients read the answer only after they have sent everything."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_LONGEST):
            size, message = 0, await asyncio.wait_for(receive(), _PATIENCE)
            while message.get("more_body") and size < _MOST_HEARD:
                size += len(message.get("body", b""))
                message = await asyncio.wait_for(receive(), _PATIENCE)
