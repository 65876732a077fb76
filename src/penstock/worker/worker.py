"""A worker: claims jobs, runs their handlers, settles how they ended."""

import logging
import os
import secrets
import signal
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum, auto
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Final

from penstock.clock import SECOND, monotonic
from penstock.errors import StoreBrokenError
from penstock.limits.durations import Duration, format_duration, parse_duration
from penstock.worker.backend import Backend
from penstock.worker.floating import Refresher
from penstock.worker.handler import Handler
from penstock.worker.queues import Queues, check_count, choose
from penstock.worker.wiring import Parts

DEFAULT_QUEUES: Final = ("default",)
# How long jobs that ended can be looked at, unless the caller says otherwise.
KEEP: Final = "7d"
# How long handlers that were told to end at once have to do so.
GRACE: Final = SECOND // 2
# A signal that reaches another thread is seen by the main thread only when it wakes by itself.
SLICE: Final = SECOND // 4
# How many jobs are named where many are meant.
FEW: Final = 3

log = logging.getLogger("penstock.worker")


class _Command(Enum):
    STOP = auto()
    NOW = auto()
    DRAINED = auto()
    BROKEN = auto()


class Worker:
    """Runs the jobs of some queues: those of all tenants, which take turns, or of one *tenant* (empty: of none).

    *concurrency* async handlers and *threads* plain functions at once.  Claims at most as many jobs as
    can begin at once: if *handlers* are of both kinds, the smaller of what both can take.  Jobs that
    ended longer than *keep* ago are forgotten (None: never).  With *log_arguments* the log shows what jobs
    were called with and what they returned.
    """

    def __init__(
        self,
        engine: Backend,
        handlers: Mapping[str, Handler],
        *,
        queues: Queues = DEFAULT_QUEUES,
        strict: bool = False,
        tenant: str | None = None,
        concurrency: int = 100,
        threads: int = 8,
        lease: Duration = 15,
        drain_timeout: Duration | None = 30,
        keep: Duration | None = KEEP,
        log_arguments: bool = False,
        refreshers: Mapping[str, Refresher] | None = None,
        name: str | None = None,
    ) -> None:
        self.name = name or f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(3)}"
        self._engine = engine
        self._handlers = dict(handlers)
        self._refreshers = dict(refreshers or {})
        self._choice = choose(queues, strict=strict, tenant=tenant)
        check_count("concurrency", concurrency)
        check_count("threads", threads)
        self._concurrency = concurrency
        self._threads = threads
        self._lease = parse_duration(lease, "lease")
        self._drain_timeout = (
            None if drain_timeout is None else parse_duration(drain_timeout, "drain_timeout", zero=True)
        )
        self._keep = None if keep is None else parse_duration(keep, "keep")
        self._log_arguments = log_arguments
        self._commands: SimpleQueue[_Command] = SimpleQueue()
        self._trouble: StoreBrokenError

    def run(self, *, until_idle: bool = False, signals: bool = False) -> None:
        """Work until told to stop, or *until_idle*: nothing runs and nothing will by itself.

        Raises `StoreBrokenError` when the store's file was removed, replaced or damaged: what runs then is
        ended, since nothing can be recorded of it.

        With *signals*, in the main thread, the first SIGINT or SIGTERM is a `stop` and the second a `stop_now`.
        """
        parts = Parts(
            self._engine,
            self._handlers,
            self._choice,
            self._refreshers,
            worker=self.name,
            concurrency=self._concurrency,
            threads=self._threads,
            lease=self._lease,
            keep=self._keep,
            log_arguments=self._log_arguments,
            idle=self.stop if until_idle else None,
            drained=lambda: self._commands.put(_Command.DRAINED),
            asked_to_stop=self.stop,
            broken=self._give_up,
        )
        self._introduce()
        with self._trapped(signals=signals):
            try:
                parts.start()
                self._conduct(parts, signals=signals)
            except BaseException:
                self._end(parts)
                raise
            finally:
                parts.stop()
                self._commands = SimpleQueue()
                log.info("worker %s has ended", self.name)

    def stop(self) -> None:
        """Begin nothing more, let what runs finish, then return from `run`."""
        self._commands.put(_Command.STOP)

    def stop_now(self) -> None:
        """Make what runs end, hand it back, and return from `run` at once.

        A plain function that does not end is not handed back but keeps its job, and its slots, until
        its lease runs out: it may still be at work.
        """
        self._commands.put(_Command.NOW)

    def _give_up(self, error: StoreBrokenError) -> None:
        self._trouble = error
        self._commands.put(_Command.BROKEN)

    def _introduce(self) -> None:
        known = sum(not handler.built_in for handler in self._handlers.values())
        tasks = f"{known} task{'' if known == 1 else 's'}"
        log.info("worker %s begins: %s, queues %s", self.name, tasks, ", ".join(self._choice.queues))
        if not known:
            log.warning(
                "this app has no tasks, so no job can run here; is the module imported that declares them?"
            )

    def _conduct(self, parts: Parts, *, signals: bool) -> None:
        command = self._await({_Command.STOP, _Command.NOW, _Command.BROKEN}, None)
        if command is _Command.STOP:
            if left := parts.left():
                span = (
                    "" if self._drain_timeout is None else f" within {format_duration(self._drain_timeout)}"
                )
                again = "; Ctrl-C again hands them back" if signals else ""
                log.info("stopping: %s left to finish%s%s", _some(left), span, again)
            parts.drain()
            command = self._await({_Command.DRAINED, _Command.NOW, _Command.BROKEN}, self._drain_timeout)
        if command is _Command.BROKEN:
            log.error("worker %s gives up: %s", self.name, self._trouble)
            raise self._trouble
        if command is not _Command.DRAINED:
            if left := parts.left():
                log.info("stopping now: handing back what runs, %d in all", len(left))
            self._end(parts)

    def _end(self, parts: Parts) -> None:
        parts.interrupt()
        if self._await({_Command.DRAINED}, GRACE) is None and (left := parts.left()):
            log.warning("stopped, though %s still at work; the leases will run out", _some(left))

    def _await(self, wanted: set[_Command], patience: int | None) -> _Command | None:
        """Return the first command that is *wanted*, or None when *patience* has ended."""
        deadline = None if patience is None else monotonic() + patience
        while True:
            left = SLICE if deadline is None else min(SLICE, deadline - monotonic())
            try:
                if (command := self._commands.get(timeout=max(0, left) / SECOND)) in wanted:
                    return command
            except Empty:
                if left <= 0:
                    return None

    @contextmanager
    def _trapped(self, *, signals: bool) -> Iterator[None]:
        if not signals or threading.current_thread() is not threading.main_thread():
            yield
            return
        commands = iter((_Command.STOP,))

        def obey(_number: int, _frame: FrameType | None) -> None:
            self._commands.put(next(commands, _Command.NOW))

        before = {number: signal.signal(number, obey) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _some(names: Sequence[str]) -> str:
    """Return how many jobs *names* are, and the first of them."""
    named = ", ".join(names[:FEW]) + (f" and {len(names) - FEW} more" if len(names) > FEW else "")
    return f"1 job ({named}) is" if len(names) == 1 else f"{len(names)} jobs ({named}) are"
