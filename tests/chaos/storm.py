"""Workers, producers and a provider around one store, and everything that is done to them."""

import json
import signal
import subprocess
import tempfile
import time
from collections import Counter
from pathlib import Path

import psycopg

from penstock.engine import open_engine
from penstock.errors import StoreError
from penstock.job import InstanceState
from penstock.lifecycle.states import State
from penstock.limits.rules import Numbers
from tests.chaos.plan import WORKERS
from tests.chaos.provider import PROVIDER, now
from tests.chaos.referee import Story
from tests.chaos.rules import PASSES_QUEUE, QUEUE, QUEUE_SLOTS
from tests.support.command import Process

ROOT = Path(__file__).parents[2]
PRODUCERS = ("a", "b")
RIPE = 0.5  # seconds to wait for a worker to be in the middle of a handler
BEGIN = 20.0
END = 15.0
PAGE = 1_000
LIVE = (InstanceState.SCHEDULED, InstanceState.DEFERRED, InstanceState.RUNNING, InstanceState.PAUSED)


class Storm:
    """A storm over the store at *url*; *server* is whom to restart.  All its processes end with it."""

    def __init__(self, url, folder, seed, *, server=None, wounds=()):
        self.engine = open_engine(url)
        self.engine.configure("queue", QUEUE, Numbers(slots=QUEUE_SLOTS))
        self.complaints = []
        self._server = server
        self._wounds = wounds
        self._record = folder / "record"
        self._log = folder / "log"
        self._read = 0
        self._lines = []
        self._at_work = Counter()  # handlers, by process
        self._killed = {}
        self._frozen = {}  # since when, by worker
        self._troubles = []
        self._processes = []
        # Paths of sockets must be short.
        self._nook = tempfile.TemporaryDirectory(prefix="chaos-")
        self._environment = {"PENSTOCK_URL": url, PROVIDER: str(Path(self._nook.name) / "provider")}
        try:
            self._provider = self._begin("provider", self._environment[PROVIDER], str(self._record))
            self._provider.stdout.readline()
            self._workers = [self._hire() for _ in range(WORKERS)]
            self._producers = [self._begin("producer", name, seed, *wounds) for name in PRODUCERS]
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        for process in self._processes:
            process.kill()
            process.wait()
            process.stdin.close()
            process.stdout.close()
        self._nook.cleanup()
        self.engine.close()

    def rage(self, plan, length):
        """Let all of *plan* happen in *length* seconds, once every process is at work."""
        self._await_workers()
        begin = time.monotonic()
        for blow in plan:
            time.sleep(max(0.0, begin + blow.at - time.monotonic()))
            getattr(self, f"_{blow.what}")(blow)
        time.sleep(max(0.0, begin + length - time.monotonic()))

    def calm(self, patience):
        """Let the workers finish what there is, then end every process."""
        for worker in list(self._frozen):
            self._wake(worker)
        self._send_home("producer", self._producers, lambda producer: producer.stdin.close())
        if not self._until(self._all_ended, patience):
            self.complaints.append(f"after {patience:g} s there still are {self._left()}")
        self.complaints += self.engine.doctor()
        self._await_workers()
        self._send_home("worker", self._workers, lambda worker: worker.send_signal(signal.SIGTERM))
        self._provider.stdin.close()
        self._provider.wait(END)

    def story(self):
        """Tell all that is known of the storm."""
        views, before = [], None
        while page := self.engine.jobs(before=before, limit=PAGE):
            views += page
            before = page[-1].seq
        offset = self._offset()
        rescues = {
            (view.id, failure.attempt): failure.at * 1_000 - offset
            for view in views
            if view.attempt > 1
            for failure in self.engine.failures(view.id)
            if failure.kind == "LeaseLost"
        }
        # No handler of a task makes passes.
        states = {view.id: _state(view) for view in views if view.queue != PASSES_QUEUE}
        runs = {view.id: view.state.value for view in self.engine.instances(limit=PAGE)[0]}
        lines = self._hear()
        halts = [(line["since"], line["at"]) for line in lines if line["what"] == "halted"]
        return Story(lines, states, rescues, self._killed, self._troubles + halts, runs)

    def _await_workers(self):
        """Wait until every worker is at work: a signal that comes earlier kills it."""

        def ready():
            return {line["pid"] for line in self._hear() if line["what"] == "ready"}

        assert self._until(lambda: ready() >= {worker.pid for worker in self._workers}, BEGIN)

    def _offset(self):
        """Return what to take from the store's time to get that of the provider."""
        if self._server is None:
            return self.engine.clock.now() * 1_000 - now()
        tries = []
        with psycopg.connect(self._server.url, autocommit=True) as connection:
            for _ in range(50):
                before = now()
                ((seconds,),) = connection.execute("SELECT extract(epoch FROM clock_timestamp())").fetchall()
                after = now()
                tries.append((after - before, int(seconds * 1_000_000_000) - (before + after) // 2))
        return min(tries)[1]  # the quickest answer is the surest

    # What can happen to them.

    def _kill(self, blow):
        worker = self._workers[blow.worker]
        self._ripen(worker, blow)
        if worker.poll() is not None:
            self.complaints.append(f"worker {worker.pid} ended by itself: {worker.returncode}")
        worker.kill()
        worker.wait()
        self._killed[worker.pid] = now()
        self._workers[blow.worker] = self._hire()

    def _freeze(self, blow):
        worker = self._workers[blow.worker]
        self._ripen(worker, blow)
        self._frozen[blow.worker] = now()
        worker.send_signal(signal.SIGSTOP)

    def _thaw(self, blow):
        self._wake(blow.worker)

    def _wake(self, number):
        self._workers[number].send_signal(signal.SIGCONT)
        self._troubles.append((self._frozen.pop(number), now()))

    def _restart(self, blow):
        since = now()
        self._server.stop(blow.how)
        time.sleep(blow.down)
        self._server.start()
        self._troubles.append((since, now()))

    def _ripen(self, worker, blow):
        """Wait a moment for the worker to be in the middle of a handler, if that is wanted."""
        self._until(lambda: not blow.ripe or (self._hear() and self._at_work[worker.pid]), RIPE)

    def _hear(self):
        """Return all the provider was told so far."""
        if self._record.exists():
            with self._record.open("rb") as file:
                file.seek(self._read)
                text = file.read()
            whole = text[: text.rfind(b"\n") + 1]
            self._read += len(whole)
            for line in map(json.loads, whole.splitlines()):
                self._lines.append(line)
                self._at_work[line["pid"]] += {"began": 1, "ended": -1}.get(line["what"], 0)
        return self._lines

    def _all_ended(self):
        try:
            return not self._left()
        except StoreError:
            return False

    def _left(self):
        """Return how many jobs are not done, by state, and how many instances have not ended."""
        jobs = {state.value: count for state, count in self.engine.count().items() if state != State.DONE}
        live = self.engine.instances(state=LIVE, limit=0)[1]
        return jobs | ({"instances": live} if live else {})

    def _hire(self):
        return self._begin("worker", *self._wounds)

    def _begin(self, role, *arguments):
        process = Process(
            *arguments, module=f"tests.chaos.{role}", folder=ROOT,
            streams=("stdin", "stdout"), log=self._log, **self._environment,
        )  # fmt: skip
        self._processes.append(process)
        return process

    def _send_home(self, role, processes, ask):
        for process in processes:
            ask(process)
        for process in processes:
            try:
                status = process.wait(END)
            except subprocess.TimeoutExpired:
                self.complaints.append(f"{role} {process.pid} does not end")
            else:
                if status:
                    self.complaints.append(f"{role} {process.pid} ended with status {status}")

    @staticmethod
    def _until(true, patience):
        deadline = time.monotonic() + patience
        while not (answer := true()) and time.monotonic() < deadline:
            time.sleep(0.01)
        return answer


def _state(view):
    """Tell the state of a job, and why it failed if it did."""
    return f"{view.state.value}: {view.error}" if view.error else view.state.value
