"""Workers that are killed and replaced, watched from outside: what their handlers did, by the clock on the wall."""

import random
import time
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import pytest

from penstock.clock import SECOND
from penstock.engine import open_engine
from penstock.lifecycle.states import State
from penstock.limits.rules import Numbers, Window
from penstock.store import history
from tests.support import journal, outside
from tests.support.command import Process
from tests.support.timing import most_at_once, until

ROOT = Path(__file__).parents[2]
WORKERS = 3
WORKER = (
    "worker", "tests.support.outside:app", "--queue", "default", "--queue", "boxed",
    "--lease", "2s", "--threads", "6", "--concurrency", "6",
)  # fmt: skip
STORM = 5.0  # seconds
MIX = ("one", "two", "two", "two", "rated", "spaced", "spaced", "spaced", "both", "boxed", "boxed")
KILLS = 4
ENOUGH = 300  # jobs, for every limit to be pressed
PATIENCE = 60.0
# Nanoseconds that a worker grants between its look at the clock and its handler's first line.
GUARD = 5_000_000
QUEUE_SLOTS, QUEUE_RATE = 2, Window(40, SECOND)


class Span(NamedTuple):
    """A handler that ran, in nanoseconds; *vouched* is the latest moment its worker can have taken for its begin.

    A thread that the machine halts for longer than `GUARD`, right before the first line, begins later than
    can be known.
    """

    job: str
    began: int
    ended: int
    vouched: int


class Watch:
    """Worker processes and their journal; all of them end with the test."""

    def __init__(self, folder):
        self.store = str(folder / "jobs.db")
        self.journal = folder / "journal"
        self.engine = open_engine(self.store)
        self.workers = []
        self.killed = {}  # when, by process
        self.jobs = {}  # (task, account), by job
        self.environment = {outside.STORE: self.store, outside.JOURNAL: str(self.journal)}

    def hire(self):
        self.workers.append(Process(*WORKER, "--log-level", "error", folder=ROOT, **self.environment))
        return self.workers[-1]

    def kill(self, worker):
        worker.kill()
        worker.wait()
        self.killed[worker.pid] = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        self.workers.remove(worker)

    def enqueue(self, name, account):
        with outside.app.connection.lent(self.engine):
            self.jobs[getattr(outside, name).enqueue(account).id] = (name, account)

    def lines(self):
        return journal.read(self.journal)

    def all_done(self):
        return set(self.engine.count()) == {State.DONE}

    def begun_by(self):
        return {line["pid"] for line in self.lines()}

    def at_work(self):
        """Return the processes that have begun handlers and not ended them, dead ones too."""
        lines = self.lines()
        ended = {_attempt(line) for line in lines if line["what"] == "ended"}
        return {line["pid"] for line in lines if line["what"] == "began" and _attempt(line) not in ended}

    def attempts(self):
        """Return every handler that ran."""
        ended = {_attempt(line): line["at"] for line in self.lines() if line["what"] == "ended"}
        spans = []
        for line in self.lines():
            if line["what"] == "began":
                # One that wrote no end died with its process.
                end = ended.get(_attempt(line), self.killed.get(line["pid"]))
                end = min(end, self._lost(line, end))
                vouched = min(line["at"], line["looked"] + GUARD)
                spans.append(Span(line["job"], line["at"], end, vouched))
        return spans

    def _lost(self, line, otherwise):
        """Return when an attempt lost its lease: from then on it is not ours to count."""
        seq = self.engine.job(line["job"]).seq
        offset = self.engine.clock.offset
        for attempt, at, error in self.engine.store.read(lambda db: history.failures(db, seq)):
            if attempt == line["attempt"] and "LeaseLost" in error:
                return max((at - offset) * 1_000, line["at"])
        return otherwise

    def close(self):
        for worker in self.workers:
            worker.kill()
            worker.wait()
        self.engine.close()


@pytest.fixture
def watch(tmp_path):
    watch = Watch(tmp_path)
    yield watch
    watch.close()


def test_killed_workers_break_no_limit_and_lose_no_job(watch):
    chance = random.Random()
    watch.engine.configure("queue", "boxed", Numbers(slots=QUEUE_SLOTS, rate=QUEUE_RATE))
    for _ in range(WORKERS):
        watch.hire()

    end, next_kill = time.monotonic() + STORM, time.monotonic() + 1.0
    while time.monotonic() < end or (
        (len(watch.killed) < KILLS or len(watch.jobs) < ENOUGH or not watch.killed.keys() & watch.at_work())
        and time.monotonic() < end + PATIENCE
    ):
        for name in MIX:
            watch.enqueue(name, chance.randrange(3))
        if time.monotonic() > next_kill:
            at_work = [worker for worker in watch.workers if worker.pid in watch.at_work()]
            if at_work:
                watch.kill(chance.choice(at_work))
                watch.hire()
                next_kill = time.monotonic() + chance.uniform(0.3, 1.0)
        time.sleep(0.08)
    until(watch.all_done, PATIENCE, watch.engine.count, every=0.05)

    found = check_limits(watch)
    assert len(watch.killed) >= KILLS
    assert len(watch.attempts()) > len(watch.jobs)  # some died in the middle of a handler, and ran again
    assert most_at_once((span.began, span.ended) for span in found["boxed"]) <= QUEUE_SLOTS
    windows(found["boxed"], QUEUE_RATE.limit, QUEUE_RATE.period * 1_000)
    assert watch.engine.doctor() == []


def check_limits(watch):
    """See that all jobs ran and none broke a limit; return the handlers that ran, by what they had to keep to."""
    found = defaultdict(list)
    for span in watch.attempts():
        for kind in _kinds(*watch.jobs[span.job]):
            found[kind].append(span)
    assert {span.job for spans in found.values() for span in spans} == set(watch.jobs)
    for account in range(3):
        for kind, most in ((f"one:{account}", 1), (f"two:{account}", 2)):
            assert most_at_once((span.began, span.ended) for span in found[kind]) <= most, kind
    windows(found["rated"], 10, 500_000_000)
    windows(found["spaced"], 1, 1_000_000_000 // 30)
    return found


def _kinds(name, account):
    """Return the names of what a job must keep to."""
    return {
        "one": {f"one:{account}"},
        "two": {f"two:{account}"},
        "both": {f"one:{account}", "rated"},
    }.get(name, {name})


def windows(spans, limit, period):
    """See that no window of *period* nanoseconds has more starts than *limit*."""
    starts = sorted(spans, key=lambda span: span.began)
    assert len(starts) > limit
    close = [
        (later.began - earlier.vouched) / 1e6 for earlier, later in zip(starts, starts[limit:], strict=False)
    ]
    assert min(close) >= period / 1e6  # milliseconds


def _attempt(line):
    return line["job"], line["attempt"], line["pid"]
