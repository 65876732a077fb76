"""Round trips to the store that lends slots: what a process sends along, and what it makes of the answers.

Orders are changed under the process lock; the store is asked without it.
"""

import logging
import os
import socket
import threading
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Final, Protocol

from penstock.errors import StoreBrokenError, StoreDownError, StoreError
from penstock.job import Audit, Lending, Lent, Loan, Want
from penstock.policies import clock
from penstock.policies.process_lock import lock
from penstock.policies.wait_moves import leave_and_advance
from penstock.policies.waiter import WAITING, Waiter, together

RENEWALS: Final = 3  # in a lease

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


class RoundTrips:
    """The orders of one process at one store, under a *lease* in microseconds."""

    def __init__(self, engine: Lender, lease: int) -> None:
        self._engine = engine
        self._lease = lease
        self._name = f"{socket.gethostname()}:{os.getpid()}"
        self._holder = 0
        self._losses = 0
        self.valid_until = 0  # by this process's clock: then others may have its slots
        self._renewed = 0
        self._pools: set[SharedSlots] = set()  # that may have borrowed slots
        self._new: dict[int, Want] = {}
        self._known: dict[int, tuple[SharedSlots, Want]] = {}  # wants without an answer, sent or not
        self._at_store: set[int] = set()  # those of them that wait at the store
        self._returned: Counter[int] = Counter()
        self._withdrawn: list[int] = []
        self._unsure = False  # whether the store may have done what it could not report
        # Whether a round trip is under way; still true when the next one begins if its thread was interrupted.
        self._under_way = False
        self._bell = threading.Event()
        self._waits_at_store = threading.Event()

    # Orders; under the lock.

    def want(self, pool: SharedSlots, want: Want) -> None:
        """Ask for slots with the next round trip."""
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
        """Return slots with the next round trip."""
        self._returned[gate] += slots
        self.ring()

    def ring(self) -> None:
        """Wake the thread that takes orders to the store."""
        if not self._bell.is_set():
            self._bell.set()

    # Round trips; without the lock.

    def _round_trip(self, *, renew: bool = False, look: bool = False) -> None:
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


class Wants:
    """The wants of a pool that have no final answer yet: which are at the store, and which were told to wait.

    A want is what one waiting call asks of the store; it has the number of the waiter that brought it.
    A pool that does not serve first come, first served may give a waiter what another one asked for.  The want of the
    first then stands for the other.  So there are as many wants as waiting calls, not always of the same calls.
    """

    def __init__(self) -> None:
        self._brought: dict[int, Waiter] = {}
        self._of_key: dict[Hashable, dict[int, Waiter]] = {}
        self._told: dict[Hashable, set[int]] = {}

    def __contains__(self, want: int) -> bool:
        return want in self._brought

    def add(self, waiter: Waiter) -> None:
        """Add the want of *waiter*."""
        self._brought[waiter.seq] = waiter
        self._of_key.setdefault(waiter.key, {})[waiter.seq] = waiter

    def pop(self, want: int) -> Waiter | None:
        """Forget a want; return the waiter that brought it."""
        waiter = self._brought.pop(want, None)
        if waiter is None:
            return None
        of_key = self._of_key[waiter.key]
        del of_key[want]
        if not of_key:
            del self._of_key[waiter.key]
        told = self._told.get(waiter.key, set())
        told.discard(want)
        if not told:
            self._told.pop(waiter.key, None)
        return waiter

    def brought_by(self, want: int) -> Waiter:
        """Return the waiter that brought a want."""
        return self._brought[want]

    def count(self, key: Hashable) -> int:
        """Return how many there are for *key*."""
        return len(self._of_key.get(key, ()))

    def told(self, key: Hashable) -> set[int]:
        """Return the wants for *key* that were told to wait."""
        return self._told.get(key, set())

    def tell(self, want: int) -> None:
        """Note that a want was told to wait."""
        self._told.setdefault(self._brought[want].key, set()).add(want)

    def vain(self, key: Hashable, most: int) -> list[int]:
        """Return up to *most* wants for *key* whose bringers wait no longer."""
        return list(islice(self._not_waiting(key), most))

    def _not_waiting(self, key: Hashable) -> Iterator[int]:
        return (want for want, waiter in self._of_key.get(key, {}).items() if waiter.state != WAITING)
