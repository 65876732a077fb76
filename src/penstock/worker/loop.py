"""Run async handlers on an event loop in a thread of its own, a whole batch for one wake-up."""

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from contextvars import copy_context
from typing import Any, Final

from penstock.clock import MILLISECOND, monotonic, since_boot
from penstock.lifecycle.outcomes import HandedBack
from penstock.worker.attempt import Attempt
from penstock.worker.context import CURRENT
from penstock.worker.perform import perform_async
from penstock.worker.standby import Following

new_event_loop: Callable[[], asyncio.AbstractEventLoop]
try:
    import uvloop
except ImportError:
    new_event_loop = asyncio.new_event_loop
else:
    new_event_loop = uvloop.new_event_loop

log = logging.getLogger("penstock.worker")

# How long an outcome may wait for others of the same turn of the loop.
LINGER: Final = 2 * MILLISECOND


class Loop:
    """Begins attempts as tasks; *report* takes each one that ended, *ring* says that some did."""

    def __init__(
        self, report: Callable[[Attempt], None], ring: Callable[[], None], following: Following
    ) -> None:
        self._report = report
        self._ring = ring
        self._following = following
        self._first = 0
        self._gathering = False
        self._stopping = False
        self._ending = False  # what begins now would be left half done
        self._present: set[Attempt] = set()
        self.answered = 0
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop
        self._over: asyncio.Event
        self._thread = threading.Thread(target=self._run, name="penstock-loop", daemon=True)

    def start(self) -> None:
        self._thread.start()
        self._ready.wait()

    def begin(self, attempts: Sequence[Attempt]) -> None:
        """Begin *attempts*, or none of them if this raises; any thread may call this."""
        self._present.update(attempts)
        try:
            self._loop.call_soon_threadsafe(self._begin, attempts)
        except RuntimeError:
            # The loop has just ended; what ends its attempts may have seen these or not.
            self._give_back(attempts)
        except BaseException:
            self._present.difference_update(attempts)
            raise

    def interrupt(self, attempt: Attempt) -> None:
        """Cancel the task of *attempt*; any thread may call this."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(attempt.interrupt)

    def ask(self) -> None:
        """Have the loop say, in `answered`, when it came round."""
        self.answered = 0
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._answer)

    def _answer(self) -> None:
        self.answered = monotonic()

    @property
    def thread(self) -> int:
        """The thread of the loop."""
        return self._thread.ident or 0

    def current(self) -> Attempt | None:
        """Return the attempt whose handler runs at this moment, as far as that can be seen from another thread."""
        task = asyncio.current_task(self._loop)
        # A task that a handler made has its context; before Python 3.12 that is hidden.
        context = getattr(task, "get_context", None)
        if context is not None:
            found: Attempt | None = context().get(CURRENT)
            return found
        return next((each for each in list(self._present) if task is not None and each.task is task), None)

    def run(self, work: Coroutine[Any, Any, object]) -> object:
        """Wait for *work* to be done on the loop and return its answer; for other threads only."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def stop(self, timeout: float) -> None:
        """Cancel whatever still runs and end the loop, waiting no longer than *timeout* seconds for it."""
        self._stopping = True
        if self._ready.is_set():
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._over.set)
            self._thread.join(timeout)

    def _run(self) -> None:
        while True:
            try:
                with asyncio.Runner(loop_factory=new_event_loop) as runner:
                    try:
                        runner.run(self._serve())
                    finally:
                        self._ending = True
            except BaseException:
                with suppress(Exception):  # a filter of the user's may raise
                    log.critical("a handler ended the event loop; another is started", exc_info=True)
            self._give_back(list(self._present))
            if self._stopping:
                return

    def _give_back(self, attempts: Sequence[Attempt]) -> None:
        """End attempts that the loop left behind, for another to begin."""
        for attempt in attempts:
            if attempt in self._present:
                self._present.discard(attempt)
                attempt.end(HandedBack(begun=attempt.began > 0))
                self._report(attempt)
                for other in attempt.relay.cut() if attempt.relay is not None else ():
                    self._report(other)
        self._ring()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._over = asyncio.Event()
        self._context = copy_context()
        self._gathering = False
        self._ending = False
        self._ready.set()
        await self._over.wait()

    def _begin(self, attempts: Sequence[Attempt]) -> None:
        if self._ending:
            self._give_back(attempts)
            return
        create = self._loop.create_task
        try:
            for attempt in attempts:
                attempt.task = create(self._attend(attempt))
                if attempt.begin_by:
                    # Comes after the first step of the task, in which the handler has begun.
                    self._loop.call_soon(_note_begun, attempt)
        except BaseException:
            self._give_back([attempt for attempt in attempts if attempt.task is None])
            raise

    async def _attend(self, attempt: Attempt) -> None:
        await perform_async(attempt)
        if attempt not in self._present:
            return
        self._present.discard(attempt)
        if self._hand_on(attempt) and attempt.relay is not None:
            return
        if not self._gathering:
            # Tasks that are ready in this turn of the loop run before the bell, and are settled together.
            self._gathering = True
            self._first = monotonic()
            self._loop.call_soon(self._gathered)
        elif monotonic() - self._first > LINGER:
            self._ring()

    def _hand_on(self, ended: Attempt) -> bool:
        """Report an attempt, unless its relay goes on; begin what gets its place, in a task of its own, if any does."""
        relay = ended.relay
        if relay is None:
            following = self._following(ended)
            self._report(ended)
        else:
            following = relay.next(ended)
        if following is not None and self._ending:
            following.end(following.refusal())
            self._report(following)
            following = None
        if following is not None:
            self._present.add(following)
            self._context.copy().run(self._begin, [following])
        elif relay is not None:
            for attempt in relay.cut():
                self._report(attempt)
        return following is not None

    def _gathered(self) -> None:
        self._gathering = False
        self._ring()


def _note_begun(attempt: Attempt) -> None:
    if attempt.began and not attempt.begun_by:
        attempt.begun_by = since_boot()
