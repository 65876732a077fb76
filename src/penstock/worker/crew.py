"""The event loop and the threads that run handlers, and how many more can begin at once."""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from penstock.clock import since_boot
from penstock.lifecycle.outcomes import HandedBack
from penstock.worker.alarm import Alarm
from penstock.worker.attempt import Attempt, HandBack, Shift
from penstock.worker.handler import Handler
from penstock.worker.loop import Loop
from penstock.worker.relay import Relay
from penstock.worker.standby import Standby
from penstock.worker.threads import Threads
from penstock.worker.watchdog import Watchdog

_PATIENCE: Final = 1.0


@dataclass(slots=True)
class Places:
    """So many places that are kept for what a claim will bring."""

    count: int


class Crew:
    """An event loop for up to *concurrency* async attempts and *threads* for the plain ones, as needed.

    The two threads that claim take attempts, and take them back; *ring* tells them that some have ended.
    """

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        shift: Shift,
        *,
        concurrency: int,
        threads: int,
        lease: int,
        needs_loop: bool,
        ring: Callable[[], None],
        lose: Callable[[Attempt], None],
    ) -> None:
        kinds = {handler.is_async for handler in handlers.values()}
        self.handlers = handlers
        self.running: set[Attempt] = set()
        self._shift = shift
        self._ended: deque[Attempt] = deque()
        self.frees = False  # one of those that have ended did not hand its place on
        self._ring = ring
        self._free_tasks = concurrency
        self._free_threads = threads
        self._kinds = kinds
        self._reserved = 0
        self._relays: list[Relay] = []  # under way
        self.size = self._free()  # how many can be at work at once
        self.standby = Standby(self.size)
        self._lock = threading.Lock()  # of the four numbers, and the order in which attempts are taken back
        self._alarm = Alarm(self.running, lease, lose)
        # Attempts of one kind stand by, so that each can have the place of any other.
        hand_on = {True in kinds: self.standby.hand_on}
        on_loop, in_thread = hand_on.get(True, _to_none), hand_on.get(False, _to_none)
        report = self._report
        self.loop = Loop(report, ring, on_loop) if True in kinds or needs_loop else None
        self._threads = Threads(threads, self._alarm, report, ring, in_thread) if False in kinds else None
        self._watchdog = Watchdog(self.running, self.loop)

    def start(self) -> None:
        self._alarm.thread.start()
        self._watchdog.thread.start()
        if self.loop:
            self.loop.start()
        if self._threads:
            self._threads.start()

    def stop(self) -> None:
        """End the loop and the threads, waiting only a moment for handlers that do not end."""
        if self.loop:
            self.loop.stop(_PATIENCE)
        if self._threads:
            self._threads.stop(_PATIENCE if not self._shift.over else 0)
        for thread in (self._alarm.thread, self._watchdog.thread):
            thread.stop()
            thread.join(_PATIENCE)

    @property
    def capacity(self) -> int:
        """How many more attempts can begin at once, whatever their kind turns out to be."""
        with self._lock:
            return self._free()

    @property
    def at_work(self) -> int:
        """How many places are taken, or kept for a claim."""
        return self.size - self.capacity

    @property
    def left(self) -> int:
        """How many attempts have ended and were not taken back yet."""
        return len(self._ended)

    def reserve(self, most: int) -> Places:
        """Keep up to *most* places for a claim, as many as are free."""
        with self._lock:
            places = Places(max(0, min(most, self._free())))
            self._reserved += places.count
            return places

    def release(self, places: Places) -> None:
        """Let others have *places*, if they were not taken."""
        with self._lock:
            self._let_go(places)

    def take(self, attempts: Sequence[Attempt], places: Places) -> Sequence[Attempt]:
        """Give each of *attempts* one of the *places* kept for them, and return those to send; the rest are free.

        Those that follow one in its relay have its place.  The last, for which there are no places, stand by.
        """
        self.running.update(attempts)
        attempts, waiting = attempts[: places.count], attempts[places.count :]
        self.standby.add(waiting)
        tasks = sum(attempt.handler.is_async for attempt in attempts)
        relays = [attempt.relay for attempt in attempts if attempt.relay is not None]
        with self._lock:
            for relay in relays:
                self.running.update(relay.following())
            self._relays += relays
            self._free_tasks -= tasks
            self._free_threads -= len(attempts) - tasks
            self._let_go(places)
        return attempts

    def fill(self) -> None:
        """Give free places to attempts that stand by: hands may have become free before those came."""
        while len(self.standby) and (places := self.reserve(1)).count:
            attempt = self.standby.next()
            begin = [] if attempt is None else [attempt]
            self.send(self.take(begin, places))

    def send(self, attempts: Sequence[Attempt]) -> None:
        """Send *attempts* to their handlers; if that fails, those that were not sent end at once."""
        tasks = [attempt for attempt in attempts if attempt.handler.is_async]
        calls = [attempt for attempt in attempts if not attempt.handler.is_async]
        left = deque([*tasks, *calls])
        now = since_boot()
        for attempt in attempts:
            attempt.sent = now
        try:
            self._watchdog.begin()
            if tasks and self.loop:
                self.loop.begin(tasks)
                left = deque(calls)
            if self._threads:
                while left:
                    self._threads.begin(left[0])
                    left.popleft()
        except BaseException:
            self.give_up(left)
            raise

    def give_up(self, attempts: Iterable[Attempt]) -> None:
        """Hand back attempts that were taken and cannot be sent."""
        for attempt in attempts:
            attempt.end(HandedBack())
            self._report(attempt)
            if attempt.relay is not None:
                self._ended += attempt.relay.cut()
        self._ring()

    def ended(self, most: int | None = None) -> list[Attempt]:
        """Take back attempts that have ended, at most so many; their places are free again."""
        with self._lock:
            self.frees = False  # first: one that ends meanwhile is looked at once more
            count = len(self._ended) if most is None else min(most, len(self._ended))
            ended = [self._ended.popleft() for _ in range(count)]
            # A relay keeps its place until all of it is taken back.
            last = [
                attempt
                for attempt in ended
                if not attempt.handed_on and (attempt.relay is None or attempt.relay.give_back())
            ]
            tasks = sum(attempt.handler.is_async for attempt in last)
            self._free_tasks += tasks
            self._free_threads += len(last) - tasks
        return ended

    def cut_late(self) -> list[Attempt]:
        """Take back what has ended, and what has not begun, of relays that have gone on for too long, or must stop."""
        now, taken = since_boot(), self.standby.cut(all_=self._shift.stopping)
        with self._lock:
            relays, self._relays = self._relays, []
            for relay in relays:
                if relay.is_over:
                    continue
                if self._shift.stopping or now > relay.begin_by:
                    cut = relay.cut()
                    taken += cut
                    if relay.give_back(len(cut)):
                        self._free_tasks += relay.is_async
                        self._free_threads += not relay.is_async
                else:
                    self._relays.append(relay)
        return taken

    def until_late(self, most: int) -> int:
        """Return how long it takes until a relay has gone on for too long, *most* at most."""
        now = since_boot()
        with self._lock:
            late = min((max(0, relay.begin_by - now) for relay in self._relays), default=most)
        waiting = self.standby.until_late()
        return late if waiting is None else min(late, waiting)

    def interrupt(self, attempt: Attempt) -> None:
        """Cancel *attempt* if it runs on the loop; one in a thread must look for itself."""
        if attempt.handler.is_async and self.loop:
            self.loop.interrupt(attempt)

    def interrupt_all(self) -> None:
        """Make every handler end, as far as that can be done."""
        for attempt in list(self.running):
            if attempt.handler.is_async:
                self.interrupt(attempt)
            else:
                attempt.strike(HandBack)

    def _report(self, attempt: Attempt) -> None:
        """Note that an attempt has ended."""
        self._ended.append(attempt)
        if not attempt.handed_on:
            self.frees = True

    def _free(self) -> int:
        if self._kinds == {True}:
            free = self._free_tasks
        elif self._kinds == {False}:
            free = self._free_threads
        else:
            free = min(self._free_tasks, self._free_threads)
        return free - self._reserved

    def _let_go(self, places: Places) -> None:
        self._reserved -= places.count
        places.count = 0


def _to_none(_: Attempt) -> None:
    """Hand no place on."""
