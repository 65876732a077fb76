"""The external provider: holds an account in flight while it answers a call, and records what it sees.

A call that arrives while another of the same account is in flight is a collision.
Run as a process of its own; it prints its address, and ends when its standard input closes, so that
it never outlives the process that started it.
"""

import json
import sys
import threading
from collections import Counter
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final
from urllib.parse import unquote

from penstock.clock import MILLISECOND, SECOND, monotonic, pause
from penstock.demo.measure import Call

HOLD: Final = 400 * MILLISECOND
GREETING: Final = 50 * MILLISECOND
BEGAN: Final = "X-Began"
WORKER: Final = "X-Worker"


class Ledger:
    """What the provider has seen since it was last reset."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._in_flight: Counter[str] = Counter()
        self._calls: list[Call] = []
        self._workers: set[int] = set()

    def arrive(self, account: str) -> tuple[int, bool]:
        """Note an arrival; return its moment and whether the account was busy."""
        with self._lock:
            arrived = monotonic()
            collided = self._in_flight[account] > 0
            self._in_flight[account] += 1
        return arrived, collided

    def leave(self, account: str) -> int:
        """Note that a call of *account* is over; return when."""
        with self._lock:
            self._in_flight[account] -= 1
            return monotonic()

    def keep(self, call: Call) -> None:
        """Add *call* to the record."""
        with self._lock:
            self._calls.append(call)

    def greet(self, worker: int) -> None:
        """Note that the process *worker* can reach the provider."""
        with self._lock:
            self._workers.add(worker)

    def read(self) -> dict[str, object]:
        """Return everything on record."""
        with self._lock:
            return {"calls": [asdict(call) for call in self._calls], "workers": sorted(self._workers)}

    def reset(self) -> None:
        """Forget the calls of the last scenario."""
        with self._lock:
            self._calls.clear()


class Handler(BaseHTTPRequestHandler):
    """Answers `POST /call/ACCOUNT/OP`, `POST /hello`, `POST /reset` and `GET /record`."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: "Provider"

    def do_POST(self) -> None:
        """Take a call, a greeting or a reset."""
        match self.path.strip("/").split("/"):
            case ["call", account, op]:
                self._answer({"outcome": self._take(unquote(account), unquote(op))})
            case ["hello"]:
                self.server.ledger.greet(int(self.headers[WORKER]))
                pause(GREETING / SECOND)
                self._answer({})
            case ["reset"]:
                self.server.ledger.reset()
                self._answer({})
            case _:
                self.send_error(404)

    def do_GET(self) -> None:
        """Show the record."""
        self._answer(self.server.ledger.read())

    def log_message(self, *_: object) -> None:
        """Stay silent: the record is the log."""

    def _take(self, account: str, op: str) -> str:
        ledger = self.server.ledger
        arrived, collided = ledger.arrive(account)
        pause(HOLD / SECOND)
        ended = ledger.leave(account)
        ledger.keep(Call(account, op, int(self.headers[BEGAN]), arrived, ended, collided))
        return "collision" if collided else "ok"

    def _answer(self, content: object) -> None:
        body = json.dumps(content).encode()
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        # One write, so that head and body travel in one packet.
        self.wfile.write(head.encode() + body)


class Provider(ThreadingHTTPServer):
    """A web server on a free port of this machine only."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.ledger = Ledger()

    def handle_error(self, *_: object) -> None:
        """Stay silent: a worker that is killed cuts its connections."""


def main() -> None:
    """Serve until standard input closes."""
    with Provider() as provider:
        threading.Thread(target=provider.serve_forever, daemon=True).start()
        sys.stdout.write(f"127.0.0.1:{provider.server_port}\n")
        sys.stdout.flush()
        sys.stdin.buffer.read()


if __name__ == "__main__":
    main()
