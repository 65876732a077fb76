"""The article's four scenarios, with its own tasks and real worker processes."""

import json
import signal
import threading
import time
from collections import Counter, defaultdict
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from penstock.dialects.pynenc import InvocationStatus, ReusedInvocation
from tests.support import pynenc_tasks as tasks
from tests.support.command import Process

TOP = Path(__file__).parents[2]
ACCOUNTS = ("acme", "globex", "initech")
OPS = ("fetch_profile", "list_invoices", "update_metadata", "refresh_usage")
HOLD = 0.4
# Long enough for a slow machine to make all the calls of a scenario meanwhile.
LONG_HOLD = 2.0


class Provider(ThreadingHTTPServer):
    """Holds an account in flight for a while per call, and notes who finds it busy."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Door)
        self.lock = threading.Lock()
        self.reset()

    def reset(self, hold: float = HOLD) -> None:
        self.hold = hold
        self.calls: list[tuple[str, str]] = []
        self.collisions = 0
        self.in_flight: Counter[str] = Counter()
        self.peak = 0

    def ops(self) -> dict[str, list[str]]:
        by_account = defaultdict(list)
        for account, op in self.calls:
            by_account[account].append(op)
        return dict(by_account)


class Door(BaseHTTPRequestHandler):
    server: Provider

    def do_POST(self) -> None:
        _, _, account, op = self.path.split("/")
        with self.server.lock:
            self.server.calls.append((account, op))
            collided = self.server.in_flight[account] > 0
            self.server.collisions += collided
            self.server.in_flight[account] += 1
            self.server.peak = max(self.server.peak, self.server.in_flight.total())
        time.sleep(self.server.hold)
        with self.server.lock:
            self.server.in_flight[account] -= 1
        body = json.dumps({"outcome": "collision" if collided else "ok"}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def provider():
    with Provider() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@contextmanager
def worker(provider: Provider):
    address = f"127.0.0.1:{provider.server_address[1]}"
    process = Process("worker", "tests.support.pynenc_tasks:app", "--log-level", "warning", PROVIDER=address)
    try:
        yield process
        assert process.poll() is None
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


@pytest.fixture(params=[1, 3])
def stage(request, provider, tmp_path, monkeypatch):
    """A provider, and so many workers on one file."""
    monkeypatch.chdir(tmp_path)
    with ExitStack() as stack:
        stack.callback(tasks.app.close)
        for _ in range(request.param):
            stack.enter_context(worker(provider))
        warm = [tasks.call_unsafe(account, "warm") for account in ACCOUNTS]
        assert {"ok"} == {invocation.result for invocation in warm}
        provider.reset()
        yield provider


def test_the_articles_scenarios_come_out_as_it_says(stage):
    calls = [(account, op) for account in ACCOUNTS for op in OPS]

    a_unsafe = [tasks.call_unsafe(*call) for call in calls]
    assert {"ok", "collision"} == {invocation.result for invocation in a_unsafe}
    assert len(stage.calls) == 12
    assert stage.collisions > 0

    stage.reset()
    b_keyed = [tasks.call_keyed(*call) for call in calls]
    assert ["ok"] * 12 == [invocation.result for invocation in b_keyed]
    assert (len(stage.calls), stage.collisions, stage.peak) == (12, 0, 3)
    assert {key: list(OPS) for key in ACCOUNTS} == stage.ops()

    stage.reset(LONG_HOLD)
    c_drop = [tasks.call_keyed_drop(*call) for call in calls]
    assert ["ok", *["KeyError"] * 3] * 3 == [result(invocation) for invocation in c_drop]
    assert stage.collisions == 0
    assert {key: ["fetch_profile"] for key in ACCOUNTS} == stage.ops()
    final = Counter(invocation.status for invocation in c_drop)
    assert {InvocationStatus.SUCCESS: 3, InvocationStatus.CONCURRENCY_CONTROLLED_FINAL: 9} == final

    stage.reset(LONG_HOLD)
    d_once = []
    for _ in range(8):
        d_once += [tasks.refresh_once(account) for account in ACCOUNTS]
        time.sleep(0.02)
    assert ["ok"] * 24 == [invocation.result for invocation in d_once]
    assert {key: ["refresh"] for key in ACCOUNTS} == stage.ops()
    assert sum(isinstance(invocation, ReusedInvocation) for invocation in d_once) == 21
    assert not tasks.app.engine.doctor()


def result(invocation):
    try:
        return invocation.result
    except KeyError:
        return "KeyError"
