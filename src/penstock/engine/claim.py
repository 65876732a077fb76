"""Claim jobs: for one worker or several in one transaction, from several queues in the order that each asks for."""

from collections.abc import Sequence
from typing import Final

from penstock.engine.admission.board import Board
from penstock.engine.admission.free_jobs import claimed_free
from penstock.engine.admission.starting import LeaseTerms
from penstock.engine.claim_batch import claim_all, look, settle_down
from penstock.engine.enqueue import check as check_job
from penstock.engine.enqueue import enqueue
from penstock.engine.floating import lend_due
from penstock.engine.settle import Settling, settled_at, taken
from penstock.engine.transactions import Transactions
from penstock.errors import InvalidError
from penstock.job import (
    FOLLOWERS_MOST,
    INSTANCES,
    LEASE,
    START_GRACE,
    Ahead,
    Claim,
    ClaimFor,
    Enqueued,
    NewJob,
    Order,
    Refresh,
    RefreshesFor,
    Settled,
    Settlement,
)
from penstock.lifecycle.knowledge import knowledge_of
from penstock.store.session import Locks, Session, StartedJobs

SELDOM: Final = 8  # claims that go the long way after one that could not be answered in one statement


class ClaimVerbs(Transactions):
    def claim(
        self,
        queues: Sequence[str],
        count: int,
        *,
        worker: str,
        lease: int = LEASE,
        grace: int = START_GRACE,
        timed: bool = False,
        order: Order = Order.PRIORITY,
        weights: Sequence[int] = (),
        tenant: str | None = None,
        tasks: Sequence[str] | None = None,
        ahead: Ahead | None = None,
        relay: Sequence[tuple[str, int]] = (),
        standby: int = 0,
    ) -> Claim:
        """Start up to *count* jobs of these queues for a worker, the best first unless *order* says otherwise.

        Without a *tenant* the queues of all tenants are meant, served in rotation.  If the claim names *tasks*, jobs of
        others stay where they are; a `*` in a name stands for any text.
        Where starts are remembered, their handlers must begin within *grace*.  If it is *timed* attempts are
        ended here when they take longer than their job's timeout.  With *ahead* starts are granted that the clock
        allows soon.  Jobs of tasks in *relay* may be started beyond *count*, each to begin after another, and
        up to *standby* to begin when a hand is free.
        """
        wanted = ClaimFor(
            tuple(queues), count, worker, lease, grace, timed, order, tuple(weights), tenant, _named(tasks), ahead,
            relay=tuple(relay), standby=standby,
        )  # fmt: skip
        return self.claims([wanted])[0]

    def claims(self, requests: Sequence[ClaimFor]) -> list[Claim]:
        """Answer several claims, one after the other, in one transaction."""
        for request in requests:
            _check(request)
        if not requests:
            return []
        if len(requests) == 1 and (claim := self._claim_at_once(requests[0])) is not None:
            return [claim]
        # If store and workers share a machine that loses its power, nothing runs: a forgotten claim breaks no limit.
        return self._write_freely(
            lambda board: claim_all(board, requests), Locks.STARTS, keep=self.far,
            first=lambda db: look(db, requests[0]),
        )  # fmt: skip

    def _claim_at_once(self, request: ClaimFor) -> Claim | None:
        """Claim in one statement, where the store can and only jobs without limits matter."""
        take = self.store.take_free
        if take is None or not _is_plain(request):
            return None
        known = knowledge_of(request.tasks)
        if known.names() is None and not known.is_all:
            return None
        if self._gated > 0 or self._publisher.listeners or not self._time.is_stores:
            return None
        if self._slow_claims > 0:
            self._slow_claims -= 1
            return None
        taken = take(request.queues[0], request.count, request.worker, request.lease, known.names())
        if taken is None:
            self._slow_claims = SELDOM
            return None
        self._time.heed(taken.moment)
        return _claimed_at_once(request, taken)

    def exchange(
        self,
        settlements: Sequence[Settlement],
        queues: Sequence[str],
        count: int,
        *,
        worker: str,
        lease: int = LEASE,
        grace: int = START_GRACE,
        tenant: str | None = None,
        tasks: Sequence[str] | None = None,
        ahead: Ahead | None = None,
        relay: Sequence[tuple[str, int]] = (),
        standby: int = 0,
    ) -> tuple[list[Settled], Claim]:
        """Settle, then claim, in one transaction: half the flushes to disk of doing one after the other."""
        wanted = ClaimFor(
            tuple(queues), count, worker, lease, grace, tenant=tenant, tasks=_named(tasks), ahead=ahead,
            relay=tuple(relay), standby=standby,
        )  # fmt: skip
        _check(wanted)

        def work(board: Board) -> tuple[list[Settled], Claim]:
            board.claims_from = (wanted.queues, count + standby)
            answers = Settling(board).settle(settlements) if settlements else []
            return answers, claim_all(board, [wanted])[0]

        def first(db: Session) -> None:
            if settlements:
                taken(db, settlements)
            look(db, wanted)

        return self._write_freely(work, Locks.STARTS, first=first)

    def batch(
        self,
        jobs: Sequence[NewJob],
        settlements: Sequence[Settlement],
        requests: Sequence[ClaimFor],
        refreshing: Sequence[RefreshesFor] = (),
    ) -> tuple[list[Enqueued], list[int | None], list[Claim], list[list[Refresh]]]:
        """Enqueue, settle (see `settled_at`), claim and lend due refreshes for many at once.

        It is one transaction: all of it is done, or nothing.
        """
        for job in jobs:
            check_job(job)
        for request in requests:
            _check(request)

        def work(board: Board) -> tuple[list[Enqueued], list[int | None], list[Claim], list[list[Refresh]]]:
            added = enqueue(board, jobs) if jobs else []
            settle_down(board)
            settled = settled_at(board, settlements) if settlements else []
            settle_down(board)
            claims = claim_all(board, requests)
            if refreshing:
                settle_down(board)
            return added, settled, claims, lend_due(board, refreshing)

        return self._write_freely(work, Locks.STARTS, keep=self.far or bool(jobs or settlements))


def _check(request: ClaimFor) -> None:
    """Raise unless this can be claimed."""
    if request.count < (request.standby < 1):
        raise InvalidError("count", f"{request.count} must be at least 1")
    if not 0 <= request.standby <= FOLLOWERS_MOST:
        raise InvalidError("standby", f"{request.standby} must be from 0 to {FOLLOWERS_MOST}")
    if request.order is Order.WEIGHTED and (
        len(request.weights) != len(request.queues) or min(request.weights, default=0) < 1
    ):
        raise InvalidError("weights", "there must be one for each queue, each at least 1")
    if any(span < 1 for _, span in request.relay):
        raise InvalidError("relay", "handlers must take at least 1 us")
    if INSTANCES in request.queues:
        raise InvalidError("queues", "must not be empty names")
    knowledge_of(request.tasks)


def _is_plain(request: ClaimFor) -> bool:
    """Tell whether a claim asks for nothing but the first jobs of one queue."""
    plain = ClaimFor(
        request.queues, request.count, request.worker, request.lease, request.grace, tasks=request.tasks,
        ahead=request.ahead, relay=request.relay, standby=request.standby,
    )  # fmt: skip
    ahead = request.ahead
    return (
        request == plain
        and request.count > 0
        and len(request.queues) == 1
        and not (ahead and (ahead.held or ahead.begun))
    )


def _named(tasks: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if tasks is None else tuple(tasks)


def _claimed_at_once(request: ClaimFor, taken: StartedJobs) -> Claim:
    """Return the answer to a claim of one queue that was served in one statement."""
    now = taken.moment.now
    terms = LeaseTerms(now, [request.worker], request.lease, timed=False)
    jobs = claimed_free(taken.rows, request.queues[0], taken.fence, terms)
    if len(jobs) == request.count:
        return Claim(jobs, more=False, next_at=now)
    moments = [job.lease for job in jobs] + ([] if taken.next_at is None else [taken.next_at])
    return Claim(jobs, more=False, next_at=min(moments, default=None))
