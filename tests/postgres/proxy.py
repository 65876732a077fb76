"""A wire between clients and a PostgreSQL server that can be cut at the worst moment."""

import select
import socket
import threading
from contextlib import suppress
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

CHUNK = 65_536
# What the server says once it has done so.
COMMITTED = b"COMMIT\x00"
ADDED = b"SELECT 1\x00"


class Proxy:
    """Passes everything on, until it is told what not to."""

    def __init__(self, url):
        parts = urlsplit(url)
        self._server = (parts.hostname, parts.port or 5432)
        self._listener = socket.create_server(("127.0.0.1", 0))
        user, at, _ = parts.netloc.rpartition("@")
        # What is encrypted could not be read on the way.
        query = urlencode([*parse_qsl(parts.query), ("sslmode", "disable"), ("gssencmode", "disable")])
        place = f"{user}{at}127.0.0.1:{self._listener.getsockname()[1]}"
        self.url = urlunsplit(parts._replace(netloc=place, query=query))
        self._lock = threading.Lock()
        self._answer = None
        self._request = None
        self._late = None
        self.cuts = 0
        self._wires = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def lose_answer(self, words):
        """Cut the next connection on which the server says these *words*, instead of passing them on."""
        self._answer = words

    def lose_request(self, words):
        """Cut the next connection on which a client says these *words*, instead of passing them on."""
        self._request = words

    def hold_request(self, words):
        """Cut the next client who says these *words*; return what lets the server hear them."""
        self._request, self._late = words, threading.Event()
        return self._late.set

    def close(self):
        if self._late is not None:
            self._late.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            for wire in self._wires:
                _cut(wire)
        for thread in self._threads:
            thread.join(5)

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self._server)
            except OSError:
                client.close()
                continue
            thread = threading.Thread(target=self._pass_on, args=(client, server), daemon=True)
            with self._lock:
                self._wires += [client, server]
                self._threads.append(thread)
            thread.start()

    def _pass_on(self, client, server):
        with client, server:
            while True:
                for source in select.select([client, server], [], [])[0]:
                    try:
                        said = source.recv(CHUNK)
                        if not said:
                            return
                        if self._is_lost(said, asked=source is client):
                            if self._late is not None:
                                _cut(client)
                                self._late.wait()
                                server.sendall(said)
                                server.recv(CHUNK)
                            return
                        (server if source is client else client).sendall(said)
                    except OSError:
                        return

    def _is_lost(self, said, *, asked):
        with self._lock:
            words = self._request if asked else self._answer
            if words is None or words not in said:
                return False
            if asked:
                self._request = None
            else:
                self._answer = None
            self.cuts += 1
            return True


def _cut(wire):
    with suppress(OSError):  # it may have been cut before
        wire.shutdown(socket.SHUT_RDWR)
