"""The builder: a chain of settings, then `build()`."""

import logging
import os
import sys
from typing import Final, Self

from penstock.dialects.pynenc.app import Pynenc
from penstock.dialects.pynenc.options import ConcurrencyControlType, read_mode
from penstock.errors import InvalidError

_LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
}
_STREAMS: Final = ("stdout", "stderr")
_FORMAT: Final = "%(asctime)s %(levelname)-8s %(name)s %(message)s"


class PynencBuilder:
    """Builds an app step by step.  A setting that penstock could not keep is missing here, not ignored."""

    def __init__(self) -> None:
        self._app_id = "pynenc"
        self._url = ":memory:"
        self._threads = _cores()
        self._level: int | None = None
        self._stream: str | None = None
        self._modes: dict[str, ConcurrencyControlType] = {}

    def app_id(self, app_id: str) -> Self:
        """Name the app, as logs show it."""
        self._app_id = app_id
        return self

    def sqlite(self, sqlite_db_path: str | os.PathLike[str] = "pynenc.db") -> Self:
        """Keep jobs in a file, for any number of processes."""
        self._url = os.fspath(sqlite_db_path)
        return self

    def memory(self) -> Self:
        """Keep jobs in this process only, for tests."""
        self._url = ":memory:"
        return self

    def thread_runner(self, min_threads: int = 1, max_threads: int = 0) -> Self:
        """Let a worker run up to *max_threads* tasks at once; 0 means as many as there are cores."""
        if min_threads < 0 or max_threads < 0:
            raise InvalidError("max_threads", "the number of threads must be at least 0")
        self._threads = max_threads or max(min_threads, _cores())
        return self

    def multi_thread_runner(self, min_threads: int = 1, max_threads: int = 1) -> Self:
        """Do as `thread_runner`: each `penstock worker` is one process, so start as many as you like."""
        return self.thread_runner(min_threads, max_threads)

    def runner_tuning(
        self,
        runner_loop_sleep_time_sec: float = 0.01,  # noqa: ARG002 - pynenc's own
        invocation_wait_results_sleep_time_sec: float = 0.01,  # noqa: ARG002 - the same
        min_parallel_slots: int = 1,  # noqa: ARG002 - the same
    ) -> Self:
        """Change nothing: workers are woken, so there is no loop to tune."""
        return self

    def max_pending_seconds(self, seconds: float) -> Self:  # noqa: ARG002 - pynenc's own
        """Change nothing: what a dead worker had taken is given out again when its lease ends."""
        return self

    def serializer_json(self) -> Self:
        """Change nothing: arguments and results are always JSON."""
        return self

    def concurrency_control(
        self,
        running_concurrency: ConcurrencyControlType | str | None = None,
        registration_concurrency: ConcurrencyControlType | str | None = None,
    ) -> Self:
        """Set the modes of tasks that name none."""
        if running_concurrency is not None:
            self._modes["running_concurrency"] = read_mode("running_concurrency", running_concurrency)
        if registration_concurrency is not None:
            mode = read_mode("registration_concurrency", registration_concurrency)
            self._modes["registration_concurrency"] = mode
        return self

    def logging_level(self, level: str) -> Self:
        """Show what the app logs from this level on."""
        if level.lower() not in _LEVELS:
            raise InvalidError("logging_level", f"{level!r} must be one of: {', '.join(_LEVELS)}")
        self._level = _LEVELS[level.lower()]
        return self

    def logging_stream(self, stream: str) -> Self:
        """Show what the app logs on "stdout" or "stderr"."""
        if stream not in _STREAMS:
            raise InvalidError("logging_stream", f"{stream!r} must be one of: {', '.join(_STREAMS)}")
        self._stream = stream
        return self

    def build(self) -> Pynenc:
        """Return the app; nothing is opened before it is needed."""
        app = Pynenc(self._url, app_id=self._app_id, threads=self._threads, defaults=self._modes)
        self._set_up(app.logger)
        return app

    def _set_up(self, logger: logging.Logger) -> None:
        if self._level is not None:
            logger.setLevel(self._level)
        if self._stream is not None and not logger.handlers:
            handler = logging.StreamHandler(getattr(sys, self._stream))
            handler.setFormatter(logging.Formatter(_FORMAT))
            logger.addHandler(handler)
            logger.propagate = False


def _cores() -> int:
    return os.cpu_count() or 1
