"""An answer: what every one of them says to the browser, and how it is sent."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from penstock.http.reading import Receive
from penstock.http.routes import EVENT_STREAM
from penstock.http.writing import Send

JSON: Final = "application/json"
HTML: Final = "text/html; charset=utf-8"
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors "
)


@dataclass(slots=True)
class Answer:
    """An answer that is complete; *cookies* are those that it sets."""

    body: bytes = b""
    status: int = 200
    media: str = HTML
    headers: dict[str, str] = field(default_factory=dict)
    cookies: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Stream:
    """An answer that goes on: server-sent events."""

    chunks: AsyncIterator[bytes]


def led_to(address: str) -> Answer:
    """Return an answer that leads a browser elsewhere."""
    return Answer(status=303, headers={"Location": address})


class Sender:
    """Sends answers, each with what keeps a page from doing more than it should."""

    def __init__(self, framed_by: Sequence[str] = ()) -> None:
        ancestors = " ".join(framed_by) or "'none'"
        common = {
            "Content-Security-Policy": _POLICY + ancestors,
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "same-origin",  # with no-referrer a browser hides where a form comes from, too
            "Cross-Origin-Opener-Policy": "same-origin",
            "Cross-Origin-Resource-Policy": "same-origin",
        }
        if not framed_by:
            common["X-Frame-Options"] = "DENY"
        self._common = _encoded(common)

    async def send(self, answer: Answer, method: str, send: Send) -> None:
        """Send an answer; of one to HEAD only its head."""
        own = {"Cache-Control": "no-store", "Vary": "Accept, Cookie", **answer.headers}
        own |= {"Content-Type": answer.media, "Content-Length": str(len(answer.body))}
        head = self._common + _encoded(own)
        head += [(b"set-cookie", cookie.encode("latin-1")) for cookie in answer.cookies]
        await send({"type": "http.response.start", "status": answer.status, "headers": head})
        await send({"type": "http.response.body", "body": b"" if method == "HEAD" else answer.body})

    async def stream(self, answer: Stream, receive: Receive, send: Send) -> None:
        """Send a stream until it ends or the client has gone."""
        own = {"Content-Type": EVENT_STREAM, "Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        await send({"type": "http.response.start", "status": 200, "headers": self._common + _encoded(own)})
        writing = asyncio.ensure_future(_write_all(answer.chunks, send))
        gone = asyncio.ensure_future(_until_gone(receive))
        try:
            await asyncio.wait((writing, gone), return_when=asyncio.FIRST_COMPLETED)
            over = writing.done()
        finally:
            for task in (writing, gone):
                task.cancel()
            await asyncio.gather(writing, gone, return_exceptions=True)
        if over:
            await send({"type": "http.response.body", "body": b""})


async def _write_all(chunks: AsyncIterator[bytes], send: Send) -> None:
    async for chunk in chunks:
        await send({"type": "http.response.body", "body": chunk, "more_body": True})


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _encoded(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode(), value.encode("latin-1", "replace")) for name, value in headers.items()]
