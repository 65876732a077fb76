"""A real browser without a window, another site, and a name that comes to mean another machine."""

import os
import shutil
import subprocess
import threading
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from signal import SIGKILL, SIGTERM
from socket import SHUT_RDWR, create_connection, create_server

import pytest

PAGE = (Path(__file__).parents[1] / "browser" / "page.html").read_bytes()
PATIENCE = 60.0
CHUNK = 65_536
# These names mean this machine, whatever a resolver says; no other name means anything.
NAMES = ("evil.example", "hostile.example")
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--no-proxy-server",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--disable-dev-shm-usage",
    "--host-resolver-rules="
    + ", ".join(f"MAP {name} 127.0.0.1" for name in NAMES)
    + ", MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
)


def chromium():
    """Return where the browser is; skip the test where there is none."""
    # The one without windows costs half as much.
    found = (shutil.which(name) for name in ("chromium-headless-shell", "chromium"))
    return next(filter(None, found), None) or pytest.skip("needs Chromium (Debian: chromium-headless-shell)")


@contextmanager
def browsing(folder, url, *more):
    """Show *url* in a browser of its own, with *more* options; it keeps everything in *folder*."""
    folder.mkdir()
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [chromium(), *_FLAGS, *more, f"--user-data-dir={folder / 'profile'}", url],
            env={"PATH": os.environ["PATH"], "HOME": str(folder), "XDG_RUNTIME_DIR": str(folder)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            # Debian's command is a script that waits for the browser: both are in a group of their own.
            _end_group(process, SIGTERM)
            try:
                process.wait(PATIENCE)
            finally:
                _end_group(process, SIGKILL)
                process.wait(PATIENCE)


def _end_group(process, how):
    with suppress(ProcessLookupError):
        os.killpg(process.pid, how)


class Stranger(ThreadingHTTPServer):
    """Another site, on this machine: it has the page, and hears what the page reports."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.report = None
        self.reported = threading.Event()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def port(self):
        return self.server_address[1]


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self._answer(PAGE if self.path.startswith("/page") else b"")

    def do_POST(self):
        self.server.report = self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(b"")
        self.server.reported.set()

    def _answer(self, body):
        self.send_response(200 if body else 204)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Rebound:
    """An address that first shows the page and then is the server's, byte by byte.

    So does a name whose owner changes what it means.
    """

    def __init__(self, port):
        self._server = ("127.0.0.1", port)
        self._listener = create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._ends = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        for end in (self._listener, *self._ends):
            _cut(end)

    def _accept(self):
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._ends.append(client)
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        with suppress(OSError):
            first = client.recv(CHUNK)
            if first.startswith(b"GET /page"):
                head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {len(PAGE)}\r\n"
                client.sendall(f"{head}Connection: close\r\n\r\n".encode() + PAGE)
            elif first:
                server = create_connection(self._server)
                self._ends.append(server)
                server.sendall(first)
                threading.Thread(target=_pass, args=(server, client), daemon=True).start()
                _pass(client, server)
        _cut(client)


def _pass(source, target):
    with suppress(OSError):
        while chunk := source.recv(CHUNK):
            target.sendall(chunk)
    _cut(target)


def _cut(end):
    with suppress(OSError):
        end.shutdown(SHUT_RDWR)
    end.close()
