"""Tell the store of this worker every ten seconds, so that operators see which workers there are.

The answer is what an operator asks of this worker: to claim nothing, or to end.
"""

import logging
import os
import random
import socket
import threading
from collections.abc import Callable
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

log = logging.getLogger("penstock.worker")


class Presence:
    """Tells of the worker *name*, at once and whenever its state changes.

    Calls *stop* when the worker is asked to end, *look* when it is to claim again.
    """

    def __init__(
        self, engine: Backend, crew: Crew, shift: Shift, choice: Choice, name: str, *,
        stop: Callable[[], None], look: Callable[[], None],
    ) -> None:  # fmt: skip
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
        self._stop = stop
        self._look = look
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
        asked = self._tell(ENDED if leaving else self._state())
        if leaving:
            self._left.set()
            return None
        if self._obey(asked):
            self._tell(self._state())
        # Not all workers at once.
        return TELLS_EVERY / SECOND * random.uniform(0.8, 1.0)  # noqa: S311

    def _state(self) -> str:
        if self._shift.stopping:
            return "stopping"
        return "quiet" if self._shift.quiet else "running"

    def _obey(self, asked: str) -> bool:
        """Do what is asked of this worker; tell whether that made it another state."""
        if self._shift.stopping:
            return False
        if asked == "terminate":
            log.info("worker %s is asked to stop", self._report.name)
            self._stop()  # which tells of it
            return False
        if (quiet := asked == "quiet") == self._shift.quiet:
            return False
        log.info("worker %s is asked to %s", self._report.name, "claim nothing" if quiet else "go on")
        self._shift.quiet = quiet
        self._look()
        return True

    def _tell(self, state: str) -> str:
        """Tell of this worker; return what is asked of it."""
        report = self._report
        return self._engine.hear(
            [
                WorkerReport(
                    report.name, report.host, report.pid, report.queues, report.tasks, report.hands,
                    self._crew.at_work, report.version, report.began, state, report.tenant,
                )
            ]
        )[0]  # fmt: skip


def _version() -> str:
    try:
        return version("penstock")
    except PackageNotFoundError:
        return ""
