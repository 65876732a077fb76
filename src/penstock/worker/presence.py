"""Tell the store of this worker every ten seconds, so that operators see which workers there are."""

import os
import random
import socket
import threading
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from penstock.background.periodic import PeriodicThread
from penstock.clock import SECOND
from penstock.job import ENDED, TELLS_EVERY, WorkerReport
from penstock.worker.attempt import Shift
from penstock.worker.backend import Backend
from penstock.worker.crew import Crew
from penstock.worker.queues import Choice

MOST_TASKS: Final = 500  # whose names are told


class Presence:
    """Tells of the worker *name*, at once and whenever its state changes."""

    def __init__(self, engine: Backend, crew: Crew, shift: Shift, choice: Choice, name: str) -> None:
        self._engine = engine
        self._crew = crew
        self._shift = shift
        self._began = engine.clock.now()
        self._report = WorkerReport(
            name,
            socket.gethostname(),
            os.getpid(),
            tuple(choice.queues),
            tuple(
                sorted(task for task, handler in crew.handlers.items() if not handler.built_in)[:MOST_TASKS]
            ),
            crew.size,
            version=_version(),
            began=self._began,
            tenant=choice.tenant or "",
        )
        self._leaving = False
        self._left = threading.Event()
        self.thread = PeriodicThread("presence", self._round)

    def leave(self, patience: float) -> None:
        """Tell that the worker has ended, if that takes no longer than so many seconds."""
        self._leaving = True
        self.thread.wake()
        if self.thread.alive:
            self._left.wait(patience)

    def _round(self) -> float | None:
        leaving = self._leaving
        state = ENDED if leaving else "stopping" if self._shift.stopping else "running"
        self._tell(state)
        if leaving:
            self._left.set()
            return None
        # Not all workers at once.
        return TELLS_EVERY / SECOND * random.uniform(0.8, 1.0)  # noqa: S311

    def _tell(self, state: str) -> None:
        report = self._report
        self._engine.hear(
            [
                WorkerReport(
                    report.name, report.host, report.pid, report.queues, report.tasks, report.hands,
                    len(self._crew.running), report.version, report.began, state, report.tenant,
                )
            ]
        )  # fmt: skip


def _version() -> str:
    try:
        return version("penstock")
    except PackageNotFoundError:
        return ""
