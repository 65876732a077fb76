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
from penstock.worker.handler import Handler
from penstock.worker.machinery import Machinery
from penstock.worker.queues import Queues, check_count, choose
from penstock.worker.refresh import Refresher

DEFAULT_QUEUES: Final = ("default",)
# How long jobs that ended can be looked at, unless somebody says otherwise.
KEEP: Final = "7d"
# How long handlers that were told to end at once have to do so.
GRACE: Final = SECOND // 2
# A signal that reaches another thread is seen by the main thread only when it wakes by itself.
SLICE: Final = SECOND // 4
# How many jobs are named where many are meant.
FEW: Final = 3

log = logging.getLogger("penstock.worker")


class _Order(Enum):
    STOP = auto()
    NOW = auto()
    DRAINED = auto()
    BROKEN = auto()


class Worker:
    """Runs the jobs of some queues.

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
        self._choice = choose(queues, strict=strict)
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
        self._orders: SimpleQueue[_Order] = SimpleQueue()
        self._trouble: StoreBrokenError

    def run(self, *, until_idle: bool = False, signals: bool = False) -> None:
        """Work until told to stop, or *until_idle*: nothing runs and nothing will by itself.

        Raises `StoreBrokenError` when the store's file was removed, replaced or damaged: what runs then is
        ended, since nothing can be recorded of it.

        With *signals*, in the main thread, the first SIGINT or SIGTERM is a `stop` and the second a `stop_now`.
        """
        machinery = Machinery(
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
            drained=lambda: self._orders.put(_Order.DRAINED),
            broken=self._give_up,
        )
        self._introduce()
        with self._trapped(signals=signals):
            try:
                machinery.start()
                self._conduct(machinery, signals=signals)
            except BaseException:
                self._end(machinery)
                raise
            finally:
                machinery.stop()
                self._orders = SimpleQueue()
                log.info("worker %s has ended", self.name)

    def stop(self) -> None:
        """Begin nothing more, let what runs finish, then return from `run`."""
        self._orders.put(_Order.STOP)

    def stop_now(self) -> None:
        """Make what runs end, hand it back, and return from `run` at once.

        A plain function that does not end is not handed back but keeps its job, and its slots, until
        its lease runs out: it may still be at work.
        """
        self._orders.put(_Order.NOW)

    def _give_up(self, error: StoreBrokenError) -> None:
        self._trouble = error
        self._orders.put(_Order.BROKEN)

    def _introduce(self) -> None:
        tasks = f"{len(self._handlers)} task{'' if len(self._handlers) == 1 else 's'}"
        log.info("worker %s begins: %s, queues %s", self.name, tasks, ", ".join(self._choice.queues))
        if not self._handlers:
            log.warning(
                "this app has no tasks, so no job can run here; is the module imported that declares them?"
            )

    def _conduct(self, machinery: Machinery, *, signals: bool) -> None:
        order = self._await({_Order.STOP, _Order.NOW, _Order.BROKEN}, None)
        if order is _Order.STOP:
            if left := machinery.left():
                span = (
                    "" if self._drain_timeout is None else f" within {format_duration(self._drain_timeout)}"
                )
                again = "; Ctrl-C again hands them back" if signals else ""
                log.info("stopping: %s left to finish%s%s", _some(left), span, again)
            machinery.drain()
            order = self._await({_Order.DRAINED, _Order.NOW, _Order.BROKEN}, self._drain_timeout)
        if order is _Order.BROKEN:
            log.error("worker %s gives up: %s", self.name, self._trouble)
            raise self._trouble
        if order is not _Order.DRAINED:
            if left := machinery.left():
                log.info("stopping now: handing back what runs, %d in all", len(left))
            self._end(machinery)

    def _end(self, machinery: Machinery) -> None:
        machinery.interrupt()
        if self._await({_Order.DRAINED}, GRACE) is None and (left := machinery.left()):
            log.warning("stopped, though %s still at work; the leases will run out", _some(left))

    def _await(self, wanted: set[_Order], patience: int | None) -> _Order | None:
        """Return the first order that is *wanted*, or None when *patience* has ended."""
        deadline = None if patience is None else monotonic() + patience
        while True:
            left = SLICE if deadline is None else min(SLICE, deadline - monotonic())
            try:
                if (order := self._orders.get(timeout=max(0, left) / SECOND)) in wanted:
                    return order
            except Empty:
                if left <= 0:
                    return None

    @contextmanager
    def _trapped(self, *, signals: bool) -> Iterator[None]:
        if not signals or threading.current_thread() is not threading.main_thread():
            yield
            return
        orders = iter((_Order.STOP,))

        def obey(_number: int, _frame: FrameType | None) -> None:
            self._orders.put(next(orders, _Order.NOW))

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
