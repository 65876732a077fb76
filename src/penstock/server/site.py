"""The ASGI application: finds the route, lets in who may, reads what was sent and writes the answer."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from contextlib import suppress
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import msgspec

from penstock.clock import monotonic
from penstock.dialects.ojs.errors import answer, envelope
from penstock.dialects.ojs.names import MEDIA, VERSION
from penstock.dialects.ojs.tenancy import HEADER, ForbiddenError, tenant_of
from penstock.edge.access import Access
from penstock.edge.routes import Reply, Request, Route, Stream
from penstock.edge.service import Service
from penstock.edge.sockets import Socket, SocketRoute
from penstock.errors import InvalidError, PenstockError
from penstock.ids import new_id
from penstock.server.keys import Keyring
from penstock.server.table import Table

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

MOST_BYTES: Final = 10 * 1024 * 1024
PROTOCOL: Final = "ojs.v1"  # what WebSockets speak
_MOST_HEADER: Final = 200
_MOST_HEARD: Final = 64 * 1024 * 1024  # bytes of what is too much
_PATIENCE, _LONGEST = 1.0, 30.0  # seconds between two parts of it, and for all
_JSON: Final = ("application/openjobspec+json", "application/json")
_encode: Final = msgspec.json.Encoder().encode

log = logging.getLogger("penstock.server")


class _GoneError(Exception):
    """Whoever asked has hung up."""


class RefusedError(Exception):
    """A request that no route has to look at."""

    def __init__(self, status: int, code: str, text: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.code = code
        self.text = text
        self.headers = headers


class Site:
    """Everything the server answers."""

    def __init__(
        self,
        service: Service,
        routes: Iterable[Route],
        sockets: Iterable[SocketRoute] = (),
        *,
        keyring: Keyring | None = None,
        most_bytes: int = MOST_BYTES,
        close: Callable[[], None] = lambda: None,
        observe: Callable[[str, str, int, int], None] | None = None,
    ) -> None:
        self.service = service
        self._table = Table(routes)
        self._sockets = Table(sockets)
        self._keyring = keyring or Keyring()
        self._most_bytes = most_bytes
        self._close = close
        self._observe = observe

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        match scope["type"]:
            case "http":
                await self._http(scope, receive, send)
            case "websocket":
                await self._websocket(scope, receive, send)
            case _:
                await self._lifespan(receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = monotonic()
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        request_id = headers.get("x-request-id", "")
        if not request_id or len(request_id) > _MOST_HEADER or not request_id.isprintable():
            request_id = f"req_{new_id()}"
        try:
            reply = await self._reply(scope, headers, request_id, receive)
        except _GoneError:
            return
        if isinstance(reply, Stream) and scope["method"] == "HEAD":
            reply = Reply(None, headers=reply.headers, media=reply.media)
        if isinstance(reply, Stream):
            await _stream(reply, request_id, receive, send)
            status = 200
        else:
            status = reply.status
            await self._write(reply, request_id, scope["method"], receive, send)
            if self._observe is not None:
                route = scope.get("route")  # None where there is nothing
                method, path = ("other", "other") if route is None else (route.method, route.path)
                self._observe(method, path, status, monotonic() - began)
        if log.isEnabledFor(logging.INFO):
            took = (monotonic() - began) / 1_000
            log.info("%s %s %d %.1f ms %s", scope["method"], scope["path"], status, took, request_id)

    async def _reply(
        self, scope: Scope, headers: dict[str, str], request_id: str, receive: Receive
    ) -> Reply | Stream:
        try:
            return await self._handle(scope, headers, request_id, receive)
        except RefusedError as error:
            return envelope(error.status, error.code, error.text, request_id, headers=error.headers)
        except ForbiddenError as error:
            return envelope(403, "forbidden", str(error), request_id)
        except PenstockError as error:
            return answer(error, request_id)
        except (_GoneError, asyncio.CancelledError):
            raise
        except Exception:
            log.exception("%s %s failed (%s)", scope["method"], scope["path"], request_id)
            return envelope(500, "internal_error", "the server made a mistake", request_id)

    async def _handle(
        self, scope: Scope, headers: dict[str, str], request_id: str, receive: Receive
    ) -> Reply | Stream:
        path = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1").partition("?")[0]
        methods, params = self._table.find(path)
        route = _chosen(methods, scope)
        scope["route"] = route
        access = self._admitted(route, headers)
        body = await self._body(headers, receive)
        kind = headers.get("content-type", _JSON[0]).partition(";")[0].strip().lower()
        if body and kind not in _JSON:
            raise RefusedError(400, "unsupported_media_type", f"{kind[:80]!r} is not JSON")
        request = Request(
            self.service,
            access,
            id=request_id,
            params=_checked(params),
            query=_checked(dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))),
            headers=headers,
            body=body,
            tenant=tenant_of(access, headers.get(HEADER)),
        )
        return await route.handler(request)

    def _admitted(self, route: Route, headers: dict[str, str]) -> Access:
        """Return what the one who asks may do, if that is enough for the route."""
        access = self._keyring.access(headers.get("authorization"))
        if access is None and route.roles:
            raise RefusedError(401, "unauthorized", "a token is needed", {"WWW-Authenticate": "Bearer"})
        access = access or Access("nobody", frozenset())
        if not access.allows(route.roles):
            raise ForbiddenError(f"this needs the role {' or '.join(sorted(route.roles))}")
        return access

    async def _body(self, headers: dict[str, str], receive: Receive) -> bytes:
        """Return what was sent, unless it is too much."""
        length = headers.get("content-length", "0")
        if length.isdigit() and int(length) > self._most_bytes:
            if "expect" not in headers:  # else it waits for our word before it sends
                await _hear_out(receive)
            raise self._too_much()
        message = await receive()
        body: bytes = message.get("body", b"")
        parts = [body]
        size = len(body)
        while message.get("more_body"):
            message = await receive()
            part = message.get("body", b"")
            size += len(part)
            if size > self._most_bytes:
                await _hear_out(receive)
                raise self._too_much()
            parts.append(part)
        if message["type"] == "http.disconnect":
            raise _GoneError
        return b"".join(parts) if len(parts) > 1 else body

    def _too_much(self) -> RefusedError:
        text = f"at most {self._most_bytes} bytes are taken"
        return RefusedError(413, "payload_too_large", text, {"Connection": "close"})

    async def _write(self, reply: Reply, request_id: str, method: str, receive: Receive, send: Send) -> None:
        if reply.undelivered is not None and await _is_gone(receive):
            await reply.undelivered()
            return
        body = reply.body
        content = b"" if body is None else body if isinstance(body, bytes) else _encode(body)
        headers = [(b"content-type", (reply.media or MEDIA).encode()), (b"ojs-version", VERSION.encode())]
        headers += [
            (b"x-request-id", request_id.encode("latin-1")),
            (b"content-length", str(len(content)).encode()),
        ]
        headers += [
            (name.encode().lower(), value.encode("latin-1", "replace"))
            for name, value in reply.headers.items()
        ]
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if method == "HEAD" else content})

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1").partition("?")[0]
        methods, params = self._sockets.find(path)
        route = methods.get("WS")
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        query = dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))
        # A browser cannot set headers on a socket.
        sent = headers.get("authorization") or (f"Bearer {query['token']}" if "token" in query else None)
        access = self._keyring.access(sent)
        await receive()
        if route is None or access is None or not access.allows(route.roles):
            await send({"type": "websocket.close", "code": 4404 if route is None else 4401})
            return
        if not _from_here(headers):
            await send(
                {"type": "websocket.close", "code": 4403, "reason": "opened by a page of another site"}
            )
            return
        try:
            tenant = tenant_of(access, headers.get(HEADER))
        except PenstockError as error:
            await send({"type": "websocket.close", "code": 4403, "reason": str(error)[:100]})
            return
        offered = scope.get("subprotocols") or ()
        await send({"type": "websocket.accept", "subprotocol": PROTOCOL if PROTOCOL in offered else None})
        request = Request(
            self.service, access, id=f"req_{new_id()}", params=params, query=query, headers=headers, body=b"",
            tenant=tenant,
        )  # fmt: skip
        try:
            await route.handler(request, Socket(receive, send))
        except PenstockError as error:
            await send({"type": "websocket.close", "code": 4400, "reason": str(error)[:100]})

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                self.service.begin()
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                self._close()
                await send({"type": "lifespan.shutdown.complete"})
                return


def _from_here(headers: dict[str, str]) -> bool:
    """Tell whether no page of another site opens this: browsers let any of them, and say which it is."""
    origin = headers.get("origin")
    return origin is None or urlsplit(origin).netloc == headers.get("host")


def _chosen(methods: Mapping[str, Route], scope: Scope) -> Route:
    """Return the route of a path that is meant."""
    if not methods:
        raise RefusedError(404, "not_found", f"there is nothing at {scope['path'][:200]!r}")
    method = scope["method"]
    route = methods.get("GET" if method == "HEAD" else method)
    if route is None:
        allowed = ", ".join(sorted(methods))
        text = f"{method[:40]!r} is not offered here; {allowed} is"
        raise RefusedError(405, "method_not_allowed", text, {"Allow": allowed})
    return route


def _checked(named: dict[str, str]) -> dict[str, str]:
    for name, value in named.items():
        if "\0" in value or "\ufffd" in value:
            raise InvalidError(name, "must be text in UTF-8 without the character NUL")
    return named


async def _hear_out(receive: Receive) -> None:
    """Read on for a while: many clients listen only when they have sent everything."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_LONGEST):
            size, message = 0, await asyncio.wait_for(receive(), _PATIENCE)
            while message.get("more_body") and size < _MOST_HEARD:
                size += len(message.get("body", b""))
                message = await asyncio.wait_for(receive(), _PATIENCE)


async def _is_gone(receive: Receive) -> bool:
    """Tell whether the other side has hung up, without waiting for it."""
    waiting = asyncio.ensure_future(receive())
    await asyncio.sleep(0)
    if waiting.done():
        return bool(waiting.result()["type"] == "http.disconnect")
    waiting.cancel()
    return False


async def _stream(reply: Stream, request_id: str, receive: Receive, send: Send) -> None:
    headers = [
        (b"content-type", reply.media.encode()),
        (b"cache-control", b"no-cache"),
        (b"ojs-version", VERSION.encode()),
    ]
    headers += [(b"x-request-id", request_id.encode("latin-1"))]
    headers += [(name.encode().lower(), value.encode("latin-1")) for name, value in reply.headers.items()]
    await send({"type": "http.response.start", "status": 200, "headers": headers})

    async def write() -> None:
        async for chunk in reply.chunks:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})

    async def until_gone() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    writing, gone = asyncio.ensure_future(write()), asyncio.ensure_future(until_gone())
    await asyncio.wait((writing, gone), return_when=asyncio.FIRST_COMPLETED)
    for task in (writing, gone):
        task.cancel()
    await asyncio.gather(writing, gone, return_exceptions=True)
    if not gone.done() or gone.cancelled():
        await send({"type": "http.response.body", "body": b""})
