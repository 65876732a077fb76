"""Speak to a peer's adapter, a process in the peer's own environment."""

import json
import os
import select
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from peers.catalogue import Peer
from peers.environments import node, packages_of, python_of

SCRIPTS: Final = Path(__file__).parent / "adapters"
GRACE: Final = 30.0  # seconds beyond an order's own bound, for a process to start and to end

Process = subprocess.Popen[str]


class PeerFailedError(Exception):
    """A peer ended badly, or not at all."""


class Adapter(NamedTuple):
    """The command that runs a peer, and the folder to run it in."""

    command: tuple[str, ...]
    folder: Path

    def ask(self, **order: Any) -> dict[str, Any]:
        """Give an order, and return what is answered within its bound."""
        with self.at_work(**order) as process:
            return answer(process, order["bound"])

    @contextmanager
    def at_work(self, **order: Any) -> Iterator[Process]:
        """Give an order to a process that does not outlive the block."""
        process = subprocess.Popen(
            self.command,
            cwd=self.folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            process.stdin.write(f"{json.dumps(order)}\n")
            process.stdin.flush()
            yield process
        finally:
            _end(process)


def adapter_for(peer: Peer) -> Adapter:
    """Return how to run *peer*; its environment is made if need be."""
    script = str(SCRIPTS / peer.script)
    if peer.python:
        python = python_of(peer.environment)
        return Adapter((str(python), script), python.parent.parent)
    return Adapter((str(node()), script), packages_of(peer.environment))


def let_go(process: Process) -> None:
    """Say the word that *process* waits for."""
    process.stdin.write("\n")
    process.stdin.flush()


def close_input(process: Process) -> None:
    """Let *process* know that it may end."""
    process.stdin.close()
    process.stdin = None


def await_word(process: Process) -> None:
    """Wait until *process* says that it is ready."""
    spoken, _, _ = select.select([process.stdout], [], [], GRACE)
    if not spoken or not process.stdout.readline():
        raise PeerFailedError("the worker did not start")


def answer(process: Process, bound: float) -> dict[str, Any]:
    """Return the last line of *process*, which has to end by itself."""
    try:
        output, complaint = process.communicate(timeout=bound + GRACE)
    except subprocess.TimeoutExpired:
        raise PeerFailedError(f"did not end within {bound + GRACE:.0f} s and was killed") from None
    if process.returncode or not output.strip():
        raise PeerFailedError(f"ended with status {process.returncode}: {_point_of(complaint)}")
    return json.loads(output.strip().splitlines()[-1])


def _point_of(complaint: str) -> str:
    """Return the line that names the error, which Node does not put last."""
    lines = complaint.strip().splitlines() or ["no word"]
    return next((line for line in reversed(lines) if "Error:" in line and line == line.lstrip()), lines[-1])


def _end(process: Process) -> None:
    if process.poll() is None:
        # With all it started: the session is its own.
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe:
            pipe.close()
