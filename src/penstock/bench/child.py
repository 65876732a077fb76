"""A worker process of the benchmark: `python -m penstock.bench.child ORDER`.

It says when it is ready, waits for a word, works as ordered and prints, as JSON, what its handlers saw.
"""

import asyncio
import os
import re
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import msgspec

from penstock.app import App
from penstock.bench.worker_processes import FLOW, Assignment, Sight
from penstock.logs import LEVEL, log_to_stderr
from penstock.worker import Worker
from penstock.worker.gc_tuning import calm


class Witness:
    """The handlers, and what they see; all but *plain* run in one event loop."""

    def __init__(self, enough: int) -> None:
        self.begun = 0
        self.overlaps = 0
        self.starts: list[tuple[int, int]] = []
        self.spans: list[tuple[int, int, int]] = []
        self.enough_at: float | None = None
        self.satisfied = threading.Event()
        self._enough = enough
        self._running: Counter[int] = Counter()

    async def noop(self) -> None:
        """Do nothing, in the loop."""

    def plain(self) -> None:
        """Do nothing, in a thread."""

    async def counted(self) -> None:
        """Count, and say when it is enough."""
        self.begun += 1
        if self.begun == self._enough:
            self.enough_at = time.perf_counter()
            self.satisfied.set()

    async def slow(self) -> None:
        """Take 20 milliseconds."""
        await asyncio.sleep(0.02)

    async def keyed(self, key: int) -> None:
        """Take a millisecond, and notice company."""
        self._running[key] += 1
        self.overlaps += self._running[key] > 1
        await asyncio.sleep(0.001)
        self._running[key] -= 1

    async def held(self, key: int, milliseconds: int) -> None:
        """Take so long, and note from when to when."""
        began = time.monotonic_ns()
        await asyncio.sleep(milliseconds / 1_000)
        self.spans.append((key, began, time.monotonic_ns()))

    async def stamped(self, number: int) -> None:
        """Note the moment at once."""
        self.starts.append((number, time.time_ns()))


def main() -> None:
    """Work as ordered."""
    assignment = msgspec.json.decode(sys.argv[1], type=Assignment)
    witness = Witness(assignment.enough)
    app = App(assignment.url)
    task = app.task(name=f"bench.{assignment.handler}")(getattr(witness, assignment.handler))

    @app.workflow(name=FLOW)
    async def flow(steps: int) -> None:
        for _ in range(steps):
            await task.step()

    calm()
    # As `penstock worker` does, because a line for each job is part of its work.
    log_to_stderr(LEVEL, as_json=False)
    worker = app.worker(concurrency=assignment.at_once) if assignment.at_once else app.worker()
    _await_word()
    threading.Thread(target=_watch, args=(assignment, witness, worker), daemon=True).start()
    began = app.engine.clock.now()
    clock = time.perf_counter()
    worker.run(until_idle=assignment.idle, signals=True)
    seconds = (witness.enough_at or time.perf_counter()) - clock
    sight = Sight(began, seconds, witness.overlaps, _peak_megabytes(), witness.starts, witness.spans)
    sys.stdout.buffer.write(msgspec.json.encode(sight))


def _await_word() -> None:
    sys.stdout.buffer.write(b"ready\n")
    sys.stdout.buffer.flush()
    os.read(sys.stdin.fileno(), 1)


def _watch(assignment: Assignment, witness: Witness, worker: Worker) -> None:
    if assignment.idle or assignment.enough:
        witness.satisfied.wait(assignment.patience)
    else:
        # Not by way of the file object: a thread that waits in it cannot be left behind at the end.
        while os.read(sys.stdin.fileno(), 1024):
            pass
    worker.stop()


def _peak_megabytes() -> float:
    status = Path("/proc/self/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    return int(found[1]) / 1024 if found else 0.0


if __name__ == "__main__":
    main()
