"""Plays plans in processes of their own: few at a time, one for each visitor, none for long."""

import asyncio
import logging
import subprocess
import sys
import threading
from collections.abc import Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import msgspec

from penstock.clock import SECOND
from penstock.http.errors import RefusedError
from penstock.simulate.apart import Order, Outcome

AT_ONCE: Final = 2  # plays, of all visitors
JOBS: Final = 20_000  # of each plan
SPAN: Final = 400 * 86_400 * SECOND  # of virtual time
TIME: Final = 8 * SECOND  # for each plan
_START: Final = 20  # seconds more, for the process to start and to answer
_WORDS: Final = 500  # characters of what a process that failed says

log = logging.getLogger("penstock.monitor")


class Plays:
    """Plays for visitors."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="penstock-plan")
        self._playing: set[Hashable] = set()
        self._processes: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._closed = False

    async def play(self, visitor: Hashable, plans: Sequence[str]) -> Outcome:
        """Play *plans* for a visitor; refuse if one of this visitor, or too many of others, are under way."""
        if visitor in self._playing:
            raise _busy("a plan of yours is being played; wait until it is done")
        if len(self._playing) >= AT_ONCE:
            raise _busy("plans of others are being played; try again in a few seconds")
        self._playing.add(visitor)
        try:
            order = Order(tuple(plans), JOBS, SPAN, TIME)
            return await asyncio.get_running_loop().run_in_executor(self._threads, self._played, order)
        finally:
            self._playing.discard(visitor)

    def close(self) -> None:
        """End what is being played."""
        with self._lock:
            self._closed = True
            for process in self._processes:
                process.kill()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _played(self, order: Order) -> Outcome:
        process = self._started()
        try:
            seconds = _START + len(order.plans) * TIME / SECOND
            answer, told = process.communicate(msgspec.json.encode(order), timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise _failed("it took too long") from None
        finally:
            with self._lock:
                self._processes.discard(process)
        if process.returncode != 0:
            log.error("a play ended with status %s: %s", process.returncode, told.decode()[-_WORDS:])
            raise _failed("its times or numbers are too large or too small")
        return msgspec.json.decode(answer, type=Outcome)

    def _started(self) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._closed:
                raise _failed("the server is stopping")
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "penstock.simulate.apart"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,  # a key pressed in the terminal is for the server, which ends it in order
            )
            self._processes.add(process)
            return process


def _busy(message: str) -> RefusedError:
    return RefusedError(429, "busy", message, {"Retry-After": "5"})


def _failed(why: str) -> RefusedError:
    return RefusedError(503, "not_played", f"this plan could not be played: {why}")
