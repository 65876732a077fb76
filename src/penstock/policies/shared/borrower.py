"""The borrower of a process: it borrows slots from a store, for all its shared bulkheads together.

Calls leave their orders here: wants, slots to give back, wants to withdraw.  A thread that finds no other at work takes
all of them to the store in one exchange.  A thread of the borrower takes what is left, renews the lease, and returns
unused slots; another one listens while a want waits at the store.  The lease belongs to the process: when it ends, all
its slots are lost.

Orders are changed under the process lock; the store is asked without it.
"""

import atexit
import logging
import os
import socket
import sys
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final, Protocol

from penstock.clock import SECOND, pause
from penstock.errors import StoreBrokenError, StoreDownError, StoreError
from penstock.lending import Audit, Lending, Lent, Loan, Want
from penstock.policies import clock
from penstock.policies.errors import InvalidPolicyError
from penstock.policies.process_lock import lock
from penstock.policies.wait_moves import leave_and_advance
from penstock.policies.waiter import WAITING, Waiter, together

RENEWALS: Final = 3  # in a lease
TRIES: Final = 10  # in a lease, when the store does not answer
GLANCE: Final = 100_000  # between two looks whether other processes want slots that are unused here
LISTEN: Final = 1.0  # seconds, then have another look
LINGER: Final = 0.0002  # seconds

log = logging.getLogger("penstock.policies")


class Lender(Protocol):
    """The part of an engine that a borrower uses."""

    def lend(self, asked: Lending) -> Lent: ...
    def await_loan(self, holder: int, timeout: float) -> bool: ...
    def wanted_by_others(self, holder: int, gates: list[int]) -> list[int]: ...
    def leave(self, holder: int) -> None: ...
    def before_close(self, call: Callable[[], None]) -> None: ...


class SharedSlots(Protocol):
    """The part of a shared slot pool that a borrower uses, under the lock."""

    def receive(self, loan: Loan, asked: int) -> None: ...
    def wait_on(self, want: int) -> None: ...
    def turn_down(self, want: int, error: Exception | None = None) -> None: ...
    def lose(self) -> None: ...
    def leased(self) -> dict[int, int]: ...
    def idle_gates(self) -> list[int]: ...
    def tidy(self, now: int, contended: set[int], names: set[str]) -> None: ...


class Borrower:
    """One process at one store, under a *lease* in microseconds."""

    def __init__(self, engine: Lender, lease: int) -> None:
        self._engine = engine
        self._lease = lease
        self._process = os.getpid()
        self._name = f"{socket.gethostname()}:{self._process}"
        self._holder = 0
        self._losses = 0
        self._tidied = 0
        self.valid_until = 0  # by this process's clock: then others may have its slots
        self._renewed = 0
        self._pools: set[SharedSlots] = set()  # that may have borrowed slots
        self._new: dict[int, Want] = {}
        self._known: dict[int, tuple[SharedSlots, Want]] = {}  # wants without an answer, sent or not
        self._at_store: set[int] = set()  # those of them that wait at the store
        self._returned: Counter[int] = Counter()
        self._withdrawn: list[int] = []
        self._unsure = False  # whether the store may have done what it could not report
        # Whether an exchange is under way; still true when the next one begins if its thread was interrupted.
        self._under_way = False
        self._lead = threading.Lock()
        self._bell = threading.Event()
        self._waits_at_store = threading.Event()
        self._end = threading.Event()
        self._threads: list[threading.Thread] = []

    @property
    def closed(self) -> bool:
        return self._end.is_set()

    # Orders; under the lock.

    def want(self, pool: SharedSlots, want: Want) -> None:
        """Ask for slots at the next exchange."""
        self._new[want.id] = want
        self._known[want.id] = (pool, want)
        self._pools.add(pool)

    def withdraw(self, want: int) -> None:
        """Withdraw a want."""
        self._forget(want)
        if self._new.pop(want, None) is None:
            self._withdrawn.append(want)
            self.ring()

    def give_back(self, gate: int, slots: int) -> None:
        """Return slots at the next exchange."""
        self._returned[gate] += slots
        self.ring()

    def ring(self) -> None:
        """Wake the thread that takes orders to the store."""
        if not self._bell.is_set():
            self._bell.set()

    # Exchanges; without the lock.

    def serve(self, waiter: Waiter) -> None:
        """Take all orders to the store in this thread, as long as no other thread does and *waiter* waits."""
        self._start()
        while waiter.state == WAITING and self._busy() and self._lead.acquire(blocking=False):
            try:
                self._exchange()
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

    def _let_go(self) -> None:
        """Tell all waiting calls that the borrower is closed."""
        known, self._known, self._at_store = self._known, {}, set()
        for want, (pool, _) in known.items():
            pool.turn_down(want, StoreDownError("the app was closed while a call waited for its slots"))
        for pool in self._pools:
            pool.lose()
        self._pools = set()

    def _forget(self, want: int) -> SharedSlots | None:
        """Forget a want; return its pool."""
        self._at_store.discard(want)
        pool, _ = self._known.pop(want, (None, None))
        return pool

    def _busy(self) -> bool:
        return bool(self._new or self._returned or self._withdrawn or self._unsure)

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

    def _exchange(self, *, renew: bool = False, look: bool = False) -> None:
        """Take all orders to the store; the calling thread has the lead."""
        with lock, lock.mutex:
            wanted = tuple(self._new.values())
            self._new = {}
            returned, self._returned = tuple(self._returned.items()), Counter()
            withdrawn, self._withdrawn = tuple(self._withdrawn), []
            unsure, self._unsure = self._unsure or self._under_way, False
            losses, self._under_way = self._losses, True
        if not self._holder and not wanted:
            self._under_way = False
            return
        asked = clock.now()
        renew = renew or asked - self._renewed > self._lease // RENEWALS
        order = Lending(
            self._holder, self._lease, self._name, returned, withdrawn, wanted,
            renew, look or unsure, unsure,
        )  # fmt: skip
        try:
            lent = self._engine.lend(order)
        except BaseException as error:
            with lock, lock.mutex:
                self._fail(wanted, error)
            if not isinstance(error, Exception):
                raise
            log.warning("cannot borrow slots: %s", error)
            return
        with lock, lock.mutex, together(leave_and_advance):
            believed = self._accept(lent, asked, losses, renew=renew)
        if not believed:
            # It took so long that the lease was given up meanwhile.
            with suppress(StoreError):
                self._engine.leave(lent.holder)

    def _accept(self, lent: Lent, asked: int, losses: int, *, renew: bool) -> bool:
        """Act on an answer, unless it came too late to be believed."""
        self._under_way = False
        if losses != self._losses:
            return False
        new = not self._holder
        if lent.holder and (renew or new):
            self._renewed, self.valid_until = asked, asked + self._lease
        if lent.holder and clock.now() >= self.valid_until:
            self._lose()
            return False
        self._take(lent, asked)
        if new:
            self._bell.set()  # there is a lease to renew now
        return True

    def _take(self, lent: Lent, asked: int) -> None:
        """Tell the pools what the store answered."""
        self._holder = lent.holder
        if not lent.holder:
            self._lose()
            return
        for want in lent.refused:
            pool = self._forget(want)
            if pool is not None:
                pool.turn_down(want)
        for loan in lent.loans:
            pool = self._forget(loan.want)
            if pool is None:
                self.give_back(loan.gate, loan.slots)
            else:
                pool.receive(loan, asked)
        for want in lent.waiting:
            if want in self._known:
                self._at_store.add(want)
                self._known[want][0].wait_on(want)
        if lent.audit is not None:
            self._reconcile(lent.audit)
        if self._at_store:
            self._waits_at_store.set()

    def _fail(self, wanted: tuple[Want, ...], error: BaseException) -> None:
        """Turn down the wants that did not get through; an audit shows later what the store made of them.

        A broken store cannot be audited, so all wants are turned down.
        """
        broken = isinstance(error, StoreBrokenError)
        self._unsure, self._under_way = not broken, False
        if broken:
            wanted = tuple(want for _, want in self._known.values())
        self._bell.set()
        if not self._holder:
            # What the store did was for a holder that this process does not know, whose lease will end.
            self._unsure = False
            self._new = {id_: want for id_, (_, want) in self._known.items()}
        if isinstance(error, Exception):
            for want in wanted:
                self._new.pop(want.id, None)
                pool = self._forget(want.id)
                if pool is not None:
                    pool.turn_down(want.id, error)

    def _reconcile(self, audit: Audit) -> None:
        """Return slots that no pool has, withdraw wants that no call has, and send wants again that the store lacks."""
        had: Counter[int] = Counter()
        for pool in self._pools:
            had.update(pool.leased())
        self._returned = Counter(
            {gate: n for gate, slots in audit.held.items() if (n := slots - had[gate]) > 0}
        )
        self._withdrawn = [want for want in audit.asking if want not in self._known]
        self._at_store = {want for want in audit.asking if want in self._known}
        for want, (_, what) in self._known.items():
            if want not in audit.asking:
                self._new[want] = what
        if self._busy():
            self.ring()

    def _lose(self) -> None:
        """Forget all slots: the lease has ended, and the store has given them to others."""
        self._holder = self.valid_until = 0
        self._losses += 1
        self._returned.clear()
        self._withdrawn.clear()
        for pool in self._pools:
            pool.lose()
        self._new = {id_: want for id_, (_, want) in self._known.items()}
        self._at_store = set()
        if self._new:
            self._bell.set()

    # The threads.

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
                    self._exchange(renew=bool(due), look=bool(due) and bool(self._known))

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
                            self._exchange(look=True)
            except Exception as error:  # noqa: BLE001 - it may be over the next time
                log.warning("cannot listen for slots: %s", error)
                # A broken store is asked once more, which turns all wants down.
                self._unsure = self._unsure or isinstance(error, StoreBrokenError)
                self._bell.set()
                self._end.wait(LISTEN)


log = logging.getLogger("penstock.policies")

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
