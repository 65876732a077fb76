"""The borrower of a process: it borrows slots from a store, for all its shared bulkheads together.

Calls leave their orders here: wants, slots to give back, wants to withdraw.  A thread that finds no other at work takes
all of them to the store in one round trip.  A thread of the borrower takes what is left, renews the lease, and returns
unused slots; another one listens while a want waits at the store.  The lease belongs to the process: when it ends, all
its slots are lost.
"""

import atexit
import logging
import os
import sys
import threading
from contextlib import suppress
from functools import partial
from typing import Any, Final

from penstock.clock import SECOND, pause
from penstock.errors import StoreBrokenError, StoreError
from penstock.policies import clock
from penstock.policies.errors import InvalidPolicyError
from penstock.policies.process_lock import lock
from penstock.policies.shared.round_trips import RENEWALS, Lender, RoundTrips
from penstock.policies.waiter import WAITING, Waiter

TRIES: Final = 10  # in a lease, when the store does not answer
GLANCE: Final = 100_000  # between two looks whether other processes want slots that are unused here
LISTEN: Final = 1.0  # seconds, then have another look
LINGER: Final = 0.0002  # seconds

log = logging.getLogger("penstock.policies")


class Borrower(RoundTrips):
    """Makes round trips to one store when there is something to say, and keeps the lease."""

    def __init__(self, engine: Lender, lease: int) -> None:
        super().__init__(engine, lease)
        self._process = os.getpid()
        self._tidied = 0
        self._lead = threading.Lock()  # held by the thread that makes a round trip
        self._end = threading.Event()
        self._threads: list[threading.Thread] = []

    @property
    def closed(self) -> bool:
        return self._end.is_set()

    def serve(self, waiter: Waiter) -> None:
        """Take all orders to the store in this thread, as long as no other thread does and *waiter* waits."""
        self._start()
        while waiter.state == WAITING and self._busy() and self._lead.acquire(blocking=False):
            try:
                self._round_trip()
            finally:
                self._lead.release()
            if self._unsure:
                break  # the thread tries again, now and then
        if self._busy():
            self._bell.set()

    def send(self) -> None:
        """Let the thread take all orders to the store."""
        self._start()
        self.ring()

    def close(self) -> None:
        """Give everything back, and end."""
        if self._end.is_set() or os.getpid() != self._process:
            return
        self._end.set()
        self._bell.set()
        self._waits_at_store.set()
        with self._lead:
            holder, self._holder = self._holder, 0
            try:
                if holder:
                    with suppress(StoreBrokenError):  # it has no slots to give back any more
                        self._engine.leave(holder)
            finally:
                with lock, lock.mutex:
                    self._let_go()

    def _start(self) -> None:
        if self._threads:
            return
        with lock, lock.mutex:
            if self._threads:
                return
            for work in (self._attend, self._listen, self._watch):
                thread = threading.Thread(target=work, name=f"penstock-slots{work.__name__}", daemon=True)
                self._threads.append(thread)
        for thread in self._threads:
            thread.start()

    def _attend(self) -> None:
        while not self._end.is_set():
            try:
                self._bell.wait(self._nap())
                self._bell.clear()
                self._once()
            except Exception:
                log.exception("the borrower of shared bulkheads failed; it goes on")
                self._unsure = True
            if self._unsure:
                self._end.wait(self._lease // TRIES / SECOND)

    def _once(self) -> None:
        now = clock.now()
        if self._end.is_set():
            return
        if now - self._tidied >= GLANCE:
            self._tidied = now
            try:
                self._tidy(now)
            except StoreError as error:
                log.warning("cannot ask which slots are wanted: %s", error)
        due = self._holder and now - self._renewed >= self._lease // RENEWALS
        if due and not self._in_use():
            self._depart()
        elif due or self._busy():
            if not due and not self._new and not self._unsure:
                pause(LINGER)  # a call that gives back often asks again at once, and both go together
            with self._lead:
                if not self._end.is_set():
                    self._round_trip(renew=bool(due), look=bool(due) and bool(self._known))

    def _nap(self) -> float | None:
        """Return how long there is nothing to do, in seconds."""
        now = clock.now()
        if not self._holder:
            return None
        until = self._renewed + self._lease // RENEWALS
        with lock, lock.mutex:
            if any(pool.idle_gates() for pool in self._pools):
                until = min(until, now + GLANCE)
        return max(until - now, 0) / SECOND

    def _in_use(self) -> bool:
        with lock, lock.mutex:
            return bool(self._known or self._busy() or any(pool.leased() for pool in self._pools))

    def _tidy(self, now: int) -> None:
        """Return slots that were unused for a while, or that others wait for."""
        with lock, lock.mutex:
            busy = {pool for pool, _ in self._known.values()}
            self._pools = {pool for pool in self._pools if pool in busy or pool.leased()}
            gates = sorted({gate for pool in self._pools for gate in pool.idle_gates()})
        if not gates or not self._holder:
            return
        contended = set(self._engine.wanted_by_others(self._holder, gates))
        with lock, lock.mutex:
            for pool in self._pools:
                names = {want.key for other, want in self._known.values() if other is not pool}
                pool.tidy(now, contended, names)

    def _depart(self) -> None:
        with self._lead:
            if not self._in_use() and self._holder:
                holder, self._holder = self._holder, 0
                with suppress(StoreError):  # its lease will end
                    self._engine.leave(holder)

    def _watch(self) -> None:
        """Notice the end of the lease, also while other threads wait for a store that does not answer."""
        while not self._end.is_set():
            left = self.valid_until - clock.now() if self._holder else self._lease
            if left > 0:
                # Not longer than a second: a wait does not count the time a machine sleeps.
                self._end.wait(min(left, SECOND) / SECOND)
                continue
            with lock, lock.mutex:
                if self._holder and clock.now() >= self.valid_until:
                    self._lose()

    def _listen(self) -> None:
        while not self._end.is_set():
            self._waits_at_store.wait()
            with lock, lock.mutex:
                idle = not self._at_store
                if idle:
                    self._waits_at_store.clear()
            if self._end.is_set():
                return
            if idle:
                continue
            try:
                if self._engine.await_loan(self._holder, LISTEN) and self._at_store:
                    with self._lead:
                        if not self._end.is_set():
                            self._round_trip(look=True)
            except Exception as error:  # noqa: BLE001 - it may be over the next time
                log.warning("cannot listen for slots: %s", error)
                # A broken store is asked once more, which turns all wants down.
                self._unsure = self._unsure or isinstance(error, StoreBrokenError)
                self._bell.set()
                self._end.wait(LISTEN)


_borrowers: Final[dict[int, Borrower]] = {}  # by the id of the engine, which its borrower keeps alive
_opening: Final = threading.Lock()
_finalized: Final[set[int]] = set()  # processes in which `_close_all` is registered there


def borrower_for(engine: Any, lease: int) -> Borrower:
    """Return the borrower of this process at the store of *engine*."""
    if not hasattr(engine, "lend"):
        raise InvalidPolicyError(
            "shared", "slots are lent by a store, not by a server; give it an app on SQLite or PostgreSQL"
        )
    with _opening:
        borrower = _borrowers.get(id(engine))
        if borrower is None or borrower.closed:
            borrower = _borrowers[id(engine)] = Borrower(engine, lease)
            engine.before_close(partial(_close, id(engine), borrower))
            _close_at_exit()
        return borrower


def _close(name: int, borrower: Borrower) -> None:
    try:
        borrower.close()
    finally:
        if _borrowers.get(name) is borrower:
            del _borrowers[name]


def _close_at_exit() -> None:
    # Again, so that it comes before what was registered earlier: the store must not be closed by then.
    atexit.unregister(_close_all)
    atexit.register(_close_all)
    if "multiprocessing.util" in sys.modules and os.getpid() not in _finalized:
        # Processes forked by that module do not run `atexit` functions.
        _finalized.add(os.getpid())
        sys.modules["multiprocessing.util"].Finalize(None, _close_all, exitpriority=100)


def _close_all() -> None:
    for name, borrower in list(_borrowers.items()):
        try:
            _close(name, borrower)
        except Exception as error:  # noqa: BLE001 - the lease ends in any case
            log.warning("could not give back slots at exit: %s", error)


def _after_fork() -> None:
    global _opening  # noqa: PLW0603 - a lock that another thread held would stay shut
    _opening = threading.Lock()  # type: ignore[misc]
    _borrowers.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
