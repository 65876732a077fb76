"""Work done in a forked process, which is over in bounded time and leaves nothing behind."""

import os
import select
import signal
import traceback
import warnings
from collections.abc import Callable

_WELL = b"well"
_LONGEST = 4096


def trouble_in_a_fork(work: Callable[[], object], seconds: float = 10) -> str:
    """Do *work* in a forked process; return what went wrong there, or nothing."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        # Newer Pythons warn of forks beside threads; that they do no harm is what is tested.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        _do(work, writer)
    os.close(writer)
    try:
        ready, _, _ = select.select([reader], [], [], seconds)
        report = os.read(reader, _LONGEST) if ready else b"it takes too long"
    finally:
        os.close(reader)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return "" if report == _WELL else report.decode(errors="replace") or "it died without a word"


def _do(work: Callable[[], object], writer: int) -> None:
    report = _WELL
    try:
        work()
    except BaseException:  # noqa: BLE001 - whatever it is, the other process is to know
        report = traceback.format_exc().encode()[-_LONGEST:]
    finally:
        os.write(writer, report)
        os._exit(0)
