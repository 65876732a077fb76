"""How the error of a handler is recorded."""

import traceback
from os import sep
from pathlib import Path
from types import TracebackType
from typing import Final

from penstock.lifecycle.outcomes import Failed

MAX_MESSAGE: Final = 2_000
MAX_TRACEBACK: Final = 16_000
_HERE: Final = Path(__file__).parent
# What calls handlers, and what converts their arguments first.
_OURS: Final = tuple(f"{_HERE.parent / name}{sep}" for name in ("worker", "app", "replay"))


def failure(error: BaseException) -> Failed:
    """Return the outcome of a handler that raised *error*."""
    kind = type(error).__name__
    return Failed(kind, _message(error), _traceback(error), ancestry(type(error)))


def trimmed(error: BaseException) -> BaseException:
    """Return *error* without the frames through which the worker called the handler."""
    # They would also make a circle of the attempt and its error, which only the garbage collector could break.
    return BaseException.with_traceback(error, _outside(error.__traceback__))


def ancestry(kind: type[BaseException]) -> tuple[str, ...]:
    """Return the names of *kind* and its bases, each alone and with its module."""
    names: dict[str, None] = {}
    for base in kind.__mro__[:-1]:
        names[base.__name__] = None
        names[f"{base.__module__}.{base.__qualname__}"] = None
    return tuple(names)


def shortened(text: str, most: int) -> str:
    """Return *text* with its middle left out if it has more than *most* characters."""
    if len(text) <= most:
        return text
    head, tail = most // 4, most - most // 4
    return f"{text[:head]}\n… {len(text) - most} characters left out …\n{text[-tail:]}"


def _message(error: BaseException) -> str:
    try:
        return shortened(_writable(str(error)), MAX_MESSAGE)
    except Exception:  # noqa: BLE001
        return "(its message cannot be shown)"


def _traceback(error: BaseException) -> str:
    try:
        lines = traceback.format_exception(trimmed(error))
        return shortened(_writable("".join(lines)), MAX_TRACEBACK)
    except Exception:  # noqa: BLE001
        return ""


def _outside(trace: TracebackType | None) -> TracebackType | None:
    """Return *trace* from the first frame that is not the worker's own; None if there is no other."""
    while trace and trace.tb_frame.f_code.co_filename.startswith(_OURS):
        trace = trace.tb_next
    return trace


def _writable(text: str) -> str:
    # A lone surrogate cannot be stored, and an error must always be.
    return text.encode("utf-8", "backslashreplace").decode()
