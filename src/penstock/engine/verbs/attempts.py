"""What workers do: claim jobs, keep their leases, settle them."""

from collections.abc import Sequence

from penstock.engine.board import Board
from penstock.engine.claims import check as check_claim
from penstock.engine.claims import claim_all, claimed_at_once, settle_down
from penstock.engine.enqueue import check, enqueue
from penstock.engine.settle import Settling, begun
from penstock.engine.transactions import SELDOM, Transactions
from penstock.job import (
    LEASE,
    START_GRACE,
    Beat,
    Claim,
    ClaimFor,
    Enqueued,
    NewJob,
    Order,
    Running,
    Settled,
    Settlement,
)
from penstock.store import leases as lease_rows
from penstock.store.session import Hold


class AttemptVerbs(Transactions):
    def claim(
        self,
        queues: Sequence[str],
        count: int,
        *,
        worker: str,
        lease: int = LEASE,
        grace: int | None = START_GRACE,
        timed: bool = False,
        order: Order = Order.PRIORITY,
        weights: Sequence[int] = (),
    ) -> Claim:
        """Start up to *count* jobs of these queues for a worker, the best first unless *order* says otherwise.

        Where starts are remembered, their handlers must begin within *grace*.  If it is *timed* attempts are
        ended here when they take longer than their job's timeout.
        """
        wanted = ClaimFor(tuple(queues), count, worker, lease, grace, timed, order, tuple(weights))
        return self.claims([wanted])[0]

    def claims(self, requests: Sequence[ClaimFor]) -> list[Claim]:
        """Answer several claims, one after the other, in one transaction."""
        for request in requests:
            check_claim(request)
        if not requests:
            return []
        if len(requests) == 1 and (claim := self._claim_at_once(requests[0])) is not None:
            return [claim]
        # If a machine that holds both loses its power nothing runs: a claim that is forgotten breaks no limit.
        return self._write_freely(lambda board: claim_all(board, requests), Hold.STARTS, keep=self.far)

    def _claim_at_once(self, request: ClaimFor) -> Claim | None:
        """Claim in one step, where the store can and there is nothing to think of but jobs without limits."""
        take = self.store.take_free
        # One that asks for anything else goes the long way, which knows of everything.
        plain = ClaimFor(request.queues, request.count, request.worker, request.lease, request.grace)
        if take is None or request != plain or len(request.queues) > 1:
            return None
        if self._gated or self._telling.listeners or not self._time.is_stores:
            return None
        if self._thoughtful:
            self._thoughtful -= 1
            return None
        taken = take(request.queues[0], request.count, request.worker, request.lease)
        if taken is None:
            self._thoughtful = SELDOM
            return None
        self._time.heed(taken.moment)
        return claimed_at_once(request, taken)

    def settle(self, settlements: Sequence[Settlement]) -> list[Settled]:
        """Record how attempts ended; False for one whose lease was lost: what it did counts for nothing."""
        if not settlements:
            return []
        return self._write_freely(lambda board: Settling(board).settle(settlements), Hold.NOTHING)

    def settled_at(self, settlements: Sequence[Settlement]) -> list[int | None]:
        """Record how attempts ended; return when each did, None for one whose lease was lost."""
        if not settlements:
            return []
        return self._write_freely(lambda board: _settled_at(board, settlements), Hold.NOTHING)

    def exchange(
        self,
        settlements: Sequence[Settlement],
        queues: Sequence[str],
        count: int,
        *,
        worker: str,
        lease: int = LEASE,
        grace: int = START_GRACE,
    ) -> tuple[list[Settled], Claim]:
        """Settle, then claim, in one transaction: half the flushes to disk of doing one after the other."""
        wanted = ClaimFor(tuple(queues), count, worker, lease, grace)
        check_claim(wanted)

        def work(board: Board) -> tuple[list[Settled], Claim]:
            answers = Settling(board).settle(settlements) if settlements else []
            return answers, claim_all(board, [wanted])[0]

        return self._write_freely(work, Hold.STARTS)

    def turn(
        self, jobs: Sequence[NewJob], settlements: Sequence[Settlement], requests: Sequence[ClaimFor]
    ) -> tuple[list[Enqueued], list[int | None], list[Claim]]:
        """Enqueue, settle (see `settled_at`) and claim for many at once: one transaction, all of it or nothing."""
        for job in jobs:
            check(job)
        for request in requests:
            check_claim(request)

        def work(board: Board) -> tuple[list[Enqueued], list[int | None], list[Claim]]:
            added = enqueue(board, jobs) if jobs else []
            settle_down(board)
            settled = _settled_at(board, settlements) if settlements else []
            settle_down(board)
            return added, settled, claim_all(board, requests)

        return self._write_freely(work, Hold.STARTS, keep=self.far or bool(jobs or settlements))

    def begun(self, reports: Sequence[tuple[int, int, int]]) -> None:
        """Tell how long after its claim each handler began, as (seq, fence, span), so that windows open on time."""
        if reports:
            self._write(lambda board: begun(board, reports), keep=False)

    def heartbeat(self, attempts: Sequence[tuple[int, int]], *, lease: int = LEASE) -> list[Beat]:
        """Renew the leases of attempts; tell which are lost and which should stop."""
        if not attempts:
            return []
        return self._write(
            lambda board: lease_rows.renew(board.db, attempts, board.now, lease),
            Hold.NOTHING,
            keep=self.far,
        )

    def progress(self, seq: int, fence: int, value: str) -> bool:
        """Keep how far a running attempt is, as JSON; False if its lease was lost."""
        return self._write(
            lambda board: lease_rows.progress(board.db, seq, fence, value, board.now),
            Hold.NOTHING,
            keep=False,
        )

    def attempts(self, ids: Sequence[str]) -> dict[str, Running]:
        """Return the attempts of these jobs that run now."""
        if not ids:
            return {}
        rows = self.store.read(lambda db: lease_rows.running(db, ids))
        return {row[0]: Running(*row) for row in rows}


def _settled_at(board: Board, settlements: Sequence[Settlement]) -> list[int | None]:
    return [board.now if accepted else None for accepted in Settling(board).settle(settlements)]
