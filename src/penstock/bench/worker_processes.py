"""Start worker processes for a workload, and end each by its own process id."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from os import SEEK_END
from tempfile import TemporaryFile
from typing import IO, Final

import msgspec

PATIENCE: Final = 240.0
FLOW: Final = "bench.flow"  # a workflow of as many steps as its argument says
_TAIL: Final = 4_000  # bytes of a log that are shown of a process that was lost

WorkerProcess = subprocess.Popen[bytes]


class Assignment(msgspec.Struct, frozen=True):
    """What a worker process does: it ends when *idle*, after *enough* jobs, or when its input is closed.

    It does *at_once* jobs, or as many as workers do by default.
    """

    url: str
    handler: str
    idle: bool = False
    enough: int = 0
    at_once: int = 0
    patience: float = PATIENCE


class Sight(msgspec.Struct, frozen=True):
    """What the handlers of one worker process saw.

    *began* is when it went to work, in microseconds; it took *seconds* until all, or *enough*, had begun;
    *starts* are (number, nanoseconds) pairs, *spans* are the key, begin and end of handlers in nanoseconds of the
    machine's uptime, which all processes share.
    """

    began: int
    seconds: float
    overlaps: int
    peak_megabytes: float
    starts: list[tuple[int, int]]
    spans: list[tuple[int, int, int]]


class WorkerLostError(RuntimeError):
    """A worker process ended without telling what it saw."""

    def __init__(self, status: int) -> None:
        super().__init__(f"a worker process ended with status {status} and no report")


@contextmanager
def started(assignment: Assignment, count: int = 1) -> Iterator[Sequence[WorkerProcess]]:
    """Have *count* worker processes go to work at once; whatever happens, none outlives the block."""
    command = [sys.executable, "-m", "penstock.bench.child", msgspec.json.encode(assignment).decode()]
    with ExitStack() as stack:
        # What they log goes to a file, as it does under a supervisor.
        log = stack.enter_context(TemporaryFile())
        workers = []
        try:
            for _ in range(count):
                worker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
                stack.enter_context(worker)
                stack.callback(worker.kill)
                workers.append(worker)
            # What is measured is work, not the start of processes.
            for worker in workers:
                _await_ready(worker)
            for worker in workers:
                _let_go(worker)
            yield workers
        except WorkerLostError:
            _show_end(log)
            raise


def _show_end(log: IO[bytes]) -> None:
    log.seek(max(0, log.seek(0, SEEK_END) - _TAIL))
    sys.stderr.write(log.read().decode(errors="replace"))


def stopped(workers: Sequence[WorkerProcess]) -> list[Sight]:
    """Close their input, wait until all have ended and return what they saw."""
    for worker in workers:
        if worker.stdin:
            worker.stdin.close()
            worker.stdin = None
    return [_sight(worker) for worker in workers]


def drained(url: str, handler: str, at_once: int = 0) -> Sight:
    """Let one worker process empty the store at *url*."""
    with started(Assignment(url, handler, idle=True, at_once=at_once)) as (worker,):
        return _sight(worker)


def served(url: str, handler: str, enough: int) -> Sight:
    """Let one worker process do *enough* jobs of the store at *url*."""
    with started(Assignment(url, handler, enough=enough)) as (worker,):
        return _sight(worker)


def _await_ready(worker: WorkerProcess) -> None:
    if not worker.stdout or not worker.stdout.readline():
        raise WorkerLostError(worker.wait())


def _let_go(worker: WorkerProcess) -> None:
    if worker.stdin:
        worker.stdin.write(b"!")
        worker.stdin.flush()


def _sight(worker: WorkerProcess) -> Sight:
    output = worker.communicate(timeout=PATIENCE + 10)[0]
    if worker.returncode or not output:
        raise WorkerLostError(worker.returncode)
    return msgspec.json.decode(output, type=Sight)
