"""Logs for people and for programs, in which every line of a handler names its job.

`penstock worker` and `penstock serve` write their logs with these.  An app that configures logging itself can use
them too: `JobFields` as a filter of its handlers, `JsonFormatter` or `TextFormatter` as their formatter.
"""

import json
import logging
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final, Protocol, TextIO

from penstock.clock import SECOND, SystemClock
from penstock.names import one_line
from penstock.worker.context import CURRENT
from penstock.worker.job_log import Fields, fields
from penstock.worker.job_log import log as jobs

LEVEL: Final = "INFO"  # at which a worker tells, unless told otherwise
_STANDARD: Final = {*logging.makeLogRecord({}).__dict__, "message", "asctime", "taskName"}
_INDENT: Final = "    "
_RESET: Final = "\x1b[0m"
_DIM: Final = "\x1b[2m"
_COLOURS: Final = {
    logging.DEBUG: "\x1b[2m",
    logging.INFO: "\x1b[32m",
    logging.WARNING: "\x1b[33m",
    logging.ERROR: "\x1b[31m",
    logging.CRITICAL: "\x1b[1;31m",
}
_encode: Final = json.JSONEncoder(default=str, skipkeys=True, allow_nan=False).encode


class JobFields(logging.Filter):
    """Notes on each record of a handler which job it runs: `job_id`, `task`, `queue`, `attempt`, `keys`.

    A filter of a *handler*, so that it sees the records of every logger.  Lets everything through.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        attempt = CURRENT.get(None)
        if attempt is not None:
            for name, value in fields(attempt.claimed).items():
                record.__dict__.setdefault(name, value)
        return True


_note: Final = JobFields().filter


Makes = Callable[[], Iterable[Fields]]


class WritesLines(Protocol):
    """Writes many records of jobs; *told* makes their fields, if they are wanted."""

    def lines(self, created: float, level: int, messages: Sequence[str], told: Makes) -> str: ...


class TextFormatter(logging.Formatter):
    """A line for each record: when, how grave, of which job, and what.  With *colour*, for a terminal."""

    def __init__(self, *, colour: bool = False) -> None:
        super().__init__()
        self._colour = colour

    def format(self, record: logging.LogRecord) -> str:
        _note(record)
        message = record.getMessage()
        if record.name != jobs.name and (task := getattr(record, "task", None)) is not None:
            message = f"{task} {getattr(record, 'job_id', '')}: {message}"
        parts = [message]
        if record.exc_info:
            parts.append(self.formatException(record.exc_info))
        if record.stack_info:
            parts.append(self.formatStack(record.stack_info))
        # What follows the first line is set in, so that nothing in it looks like a record.
        lines = (one_line(line) for part in parts for line in part.splitlines() or [""])
        return self._head(record.created, record.levelno) + f"\n{_INDENT}".join(lines)

    def lines(self, created: float, level: int, messages: Sequence[str], told: Makes) -> str:  # noqa: ARG002
        head = self._head(created, level)
        return head + f"\n{head}".join(messages) + "\n"

    def _head(self, created: float, level: int) -> str:
        when = f"{_second(int(created))}.{int(created % 1 * 1_000):03d}"
        name = f"{logging.getLevelName(level):<7}"
        if self._colour:
            return f"{_DIM}{when}{_RESET} {_COLOURS.get(level, '')}{name}{_RESET} "
        return f"{when} {name} "


class JsonFormatter(logging.Formatter):
    """A JSON object for each record, on a line of its own, with all its fields."""

    def format(self, record: logging.LogRecord) -> str:
        _note(record)
        extra = {name: value for name, value in record.__dict__.items() if name not in _STANDARD}
        if record.exc_info:
            extra["traceback"] = self.formatException(record.exc_info)
        if record.stack_info:
            extra["stack"] = record.stack_info
        return _line(record.created, record.levelno, record.name, record.getMessage(), extra)

    def lines(self, created: float, level: int, messages: Sequence[str], told: Makes) -> str:
        head = _start(created, level, jobs.name)
        both = zip(messages, told(), strict=True)
        return "".join([f"{_encode(head | {'message': message} | extra)}\n" for message, extra in both])


class JobStream(logging.StreamHandler[TextIO]):
    """Writes to *stream*; many done jobs at once, without a record for each."""

    def __init__(self, stream: TextIO, formatter: TextFormatter | JsonFormatter) -> None:
        super().__init__(stream)
        self.formatter = formatter
        self._lines: WritesLines = formatter

    def write_many(self, level: int, messages: Sequence[str], told: Makes) -> None:
        """Write a line for each of *messages* about jobs."""
        try:
            text = self._lines.lines(SystemClock().now() / SECOND, level, messages, told)
            self.acquire()
            try:
                self.stream.write(text)
                self.flush()
            finally:
                self.release()
        except Exception:  # noqa: BLE001 - as a record that cannot be written
            self.handleError(logging.makeLogRecord({"name": jobs.name}))


def log_to_stderr(level: str, *, as_json: bool, colour: bool = False) -> None:
    """Write the logs of this process to standard error."""
    root = logging.getLogger()
    root.handlers[:] = [JobStream(sys.stderr, JsonFormatter() if as_json else TextFormatter(colour=colour))]
    root.setLevel(level)


def _line(created: float, level: int, name: str, message: str, extra: Fields) -> str:
    line = _start(created, level, name) | {"message": message}
    told = line | {key: value for key, value in extra.items() if key not in line}
    try:
        return _encode(told)
    except Exception:  # noqa: BLE001 - a field may be anything
        return _encode({key: _json_or_text(value) for key, value in told.items()})


def _json_or_text(value: object) -> object:
    try:
        _encode(value)
    except Exception:  # noqa: BLE001
        try:
            return str(value)
        except Exception:  # noqa: BLE001
            return f"<{type(value).__name__}>"
    return value


def _start(created: float, level: int, name: str) -> Fields:
    moment = datetime.fromtimestamp(created, UTC).isoformat(timespec="milliseconds")
    return {"time": moment, "level": logging.getLevelName(level).lower(), "logger": name}


@lru_cache(maxsize=8)
def _second(moment: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(moment))
