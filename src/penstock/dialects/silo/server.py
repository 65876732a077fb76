"""The gRPC server: lets calls in, reads and answers them, beside the HTTP server and on its loop."""

import logging
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from penstock.acting import acting
from penstock.clock import monotonic
from penstock.dialects.silo.call import Call, Node
from penstock.dialects.silo.errors import CallError, message_of, status_of
from penstock.dialects.silo.methods import METHODS, NOT_OFFERED, SERVICE, Method
from penstock.errors import InvalidError, PenstockError
from penstock.http.access import EVERYTHING, Access, actor_of
from penstock.http.counters import Metrics
from penstock.http.engine_service import EngineService
from penstock.http.tokens import Keyring
from penstock.ids import new_id

MOST_BYTES: Final = 128 * 1024 * 1024  # of a message, both ways, as in its clients
OPTIONS: Final = (
    ("grpc.max_receive_message_length", MOST_BYTES),
    ("grpc.max_send_message_length", MOST_BYTES),
    # Its clients ping every five seconds, also when they have nothing to say; they would be cut off for that.
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 1_000),
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.so_reuseport", 0),  # a port that is taken is an error, not shared
)
_ANYWHERE: Final = {"0.0.0.0", "::", ""}  # noqa: S104 - an address that is refused

log = logging.getLogger("penstock.server")


@dataclass(frozen=True, slots=True)
class SiloSettings:
    """Where to listen, the address that clients are told, and the files of a certificate and its key."""

    host: str = "127.0.0.1"
    port: int = 0  # a free one
    advertise: str = ""
    cert: Path | None = None
    key: Path | None = None

    def check(self) -> None:
        """Raise unless a server can be started so."""
        if (self.cert is None) != (self.key is None):
            raise InvalidError("--tls-cert", "must be given together with --tls-key")
        if not self.advertise and self.host in _ANYWHERE:
            raise InvalidError(
                "--silo-advertise",
                f"must be given with --host {self.host}: clients keep only the address that the server names, "
                "so write HOST:PORT as they reach it",
            )
        if self.advertise and not _is_address(self.advertise):
            raise InvalidError("--silo-advertise", f"{self.advertise!r} must be HOST:PORT")


class SiloServer:
    """Serves Silo's clients from one engine, with the tokens of the HTTP server.

    *ready* is called with the address at which it listens.  It answers *methods*.
    """

    def __init__(
        self,
        service: EngineService,
        keyring: Keyring,
        settings: SiloSettings,
        ready: Callable[[str], None],
        methods: Mapping[str, Method] = METHODS,
    ) -> None:
        settings.check()
        self._service = service
        self._keyring = keyring
        self._settings = settings
        self._ready = ready
        self._methods = methods
        self._node = Node(new_id(), settings.advertise)
        self._server: Any = None

    async def start(self) -> None:
        """Listen; raise `InvalidError` if that cannot be."""
        settings = self._settings
        self._server = grpc.aio.server(handlers=[_Handlers(self._methods, self._answer)], options=OPTIONS)
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        credentials = _credentials(settings)
        try:
            if credentials is None:
                port = self._server.add_insecure_port(f"{host}:{settings.port}")
            else:
                port = self._server.add_secure_port(f"{host}:{settings.port}", credentials)
        except RuntimeError as error:
            raise InvalidError("--silo", f"cannot listen at {host}:{settings.port}: {error}") from None
        if not settings.advertise:
            self._node = Node(self._node.id, f"{host}:{port}")
        await self._server.start()
        self._ready(f"{host}:{port}")

    async def stop(self, grace: float) -> None:
        """Take no more calls, and let those that are under way end within so many seconds."""
        if self._server is not None:
            await self._server.stop(grace)

    async def _answer(self, name: str, content: bytes, context: Any) -> bytes:  # noqa: ANN401 - grpc has no types
        began, status = monotonic(), grpc.StatusCode.OK
        answer: bytes | None = None
        call: Call | None = None
        refusal: PenstockError | None = None
        try:
            call = self._admitted(name, context)
            with acting(actor_of(call.access, {})):
                answer = await _answered(self._methods[name], call, content)
        except PenstockError as error:
            refusal, status = error, status_of(error)
        except Exception:
            log.exception("%s failed", name)
            refusal = CallError(grpc.StatusCode.INTERNAL, "the server made a mistake")
            status = grpc.StatusCode.INTERNAL
        finally:
            # Also if the call was cancelled.
            if call is not None and call.claims.jobs and (answer is None or context.cancelled()):
                await self._service.give_back(call.claims)
        self._note(name, status, monotonic() - began)
        if refusal is not None:
            if isinstance(refusal, CallError) and refusal.trailer is not None:
                context.set_trailing_metadata([refusal.trailer])
            await context.abort(status, message_of(refusal))
        if call is not None and call.claims.jobs:
            claims = call.claims
            context.add_done_callback(lambda _: self._service.answered(claims))
        return answer or b""

    def _admitted(self, name: str, context: Any) -> Call:  # noqa: ANN401 - the same
        if name in NOT_OFFERED:
            raise CallError(
                grpc.StatusCode.UNIMPLEMENTED,
                f"{name} is not offered: penstock has no nodes and shards to run",
            )
        access = self._access(context)
        if not access.allows(self._methods[name].roles):
            raise CallError(grpc.StatusCode.PERMISSION_DENIED, f"this token is not allowed to call {name}")
        return Call(self._service, access, self._node)

    def _access(self, context: Any) -> Access:  # noqa: ANN401 - the same
        if self._keyring.is_open:
            return EVERYTHING
        sent = [value for name, value in context.invocation_metadata() or () if name == "authorization"]
        if not sent:
            raise CallError(grpc.StatusCode.UNAUTHENTICATED, "missing authorization header")
        access = self._keyring.access(sent[0])
        if access is None:
            raise CallError(grpc.StatusCode.UNAUTHENTICATED, "invalid auth token")
        return access

    def _note(self, name: str, status: grpc.StatusCode, took: int) -> None:
        self._service.part(Metrics).request("gRPC", SERVICE + name, status.name, took)
        if log.isEnabledFor(logging.INFO):
            log.info("gRPC %s %s %.1f ms", name, status.name, took / 1_000)


async def _answered(method: Method, call: Call, content: bytes) -> bytes:
    """Return the answer to a call, as it is sent."""
    try:
        sent = method.request.FromString(content)
    except DecodeError:
        raise CallError(
            grpc.StatusCode.INVALID_ARGUMENT, "the message cannot be read: it is no message of this call"
        ) from None
    answer = await method.answer(call, sent)
    found: bytes = answer.SerializeToString()
    return found


class _Handlers(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Finds the handler of a path; messages are read and written by the handler itself."""

    def __init__(
        self, methods: Mapping[str, Method], answer: Callable[[str, bytes, Any], Awaitable[bytes]]
    ) -> None:
        self._handlers = {
            SERVICE + name: grpc.unary_unary_rpc_method_handler(_bound(answer, name))
            for name in (*methods, *NOT_OFFERED)
        }

    def service(self, handler_call_details: Any) -> Any:  # noqa: ANN401 - the same
        """Return the handler of a call, None for one that is not known at all."""
        return self._handlers.get(handler_call_details.method)


def _bound(
    answer: Callable[[str, bytes, Any], Awaitable[bytes]], name: str
) -> Callable[[bytes, Any], Awaitable[bytes]]:
    async def handler(content: bytes, context: Any) -> bytes:  # noqa: ANN401 - the same
        return await answer(name, content, context)

    return handler


def _credentials(settings: SiloSettings) -> Any:  # noqa: ANN401 - the same
    """Return what a server over TLS shows its clients; None if it speaks in the open."""
    if settings.cert is None or settings.key is None:
        return None
    try:
        # gRPC itself would only say that it cannot listen.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(settings.cert, settings.key)
        pair = (settings.key.read_bytes(), settings.cert.read_bytes())
    except (OSError, ssl.SSLError) as error:
        raise InvalidError("--tls-cert", f"cannot be used with this --tls-key: {error}") from None
    return grpc.ssl_server_credentials([pair])


def _is_address(text: str) -> bool:
    host, _, port = text.rpartition(":")
    return bool(host) and port.isascii() and port.isdigit() and 0 < int(port) <= 65_535  # noqa: PLR2004 - ports
