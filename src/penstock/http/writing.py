"""Write an answer.

Invariant: until its body is being sent, the jobs claimed for it can be given back.  After that the worker may
have read it, and begun.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from penstock.http.codec import encode
from penstock.http.dialect import Dialect
from penstock.http.engine_service import EngineService
from penstock.http.reading import Message, Receive
from penstock.http.routes import Reply, Stream

Send = Callable[[Message], Awaitable[None]]

log = logging.getLogger("penstock.server")


def encoded(reply: Reply) -> bytes:
    """Return the body of an answer as it is sent."""
    body = reply.body
    return b"" if body is None else body if isinstance(body, bytes) else encode(body)


async def write(
    service: EngineService,
    dialect: Dialect,
    reply: Reply,
    request_id: str,
    method: str,
    receive: Receive,
    send: Send,
) -> None:
    """Send an answer; if the client has gone, give back what was claimed for it."""
    try:
        if reply.claims is not None and reply.claims.jobs and await _is_gone(receive):
            await service.give_back(reply.claims)
            return
        content = encoded(reply)
        headers = _head(reply.media or dialect.media, request_id, {**dialect.headers, **reply.headers})
        headers.append((b"content-length", str(len(content)).encode()))
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    except BaseException:
        if reply.claims is not None:
            await service.give_back(reply.claims)
        raise
    try:
        await send({"type": "http.response.body", "body": b"" if method == "HEAD" else content})
    finally:
        # Also if it failed: the worker may have read it.
        if reply.claims is not None and reply.claims.jobs:
            service.answered(reply.claims)


async def stream(dialect: Dialect, reply: Stream, request_id: str, receive: Receive, send: Send) -> None:
    """Send a stream until it ends or the client has gone."""
    more = {"Cache-Control": "no-cache", **dialect.headers, **reply.headers}
    headers = _head(reply.media, request_id, more)
    await send({"type": "http.response.start", "status": 200, "headers": headers})

    async def go_on() -> None:
        async for chunk in reply.chunks:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})

    async def until_gone() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    writing, gone = asyncio.ensure_future(go_on()), asyncio.ensure_future(until_gone())
    await asyncio.wait((writing, gone), return_when=asyncio.FIRST_COMPLETED)
    for task in (writing, gone):
        task.cancel()
    failure, _ = await asyncio.gather(writing, gone, return_exceptions=True)
    if isinstance(failure, Exception) and not isinstance(failure, OSError):
        log.error("a stream ended early (%s)", request_id, exc_info=failure)
    if not gone.done() or gone.cancelled():
        await send({"type": "http.response.body", "body": b""})


def _head(media: str, request_id: str, more: dict[str, str]) -> list[tuple[bytes, bytes]]:
    head = [(b"content-type", media.encode()), (b"x-request-id", request_id.encode("latin-1"))]
    head += [(name.encode().lower(), value.encode("latin-1", "replace")) for name, value in more.items()]
    return head


async def _is_gone(receive: Receive) -> bool:
    """Tell whether the other side has hung up, without waiting for it."""
    waiting = asyncio.ensure_future(receive())
    await asyncio.sleep(0)
    if waiting.done():
        return bool(waiting.result()["type"] == "http.disconnect")
    waiting.cancel()
    return False
