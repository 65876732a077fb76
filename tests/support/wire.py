"""A wire between clients and a server that loses answers, or is long."""

import socket
import threading
import time
from contextlib import suppress
from urllib.parse import urlsplit

CHUNK = 65_536


class Wire:
    """Passes everything on to the server at *url*; *delay* seconds later, each way."""

    def __init__(self, url, delay=0.0):
        parts = urlsplit(url)
        self._server = (parts.hostname, parts.port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.delay = delay
        self._lose = None
        self.lost = 0
        self._ends = []
        self._closed = False
        threading.Thread(target=self._accept, daemon=True).start()

    def lose_answer(self, words):
        """Hang up instead of passing on the answer to the next question with these *words*."""
        self._lose = words

    def close(self):
        self._closed = True
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for end in list(self._ends):
            _cut(end)

    def _accept(self):
        while not self._closed:
            try:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._server)
            except OSError:
                continue
            self._ends += [client, server]
            losing = threading.Event()
            for source, target, asks in ((client, server, True), (server, client, False)):
                threading.Thread(target=self._pass, args=(source, target, asks, losing), daemon=True).start()

    def _pass(self, source, target, asks, losing):
        with suppress(OSError):
            while chunk := source.recv(CHUNK):
                if asks and self._lose is not None and self._lose in chunk:
                    self._lose = None
                    losing.set()
                if not asks and losing.is_set():
                    self.lost += 1
                    break
                if self.delay:
                    time.sleep(self.delay)
                target.sendall(chunk)
        _cut(source)
        _cut(target)


def _cut(end):
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
