"""A real `penstock serve` in a process of its own, and a small client for it."""

import http.client
import json
import signal
import subprocess
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from tests.support.command import Process
from tests.support.timing import until

TOP = Path(__file__).parents[2]
MEDIA = "application/openjobspec+json"
PATIENCE = 60.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: *body* as plain values where it is JSON."""

    status: int
    body: object
    headers: dict[str, str]

    def __getitem__(self, name):
        return self.body[name]


class Served:
    """A server on loopback that can be killed and started again at the same address."""

    def __init__(self, store, *arguments):
        self._arguments = ("serve", "--store", str(store), *arguments)
        self._process = None
        self._port = 0
        self._local = threading.local()
        self._connections = []
        self._reader = None
        self.log = []

    @property
    def url(self):
        return f"http://127.0.0.1:{self._port}"

    @property
    def silo(self):
        """The address of its gRPC server."""
        told = [line for line in self.log if "Silo's clients at " in line]
        return told[-1].rsplit(" at ", 1)[1].strip()

    @property
    def pid(self):
        return self._process.pid

    def start(self):
        """Start it and wait until it says where it is."""
        self._process = Process(*self._arguments, "--port", str(self._port), folder=TOP, streams=["stderr"])
        for line in self._process.stderr:
            self.log.append(line)
            if " at http://" in line:
                self._port = urlsplit(line.rsplit(" at ", 1)[1].strip()).port
                break
        else:
            self._process.stderr.close()
            self._process.wait(PATIENCE)
            raise AssertionError("the server did not start:\n" + "".join(self.log))
        # The test must read on, or the server would wait in the middle of a warning.
        self._reader = threading.Thread(target=self._read_on, args=(self._process.stderr,), daemon=True)
        self._reader.start()

    def kill(self):
        """Kill it with -9: it has no time for anything."""
        self._process.kill()
        self._process.wait()
        self._reader.join(PATIENCE)

    def restart(self):
        """Start it again, at the same address."""
        self.start()

    def signal(self, number):
        """Send it a signal."""
        self._process.send_signal(number)

    def stop(self):
        """Ask it to end; return its exit code."""
        while self._connections:
            self._connections.pop().close()
        if self._process is None or self._process.returncode is not None:
            return None if self._process is None else self._process.returncode
        self.signal(signal.SIGTERM)
        return self.wait()

    def wait(self):
        """Wait until it has ended; return its exit code."""
        try:
            code = self._process.wait(PATIENCE)
            self._reader.join(PATIENCE)
            return code
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise

    def call(self, method, path, body=None, **headers):
        """Send one request; *body* becomes JSON unless it is bytes already."""
        content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        sent = {"Content-Type": MEDIA} | {name.replace("_", "-"): value for name, value in headers.items()}
        for _ in range(2):
            connection, is_new = self._connection()
            try:
                connection.request(method, path, content, sent)
                answer = connection.getresponse()
                text = answer.read()
            except (http.client.HTTPException, OSError):
                connection.close()
                self._local.kept = None
                # An idle connection may have been closed meanwhile; a new one tells the truth.
                if is_new:
                    raise
                continue
            plain = json.loads(text) if text and "json" in answer.headers.get("Content-Type", "") else text
            return Answer(answer.status, plain, dict(answer.headers.items()))
        raise AssertionError("unreachable")

    def get(self, path, **headers):
        return self.call("GET", path, **headers)

    def post(self, path, body=None, **headers):
        return self.call("POST", path, body, **headers)

    def put(self, path, body=None, **headers):
        return self.call("PUT", path, body, **headers)

    def delete(self, path, **headers):
        return self.call("DELETE", path, **headers)

    def enqueue(self, body, *, status=201, **headers):
        """Enqueue a job; return it."""
        answer = self.post("/ojs/v1/jobs", body, **headers)

        assert status == answer.status, answer.body
        return answer["job"]

    def fetch(self, *queues, count=1, **more):
        """Fetch jobs; return them."""
        headers = {name: more.pop(name) for name in list(more) if name.startswith("X_")}
        # One that meets another transaction may come back empty; that nothing comes is surer of two.
        for _ in range(2):
            answer = self.post("/ojs/v1/workers/fetch", {"queues": queues, "count": count, **more}, **headers)

            assert 200 == answer.status, answer.body
            if answer["jobs"] or "wait_ms" in more:
                break
        return answer["jobs"]

    def ack(self, job, **headers):
        """Report a job as done."""
        answer = self.post("/ojs/v1/workers/ack", {"job_id": job["id"]}, **headers)

        assert 200 == answer.status, answer.body
        return answer.body

    def nack(self, job, error=None, **headers):
        """Report a job as failed."""
        error = {"code": "handler_error", "message": "no", **(error or {})}
        answer = self.post("/ojs/v1/workers/nack", {"job_id": job["id"], "error": error}, **headers)

        assert 200 == answer.status, answer.body
        return answer.body

    def job(self, job, **headers):
        """Return a job as it is now."""
        return self.get(f"/ojs/v1/jobs/{job['id']}", **headers)["job"]

    def until(self, look, seconds=PATIENCE):
        """Look again and again until there is something to see; return it."""
        return until(look, seconds, lambda: "".join(self.log[-20:]), every=0.02)

    def _connection(self):
        kept = getattr(self._local, "kept", None)
        if kept is not None and kept[0] == self._process.pid:
            return kept[1], False
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE)
        self._local.kept = (self._process.pid, connection)
        self._connections.append(connection)
        return connection, True

    def _read_on(self, stream):
        for line in stream:
            self.log.append(line)
        stream.close()


@contextmanager
def served(store, *arguments):
    """Serve *store* on a free port of loopback until the end."""
    server = Served(store, *arguments)
    try:
        server.start()
        yield server
    finally:
        server.stop()


@contextmanager
def guarded(folder, *tokens):
    """Serve a store in *folder* until the end, to clients with one of *tokens*."""
    file = folder / "tokens"
    file.touch(0o600)
    file.write_text("\n".join(tokens))
    with served(folder / "jobs.db", "--token-file", str(file)) as server:
        yield server
