"""Slots for calls of other processes: lend them, take them back, wait for them."""

from collections.abc import Sequence

from penstock.clock import SECOND
from penstock.engine import lending
from penstock.engine.transactions import Transactions
from penstock.lending import Lending, Lent
from penstock.store import lending as lending_rows
from penstock.store.session import Topic


class SlotVerbs(Transactions):
    def lend(self, asked: Lending) -> Lent:
        """Take back slots from a process, and lend it others for calls of its own, under one lease."""
        return self._write(lambda board: lending.lend(board, asked), keep=self.far)

    def lent_to(self, holder: int) -> bool:
        """Tell whether a process that waits for slots should ask again."""
        now = self._time.seen()
        return self.store.read(lambda db: lending_rows.anything_for(db, holder, now))

    def await_loan(self, holder: int, timeout: float) -> bool:
        """Wait until something may have happened, or for *timeout* seconds; then tell the same."""
        token = self.store.token(Topic.SLOTS)
        if self.lent_to(holder):
            return True
        moment = self.store.read(lending_rows.next_moment)
        if moment is not None:
            timeout = min(timeout, max(moment - self._time.seen(), 0) / SECOND)
        self.store.wait(Topic.SLOTS, token, timeout)
        return self.lent_to(holder)

    def wanted_by_others(self, holder: int, gates: Sequence[int]) -> list[int]:
        """Return those of the gates whose slots a process may not keep, since others wait or starts count."""
        return self.store.read(lambda db: lending_rows.contended(db, holder, gates))

    def leave(self, holder: int) -> None:
        """Take back everything from a process that goes."""
        self._write(lambda board: lending.leave(board, holder), keep=False)
