"""A WebSocket, as a dialect sees it."""

from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

from penstock.http.access import Role
from penstock.http.routes import Request

Message = MutableMapping[str, Any]


class Socket:
    """Both directions of one open WebSocket."""

    def __init__(
        self, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
    ) -> None:
        self._receive = receive
        self._send = send

    async def receive(self) -> str | None:
        """Return the next text from the client; None once it has gone."""
        while True:
            message = await self._receive()
            if message["type"] == "websocket.disconnect":
                return None
            text = message.get("text")
            if text is None:
                text = (message.get("bytes") or b"").decode("utf-8", "replace")
            return str(text)

    async def send(self, text: str) -> None:
        """Send a text."""
        await self._send({"type": "websocket.send", "text": text})

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Close it."""
        await self._send({"type": "websocket.close", "code": code, "reason": reason})


@dataclass(frozen=True, slots=True)
class SocketRoute:
    """A path that opens a WebSocket."""

    path: str
    handler: Callable[[Request, Socket], Awaitable[None]]
    roles: frozenset[Role]
    subprotocol: str | None = None  # accepted if the client offers it
    method: str = "WS"
