"""Connections to one server, kept open between requests.  Any thread may ask; it has one to itself meanwhile."""

import http.client
import socket
import threading
from contextlib import suppress
from typing import Final, NamedTuple

from penstock.client.address import ServerAddress
from penstock.clock import SECOND, monotonic, since_boot
from penstock.errors import StoreDownError

CONNECT: Final = 5.0
# A server closes what has been silent for longer than this.
IDLE: Final = 50 * SECOND


class Response(NamedTuple):
    """An answer, and when its request was *sent*, in microseconds since this machine was started."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes
    sent: int


class LostError(StoreDownError):
    """No answer came; the request may have arrived.  *late*: the connection stands, but the time was up."""

    def __init__(self, message: str, *, late: bool) -> None:
        super().__init__(message)
        self.late = late


class Connections:
    """Open connections: those that are idle, and those that wait for an answer."""

    def __init__(self, address: ServerAddress) -> None:
        self._address = address
        self._lock = threading.Lock()
        self._idle: list[tuple[int, http.client.HTTPConnection]] = []
        self._busy: set[http.client.HTTPConnection] = set()
        self._closed = False
        self._headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if address.token is not None:
            self._headers["Authorization"] = f"Bearer {address.token}"

    def ask(self, path: str, body: bytes, headers: dict[str, str], timeout: float) -> Response:
        """Post *body* and return the answer.

        Raises `StoreDownError` if the server cannot be reached, `LostError` if it does not answer.
        """
        line = self._lent() or self._connected()
        try:
            return self._asked(line, path, body, headers, timeout)
        except TimeoutError:
            raise LostError(
                f"the server at {self._address} has not answered for {timeout:g} s", late=True
            ) from None
        except (OSError, http.client.HTTPException) as error:
            raise LostError(
                f"the server at {self._address} closed the connection: {_said(error)}", late=False
            ) from None
        finally:
            self._given_back(line)

    def close(self) -> None:
        """Close all connections, also those on which a thread waits for an answer."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
            for line in self._busy:
                if line.sock is not None:
                    with suppress(OSError):
                        line.sock.shutdown(socket.SHUT_RDWR)
        for _, line in idle:
            line.close()

    def _asked(
        self,
        line: http.client.HTTPConnection,
        path: str,
        body: bytes,
        headers: dict[str, str],
        timeout: float,
    ) -> Response:
        try:
            line.sock.settimeout(timeout)
            sent = since_boot()
            line.request("POST", self._address.path + path, body, self._headers | headers)
            response = line.getresponse()
            return Response(response.status, response.headers, response.read(), sent)
        except BaseException:
            line.close()
            raise

    def _lent(self) -> http.client.HTTPConnection | None:
        while True:
            with self._lock:
                if self._closed:
                    raise StoreDownError(f"the connection to {self._address} was closed")
                if not self._idle:
                    return None
                since, line = self._idle.pop()
                self._busy.add(line)
            if monotonic() - since < IDLE:
                return line
            self._dropped(line)

    def _connected(self) -> http.client.HTTPConnection:
        kind = http.client.HTTPSConnection if self._address.secure else http.client.HTTPConnection
        line = kind(self._address.host, self._address.port, timeout=CONNECT)
        try:
            line.connect()
        except OSError as error:
            line.close()
            raise StoreDownError(f"the server at {self._address} cannot be reached: {_said(error)}") from None
        with self._lock:
            self._busy.add(line)
        return line

    def _given_back(self, line: http.client.HTTPConnection) -> None:
        with self._lock:
            keep = line.sock is not None and not self._closed
            self._busy.discard(line)
            if keep:
                self._idle.append((monotonic(), line))
        if not keep:
            line.close()

    def _dropped(self, line: http.client.HTTPConnection) -> None:
        with self._lock:
            self._busy.discard(line)
        line.close()


def _said(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return str(error) or type(error).__name__
