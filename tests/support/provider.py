"""A provider on loopback that counts the requests it gets."""

import json
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple


class Got(NamedTuple):
    """A request, and when it came."""

    at: float
    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def plain(self):
        return json.loads(self.body)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256  # a request that finds no room comes again a second later


class Provider:
    """Answers with *answers* in turn, each (status, headers, body), and then with 200."""

    def __init__(self, *answers, hold=None):
        self.got = []
        self._answers = list(answers)
        self._lock = threading.Lock()
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                at = time.monotonic()
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                with provider._lock:
                    provider.got.append(Got(at, self.command, self.path, dict(self.headers.items()), body))
                    status, headers, content = (provider._answers or [(200, {}, b"ok")]).pop(0)
                if hold is not None:
                    hold.wait(20)
                self.send_response(status)
                for name, value in {"Content-Length": str(len(content)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content)

            def log_message(self, *_):
                pass

        for method in ("GET", "PUT", "PATCH", "DELETE", "HEAD"):
            setattr(Handler, f"do_{method}", Handler.do_POST)
        self._server = _Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def times(self):
        return sorted(each.at for each in self.got)

    def serve(self):
        self._server.serve_forever(0.05)

    def close(self):
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def providing(*answers, **options):
    provider = Provider(*answers, **options)
    thread = threading.Thread(target=provider.serve)
    thread.start()
    try:
        yield provider
    finally:
        provider.close()
        thread.join(20)


def most_in_window(times, seconds):
    """Return how many of *times* lie in any one window of so many seconds, at the most."""
    times = sorted(times)
    return max((sum(first <= at < first + seconds for at in times) for first in times), default=0)
