"""The parts of one run of a worker, wired together."""

from collections.abc import Callable, Mapping

from penstock.errors import StoreBrokenError
from penstock.worker.attempt import Attempt, Shift
from penstock.worker.backend import Backend
from penstock.worker.crew import Crew
from penstock.worker.floating import Refresher, Refreshes
from penstock.worker.handler import Handler
from penstock.worker.job_log import JobLog, named
from penstock.worker.leases import Leases
from penstock.worker.presence import Presence
from penstock.worker.pump import Pump
from penstock.worker.queues import Choice
from penstock.worker.starter import Starter
from penstock.worker.unknown_tasks import UnknownTasks
from penstock.worker.upkeep import Upkeep

# How long to wait for the store to answer a call that is under way when everything else has stopped.
_PATIENCE = 1.0


class Parts:
    """Everything that runs while a worker does."""

    def __init__(
        self,
        engine: Backend,
        handlers: Mapping[str, Handler],
        choice: Choice,
        refreshers: Mapping[str, Refresher],
        *,
        worker: str,
        concurrency: int,
        threads: int,
        lease: int,
        keep: int | None,
        log_arguments: bool,
        idle: Callable[[], None] | None,
        drained: Callable[[], None],
        asked_to_stop: Callable[[], None],
        broken: Callable[[StoreBrokenError], None],
    ) -> None:
        self._shift = Shift(engine.clock)
        self._crew = Crew(
            handlers,
            self._shift,
            concurrency=concurrency,
            threads=threads,
            lease=lease,
            needs_loop=any(refresher.is_async for refresher in refreshers.values()),
            ring=self._ring,
            lose=self._lose,
        )
        self._leases = Leases(engine, self._crew.running, lease, self._crew.interrupt)
        self._shift.note_progress = self._leases.note_progress
        self._shift.note_spending = self._leases.note_spending
        self._starter = Starter(self._shift, self._crew.send)
        self._pump = Pump(
            engine,
            self._crew,
            self._shift,
            self._leases,
            choice,
            self._starter,
            ends=JobLog(arguments=log_arguments),
            worker=worker,
            lease=lease,
            idle=idle,
            drained=drained,
        )
        self._refreshes = Refreshes(engine, refreshers, self._crew.loop, worker=worker, lease=lease)
        self._presence = Presence(
            engine, self._crew, self._shift, choice, worker, stop=asked_to_stop, look=self._pump.look
        )
        self._threads = [
            self._presence.thread,
            self._leases.thread,
            self._pump.wakeups.thread,
            Upkeep(engine, keep, look=UnknownTasks(engine, choice.queues).look).thread,
            self._refreshes.thread,
            self._starter.thread,
            self._pump.thread,
            self._pump.second.thread,
        ]
        for thread in self._threads:
            thread.broken = broken

    def left(self) -> list[str]:
        """Return the names of the jobs that still run, those that began first coming first."""
        running = [attempt for attempt in list(self._crew.running) if not attempt.ended]
        return [named(attempt.claimed) for attempt in sorted(running, key=lambda each: each.began)]

    def start(self) -> None:
        self._crew.start()
        for thread in self._threads:
            thread.start()

    def drain(self) -> None:
        """Begin nothing more."""
        self._shift.stopping = True
        self._presence.thread.wake()
        self._starter.thread.wake()
        self._pump.thread.wake()

    def interrupt(self) -> None:
        """Make what runs end, as far as that can be done."""
        self._shift.stopping = True
        self._shift.over = True
        self._crew.interrupt_all()
        self._starter.thread.wake()
        self._pump.thread.wake()

    def stop(self) -> None:
        """End every thread that can be ended."""
        self._presence.leave(_PATIENCE)
        for thread in self._threads:
            thread.stop()
        self._crew.stop()
        for thread in self._threads:
            thread.join(_PATIENCE)

    def _ring(self) -> None:
        self._pump.ring()

    def _lose(self, attempt: Attempt) -> None:
        self._leases.lose(attempt)
