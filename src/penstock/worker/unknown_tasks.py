"""Tell, once, of tasks whose jobs wait in a worker's queues though no worker asks for them."""

import logging
from collections.abc import Sequence
from typing import Final

from penstock.clock import SECOND, monotonic
from penstock.worker.backend import Backend

EVERY: Final = 20 * SECOND

log = logging.getLogger("penstock.worker")


class UnknownTasks:
    """Looks now and then which tasks of *queues* no worker knows, and writes each to the log once."""

    def __init__(self, engine: Backend, queues: Sequence[str]) -> None:
        self._engine = engine
        self._queues = queues
        self._told: set[tuple[str, str]] = set()
        self._looked: int | None = None

    def look(self) -> None:
        """Look, unless that was done a moment ago."""
        now = monotonic()
        if self._looked is not None and now - self._looked < EVERY:
            return
        self._looked = now
        for unknown in self._engine.unknown_tasks(self._queues):
            if (unknown.queue, unknown.task) in self._told:
                continue
            self._told.add((unknown.queue, unknown.task))
            log.warning(
                "no worker has asked for task %r of queue %r for a while, and %d of its jobs wait; "
                "start or deploy a worker that knows it",
                unknown.task,
                unknown.queue,
                unknown.waiting,
            )
