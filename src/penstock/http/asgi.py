"""The ASGI application: finds the route, checks the token, reads the request and writes the answer."""

import asyncio
import logging
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol
from urllib.parse import parse_qsl

from penstock.acting import acting
from penstock.clock import monotonic
from penstock.errors import InvalidError, PenstockError
from penstock.http.access import Access, actor_of
from penstock.http.addresses import root_address
from penstock.http.cross_site import Refusal, Visitors
from penstock.http.dialect import Dialect
from penstock.http.engine_service import EngineService
from penstock.http.errors import ForbiddenError, GoneError, RefusedError
from penstock.http.negotiation import prefers_html
from penstock.http.reading import Receive, read_body
from penstock.http.router import Router
from penstock.http.routes import EVENT_STREAM, Reply, Request, Route, Stream
from penstock.http.sockets import Socket
from penstock.http.tenancy import tenant_of
from penstock.http.tokens import Keyring
from penstock.http.writing import Send, encoded, stream, write
from penstock.ids import new_id

Scope = MutableMapping[str, Any]


class Site(Protocol):
    """What answers where no protocol does: pages for people."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""

    def end_streams(self) -> None:
        """End answers that go on, because the server is about to stop."""

    def close(self) -> None:
        """End everything."""


MOST_BYTES: Final = 10 * 1024 * 1024
_MOST_HEADER: Final = 200
_MOST_REASON: Final = 120  # bytes
_REFUSED: Final = 400  # the first status of an answer that refuses

log = logging.getLogger("penstock.server")


class AsgiApp:
    """Answers requests.  A path belongs to the first dialect that names its beginning; the last names all."""

    def __init__(
        self,
        service: EngineService,
        dialects: Sequence[Dialect],
        *,
        keyring: Keyring | None = None,
        visitors: Visitors | None = None,
        most_bytes: int = MOST_BYTES,
        close: Callable[[], None] = lambda: None,
        observe: Callable[[str, str, int, int], None] | None = None,
        site: Site | None = None,
    ) -> None:
        self.service = service
        self._dialects = dialects
        self._router = Router(route for dialect in dialects for route in dialect.routes)
        self._sockets = Router(route for dialect in dialects for route in dialect.sockets)
        self._keyring = keyring or Keyring()
        self._visitors = visitors or Visitors()
        self._most_bytes = most_bytes
        self._close = close
        self._observe = observe
        self._site = site

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        match scope["type"]:
            case "http" if self._site is not None and self._is_of_site(scope):
                await self._visit(self._site, scope, receive, send)
            case "http":
                await self._http(scope, receive, send)
            case "websocket":
                await self._websocket(scope, receive, send)
            case _:
                await self._lifespan(receive, send)

    def drain(self) -> None:
        """End all waiting: the server is about to stop."""
        self.service.drain()
        if self._site is not None:
            self._site.end_streams()

    def _is_of_site(self, scope: Scope) -> bool:
        """Tell whether no protocol has the path."""
        path = _path(scope)
        return self._dialect(scope) is self._dialects[-1] and not self._router.find(path)[0]

    async def _visit(self, site: Site, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the *site* answer; count and log that as requests are."""
        began, status, streams = monotonic(), 0, False

        async def noting(message: MutableMapping[str, Any]) -> None:
            nonlocal status, streams
            if message["type"] == "http.response.start":
                status = message["status"]
                streams = (b"content-type", EVENT_STREAM.encode()) in message["headers"]
            await send(message)

        await site(scope, receive, noting)
        if status and not streams and self._observe is not None:
            self._observe("other", "other", status, monotonic() - began)
        if log.isEnabledFor(logging.INFO):
            took = (monotonic() - began) / 1_000
            log.info("%s %s %d %.1f ms", scope["method"], _path(scope), status, took)

    def _page(self, dialect: Dialect, scope: Scope, headers: Mapping[str, str]) -> str | None:
        """Return the page to which a browser is led that looks at a path of a protocol."""
        page = dialect.pages.get(_path(scope))
        if self._site is None or page is None or scope["method"] != "GET":
            return None
        if not prefers_html(headers.get("accept", "")):
            return None
        return root_address(scope.get("root_path") or "") + page

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = monotonic()
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        request_id = headers.get("x-request-id", "")
        if not request_id or len(request_id) > _MOST_HEADER or not request_id.isprintable():
            request_id = f"req_{new_id()}"
        try:
            dialect = self._dialect(scope)
            reply = await self._reply(dialect, scope, headers, request_id, receive)
        except GoneError:
            return
        if isinstance(reply, Stream) and scope["method"] == "HEAD":
            reply = Reply(None, headers=reply.headers, media=reply.media)
        if isinstance(reply, Stream):
            await stream(dialect, reply, request_id, receive, send)
            status = 200
        else:
            status = reply.status
            await write(self.service, dialect, reply, request_id, scope["method"], receive, send)
            if self._observe is not None:
                route = scope.get("route")  # None at an unknown path
                method, path = ("other", "other") if route is None else (route.method, route.path)
                self._observe(method, path, status, monotonic() - began)
        if log.isEnabledFor(logging.INFO):
            took = (monotonic() - began) / 1_000
            log.info("%s %s %d %.1f ms %s", scope["method"], _path(scope), status, took, request_id)

    def _dialect(self, scope: Scope) -> Dialect:
        path = _path(scope)
        return next(dialect for dialect in self._dialects if path.startswith(dialect.paths))

    async def _reply(
        self, dialect: Dialect, scope: Scope, headers: dict[str, str], request_id: str, receive: Receive
    ) -> Reply | Stream:
        try:
            return await self._handle(dialect, scope, headers, request_id, receive)
        except PenstockError as error:
            return dialect.error(error, request_id)
        except (GoneError, asyncio.CancelledError):
            raise
        except Exception:
            log.exception("%s %s failed (%s)", scope["method"], _path(scope), request_id)
            mistake = RefusedError(500, "internal_error", "the server made a mistake")
            return dialect.error(mistake, request_id)

    async def _handle(
        self, dialect: Dialect, scope: Scope, headers: dict[str, str], request_id: str, receive: Receive
    ) -> Reply | Stream:
        if (refusal := self._refusal(scope, headers)) is not None:
            raise RefusedError(403, *refusal)
        if (page := self._page(dialect, scope, headers)) is not None:
            return Reply(status=303, headers={"Location": page, "Vary": "Accept"})
        methods, params = self._router.find(_path(scope))
        route = _chosen(methods, scope)
        scope["route"] = route
        access = self._admitted(route, headers)
        body = await read_body(scope["method"], headers, receive, self._most_bytes)
        request = Request(
            self.service,
            access,
            id=request_id,
            params=_checked(params),
            query=_checked(dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))),
            headers=headers,
            body=body,
            tenant=_tenant(dialect, access, headers),
        )
        try:
            with acting(actor_of(access, headers)):
                reply = await route.handler(request)
            if isinstance(reply, Stream):
                return reply
            reply.body, reply.claims = encoded(reply), request.claims
        except BaseException:
            await self.service.give_back(request.claims)
            raise
        if reply.status >= _REFUSED:
            await self.service.give_back(request.claims)
        return reply

    def _refusal(self, scope: Scope, headers: dict[str, str]) -> Refusal | None:
        """Return why a request is refused unread; where tokens are needed, they alone decide."""
        if not self._keyring.is_open:
            return None
        return self._visitors.refusal(headers, (scope.get("server") or ("",))[0])

    def _admitted(self, route: Route, headers: dict[str, str]) -> Access:
        """Return what the token allows, if that is enough for the route."""
        access = self._keyring.access(headers.get("authorization"))
        if access is None and route.roles:
            raise RefusedError(401, "unauthorized", "a token is needed", {"WWW-Authenticate": "Bearer"})
        access = access or Access("no token", frozenset())
        if not access.allows(route.roles):
            raise ForbiddenError(f"this needs the role {' or '.join(sorted(route.roles))}")
        return access

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        methods, params = self._sockets.find(_path(scope))
        route = methods.get("WS")
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        query = dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))
        # A browser cannot set headers on a socket.
        sent = headers.get("authorization") or (f"Bearer {query['token']}" if "token" in query else None)
        access = self._keyring.access(sent)
        await receive()
        if (refusal := self._refusal(scope, headers)) is not None:
            await send({"type": "websocket.close", "code": 4403, "reason": refusal.text[:100]})
            return
        if route is None or access is None or not access.allows(route.roles):
            await send({"type": "websocket.close", "code": 4404 if route is None else 4401})
            return
        try:
            tenant = _tenant(self._dialect(scope), access, headers)
        except PenstockError as error:
            await send({"type": "websocket.close", "code": 4403, "reason": _reason(error)})
            return
        offered = scope.get("subprotocols") or ()
        spoken = route.subprotocol if route.subprotocol in offered else None
        await send({"type": "websocket.accept", "subprotocol": spoken})
        request = Request(
            self.service, access, id=f"req_{new_id()}", params=params, query=query, headers=headers, body=b"",
            tenant=tenant,
        )  # fmt: skip
        try:
            await route.handler(request, Socket(receive, send))
        except PenstockError as error:
            await send({"type": "websocket.close", "code": 4400, "reason": _reason(error)})
        except Exception:
            log.exception("%s failed (%s)", _path(scope), request.id)
            with suppress(OSError, RuntimeError):  # it may be closed already
                await send({"type": "websocket.close", "code": 1011, "reason": "the server made a mistake"})

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                self.service.begin()
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                if self._site is not None:
                    self._site.close()
                self._close()
                await send({"type": "lifespan.shutdown.complete"})
                return


def _path(scope: Scope) -> str:
    """Return the path as it was sent, still quoted, so that it is one line in a log."""
    sent: bytes = scope.get("raw_path") or scope["path"].encode()
    return sent.partition(b"?")[0].decode("ascii", "backslashreplace")


def _reason(error: PenstockError) -> str:
    """Return why a socket is closed, as much as its last frame holds."""
    return str(error).encode()[:_MOST_REASON].decode(errors="ignore")


def _tenant(dialect: Dialect, access: Access, headers: Mapping[str, str]) -> str | None:
    header = dialect.tenant_header
    named = headers.get(header.lower())
    return tenant_of(access, None if named is None else dialect.read_tenant(named, header))


def _chosen(methods: Mapping[str, Route], scope: Scope) -> Route:
    """Return the route for the method of the request."""
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
