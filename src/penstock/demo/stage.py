"""The stage: a provider, workers and a throwaway database, each a real process or file.

Everything started here ends here, by its process id, however the demo ends; and if the demo itself
is killed, its children see their standard input close and end too.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import IO, Any, Final

from penstock.clock import SECOND, monotonic, pause
from penstock.demo import PROVIDER, STORE
from penstock.demo.measure import Call
from penstock.demo.scenarios import THREADS
from penstock.demo.watch import Watched
from penstock.errors import PenstockError

PATIENCE: Final = 20 * SECOND
STOPPING: Final = 5.0


class StageError(PenstockError):
    """Something the demo needs did not come up, or fell over."""

    code = "demo"


@dataclass(frozen=True, slots=True)
class Stage:
    """Where the scenarios are played."""

    provider: HTTPConnection
    workers: tuple[subprocess.Popen[bytes], ...]
    log: Path
    watched: Watched | None = None

    def reset(self) -> None:
        """Let the provider forget the last scenario."""
        self._ask("POST", "/reset")

    def calls(self) -> list[Call]:
        """Return the calls on the provider's record."""
        return [Call(**call) for call in self._ask("GET", "/record")["calls"]]

    def greeted(self) -> int:
        """Return how many workers the provider has heard from."""
        return len(self._ask("GET", "/record")["workers"])

    def check(self) -> None:
        """Raise if a worker has ended."""
        for worker in self.workers:
            if worker.poll() is not None:
                told = self.log.read_text(errors="replace").strip().splitlines()
                last = told[-1] if told else "it said nothing"
                raise StageError(f"a worker ended with status {worker.returncode}: {last}")

    def _ask(self, method: str, path: str) -> dict[str, list[Any]]:
        self.provider.request(method, path, headers={"Content-Length": "0"})
        with self.provider.getresponse() as response:
            answer: dict[str, list[Any]] = json.load(response)
        return answer


@contextmanager
def stage(workers: int, *, watch: bool = False) -> Iterator[Stage]:
    """Set up the provider, the database, *workers* and perhaps a monitor; take everything down at the end."""
    with ExitStack() as cleanup:
        folder = Path(
            cleanup.enter_context(TemporaryDirectory(prefix="penstock-demo-", ignore_cleanup_errors=True))
        )
        provider = cleanup.enter_context(_child("penstock.demo.provider", output=subprocess.PIPE))
        address = _address(provider, "provider")
        # The tasks read these when they are imported, here and in the workers.
        os.environ[STORE] = str(folder / "demo.db")
        os.environ[PROVIDER] = address
        log = folder / "workers.log"
        output = cleanup.enter_context(log.open("wb"))
        command = ("worker", "penstock.demo.tasks:app", "--threads", str(THREADS), "--stop-with-stdin")
        running = [
            cleanup.enter_context(_child("penstock.cli", *command, output=output)) for _ in range(workers)
        ]
        connection = cleanup.enter_context(closing(HTTPConnection(address, timeout=10)))
        cleanup.callback(tasks().app.close)
        yield Stage(connection, tuple(running), log, cleanup.enter_context(_watched()) if watch else None)


def tasks() -> ModuleType:
    """Return the tasks; they look for the database when they are imported, so the stage must be set first."""
    return import_module("penstock.demo.tasks")


def wait_until_ready(scene: Stage) -> None:
    """Return once every worker has run a job, so that start-up is not part of any figure."""
    give_up = monotonic() + PATIENCE
    while scene.greeted() < len(scene.workers):
        scene.check()
        if monotonic() > give_up:
            raise StageError(f"the workers were not ready after {PATIENCE // SECOND} s")
        for hello in [tasks().say_hello.enqueue() for _ in range(THREADS * len(scene.workers))]:
            hello.result(timeout=PATIENCE / SECOND)
        pause(0.01)


@contextmanager
def _watched() -> Iterator[Watched]:
    with _child("penstock.demo.watch", os.environ[STORE], output=subprocess.PIPE) as monitor:
        yield Watched(monitor, _address(monitor, "monitor"))


@contextmanager
def _child(module: str, *arguments: str, output: int | IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen(  # noqa: S603 - our own modules, run by this very interpreter
        [sys.executable, "-m", module, *arguments],
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=None if output == subprocess.PIPE else subprocess.STDOUT,
        # A key pressed in the terminal reaches the demo alone, which then ends its children in order.
        start_new_session=True,
    )
    try:
        yield child
    finally:
        _end(child)


def _end(child: subprocess.Popen[bytes]) -> None:
    child.terminate()
    try:
        child.wait(STOPPING)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            pipe.close()


def _address(child: subprocess.Popen[bytes], name: str) -> str:
    line = child.stdout.readline().decode().strip() if child.stdout else ""
    if not line:
        raise StageError(f"the {name} ended with status {child.wait()} before it told its address")
    return line
