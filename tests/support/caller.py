"""A process whose calls share bulkheads: `python -m tests.support.caller`.

What it is to do comes by standard input, a line each.  What its calls do goes into a journal, a line each, as in
`tests.support.hand`: they write that they began once they have their slot, and that they ended before they give it up.
"""

import asyncio
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any

from penstock import App
from penstock.policies import Bulkhead, Slot

Facts = dict[str, Any]


class Caller:
    """Bulkheads by name, and calls by name that last until they are told to end."""

    def __init__(self) -> None:
        self._slots: dict[str, Slot] = {}
        self._ends: dict[str, threading.Event | asyncio.Event] = {}
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def serve(self) -> None:
        """Do what is asked, until nothing more can be."""
        while line := sys.stdin.readline():
            asked = json.loads(line)
            getattr(self, asked.pop("do"))(**asked)

    # What can be asked.

    def open(self, store: str, journal: str, gates: dict[str, Facts], lease: float) -> None:
        """Share bulkheads with all others that do."""
        self._journal = os.open(journal, os.O_WRONLY | os.O_APPEND)
        self._app = App(store, lease=lease)
        self._gates = {name: self._gate(name, **facts) for name, facts in gates.items()}
        self._rest = threading.Event()
        self._note("opened", "", "")

    def close(self) -> None:
        """Share nothing any more."""
        self._app.close()
        self._note("closed", "", "")
        os.close(self._journal)

    def take(self, who: str, key: str, how: str, seconds: float | None = None) -> None:
        """Make a call, for so long or until it is told to give its slot back."""
        if how == "thread":
            self._ends[who] = end = threading.Event()
            self._begin(self._in_thread, who, key, end, seconds)
        else:
            self._ends[who] = told = asyncio.Event()
            self._soon(self._in_task(who, key, told, seconds))

    def take_later(self, who: str, key: str, seconds: float) -> None:
        """Make a call of a thread that sleeps for so long first."""
        self._ends[who] = end = threading.Event()
        timer = threading.Timer(seconds, self._in_thread, (who, key, end, None))
        timer.daemon = True
        timer.start()
        self._note("sleeps", who, key)

    def give(self, who: str) -> None:
        """Let a call end."""
        self._loop.call_soon_threadsafe(self._ends[who].set)

    def enter(self, who: str, key: str) -> None:
        """Make a call in this thread, and go on serving within it."""
        with self._gates[key] as slot, self._noted(who, key, slot):
            self.serve()

    def keep(self, who: str, key: str) -> None:
        """Get a slot that belongs to no block."""
        self._slots[who] = self._gates[key].acquire()
        self._note("began", who, key)

    def crowd(self, key: str, threads: int, tasks: int, seconds: float, calls: int | None = None) -> None:
        """Make calls in threads and tasks, each one after the other: so many, or until told to rest."""
        for number in range(threads):
            self._begin(self._many_in_thread, f"thread {number}", key, seconds, calls)
        for number in range(tasks):
            self._soon(self._many_in_task(f"task {number}", key, seconds, calls))

    def rest(self) -> None:
        """Let the crowd make no more calls."""
        self._rest.set()

    def look(self, who: str) -> None:
        """Note whether a call's slot was lost."""
        self._note("lost" if self._slots[who].lost else "kept", who, "")

    def exit(self, code: int) -> None:
        sys.exit(code)

    # Calls.

    def _in_thread(self, who: str, key: str, end: threading.Event, seconds: float | None) -> None:
        with self._slot(key) as slot, self._noted(who, key, slot):
            end.wait(seconds)

    async def _in_task(self, who: str, key: str, end: asyncio.Event, seconds: float | None) -> None:
        async with self._slot(key) as slot:
            with self._noted(who, key, slot), suppress(TimeoutError):
                await asyncio.wait_for(end.wait(), seconds)

    def _many_in_thread(self, who: str, key: str, seconds: float, calls: int | None) -> None:
        @self._gates[key]
        def call(key: str) -> None:
            with self._noted(who, key):
                threading.Event().wait(seconds)

        for _ in self._as_many_as(calls):
            call(key)

    async def _many_in_task(self, who: str, key: str, seconds: float, calls: int | None) -> None:
        async def work(key: str) -> None:
            with self._noted(who, key):
                await asyncio.sleep(seconds)

        bounded = self._gates[key](work)
        for number in self._as_many_as(calls):
            if number % 2:
                await bounded(key)
            else:
                async with self._slot(key):
                    await work(key)

    def _as_many_as(self, calls: int | None) -> Iterator[int]:
        for number in count() if calls is None else range(calls):
            if self._rest.is_set():
                return
            yield number

    # Small things.

    def _gate(self, name: str, slots: int, **facts: Any) -> Bulkhead:
        def heard(event: Any) -> None:
            if event.kind == "lease_lost":
                self._note("lease_lost", "", name)

        return Bulkhead(slots, name=name, shared=self._app, on_event=heard, **facts)

    def _slot(self, key: str) -> Slot:
        gate = self._gates[key]
        return gate.slot(None if gate.key is None else key)

    @contextmanager
    def _noted(self, who: str, key: str, slot: Slot | None = None) -> Iterator[None]:
        self._note("began", who, key)
        if slot is not None:
            self._slots[who] = slot
        try:
            yield
        except asyncio.CancelledError:
            self._note("cancelled", who, key)
            raise
        finally:
            self._note("ended", who, key)

    def _note(self, what: str, who: str, key: str) -> None:
        # The clock first: the note shows when the call ran, not when the line was written.
        now = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        line = {"what": what, "key": key, "at": now, "pid": os.getpid(), "who": who}
        os.write(self._journal, json.dumps(line).encode() + b"\n")

    def _soon(self, work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop)

    @staticmethod
    def _begin(work: Callable[..., None], *args: Any) -> None:
        threading.Thread(target=work, args=args, daemon=True).start()


def main() -> None:
    caller = Caller()
    print("ready", flush=True)
    caller.serve()


if __name__ == "__main__":
    main()
