"""Answer claims, for one worker or several, in one transaction: after what is due has happened."""

from collections.abc import Sequence
from itertools import accumulate, groupby
from typing import Final

from msgspec.structs import replace

from penstock.engine.admission.ahead import GrantsAhead
from penstock.engine.admission.board import Board
from penstock.engine.admission.claiming import Claiming
from penstock.engine.admission.free_jobs import start_at_once
from penstock.engine.admission.lane import Lane
from penstock.engine.admission.own_lanes import need_lanes
from penstock.engine.admission.relays import hand_on
from penstock.engine.admission.standby import stand_by
from penstock.engine.admission.starting import LeaseTerms
from penstock.engine.claim_shares import shares_of
from penstock.engine.leases import begun
from penstock.engine.upkeep import BATCH, bring_up_to_date
from penstock.job import AT_ONCE, LEAD, Ahead, Claim, Claimed, ClaimFor, Order, Topic
from penstock.lifecycle.knowledge import knowledge_of
from penstock.limits.gate import ON_RELEASE
from penstock.store import gates as gate_rows
from penstock.store import history as history_rows
from penstock.store import instances as instance_rows
from penstock.store import parts as part_rows
from penstock.store import queues as queue_rows
from penstock.store.claim_snapshot import ClaimSnapshot, next_moment, read_snapshot
from penstock.store.parts import FRESH
from penstock.store.session import Queue, Session

CATCH_UP: Final = 20  # batches of what is due, in one claim


def claim_all(board: Board, requests: Sequence[ClaimFor]) -> list[Claim]:
    """Answer claims one after the other; equal claims in a row are served together."""
    answers: list[Claim] = []
    for _, alike in groupby(requests, key=_asked):
        if answers:
            settle_down(board)
        answers += ClaimBatch(board, list(alike)).run()
        if answers[-1].more:
            # The claim that was cut short comes first next time.
            answers += [Claim([], more=True, next_at=board.now) for _ in requests[len(answers) :]]
            break
    return _numbered(board, requests, answers)


def _numbered(board: Board, requests: Sequence[ClaimFor], answers: list[Claim]) -> list[Claim]:
    """Count all attempts of the jobs that were claimed, where that was asked for."""
    asked = [claim for wanted, claim in zip(requests, answers, strict=True) if wanted.numbered and claim.jobs]
    if asked:
        made = history_rows.numbers(board.db, [job.seq for claim in asked for job in claim.jobs])
        for claim in asked:
            claim.jobs[:] = [replace(job, number=made.get(job.seq, 0) + 1) for job in claim.jobs]
    return answers


def _asked(request: ClaimFor) -> tuple[object, ...]:
    return (
        request.queues, request.lease, request.grace, request.timed, request.order, request.weights, request.tenant,
        request.tasks, request.ahead, request.numbered, request.relay,
        request.standby,
    )  # fmt: skip


def names_of(request: ClaimFor) -> list[str]:
    """Return the names of the queues that a claim asks for, each once."""
    return list(dict.fromkeys(request.queues))


def look(db: Session, request: ClaimFor) -> ClaimSnapshot:
    """Look at the clock, and at the queues that a claim asks for."""
    return read_snapshot(db, names_of(request), request.tenant, knowledge_of(request.tasks))


class ClaimBatch:
    """Claims that differ only in their worker and their count."""

    def __init__(self, board: Board, requests: Sequence[ClaimFor]) -> None:
        self._board = board
        self._requests = requests
        self._asked = requests[0]
        self._names = names_of(self._asked)
        self._known = knowledge_of(self._asked.tasks)
        self._count = sum(request.count for request in requests)
        workers = [self._asked.worker]
        if any(request.worker != self._asked.worker for request in requests):
            workers = [request.worker for request in requests for _ in range(request.count)]
        self._terms = LeaseTerms(board.now, workers, self._asked.lease, self._asked.timed)
        self._rotates = False  # tenants had jobs here when this claim looked
        self._last_served = 0  # the highest number given to a tenant that was served from these queues

    def run(self) -> list[Claim]:
        """Return the answer to each."""
        board = self._board
        if self._asked.ahead is not None and self._asked.ahead.begun:
            begun(board, self._asked.ahead.begun)
        view = self._look()
        if "maintenance" in view.flags:
            return self._nothing()
        if "door" in view.flags:
            board.db.need_gates()
        if view.is_due(board.now):
            if board.db.shares_gates:
                board.db.need_gates()
            if not catch_up(board, view):
                # A job that is due may come before all others, so no job starts yet.
                return self._nothing(more=True)
            view = self._look()
        if self._asked.tasks == ():
            return self._nothing()
        view.with_lanes.update(board.own.found_in)
        self._note_known(view)
        self._note_rotation(view)
        if self._asked.order is Order.PRIORITY or len(self._names) == 1:
            claim = self._take(view, self._names, self._count, self._terms, self._asked.ahead)
            self._note_served(claim.jobs)
        else:
            claim = self._by_shares(view)
        return self._divided(claim)

    def _nothing(self, *, more: bool = False) -> list[Claim]:
        return [Claim([], more, self._board.now if more else None) for _ in self._requests]

    def _look(self) -> ClaimSnapshot:
        if any(lane.tenant for lane in self._board.newly_ready):
            self._board.flush_lanes()  # tenants are found by their lanes in the store
        return look(self._board.db, self._asked)

    def _note_known(self, view: ClaimSnapshot) -> None:
        """Write down, now and then, that there is a worker for tasks whose jobs stand apart."""
        due = self._board.now - FRESH
        if old := [pair for pair, known_at in view.parts.items() if known_at <= due]:
            part_rows.known(self._board.db, old, self._board.now)

    def _queues(self, view: ClaimSnapshot, names: Sequence[str]) -> list[Queue]:
        """Return the queues of these names to look at: those with jobs, and those of no tenant or the one asked for."""
        own = {queue for name in names if not view.is_paused(queue := (self._asked.tenant or "", name))}
        return sorted(own | {queue for queue in view.with_jobs() if queue[1] in names})

    def _by_shares(self, view: ClaimSnapshot) -> Claim:
        """Take each queue's share; what one queue lacks is taken from the others."""
        board, strict = self._board, self._asked.order is Order.STRICT
        view = self._again(view)
        jobs: list[Claimed] = []
        more, moments = False, [_next_at(board, view, ON_RELEASE, ())]
        spent: set[str] = set()
        while len(jobs) < self._count and (names := self._with_jobs(view, spent)):
            shares = shares_of(board.db, self._asked, names, self._count - len(jobs))
            for name, share in zip(names, shares, strict=True):
                if not share:
                    continue
                claim = self._take(view, [name], share, self._terms.after(len(jobs)))
                jobs += claim.jobs
                self._note_served(claim.jobs)
                if len(jobs) < self._count:
                    view = self._again(view)
                if len(claim.jobs) < share:
                    spent.add(name)
                    more = more or claim.more
                    moments.append(claim.next_at)
            if strict and more:
                break  # the rest of this queue comes before the next queue
        if more or len(jobs) == self._count:
            return Claim(jobs, more and len(jobs) < self._count, board.now)
        return Claim(jobs, more=False, next_at=min((at for at in moments if at is not None), default=None))

    def _again(self, view: ClaimSnapshot) -> ClaimSnapshot:
        """Write everything and read again.

        A start of one queue may have called a lane of another, and a tenant that was served is the last in rotation.
        """
        settle_down(self._board)
        if self._board.lanes or self._rotates:
            view = self._look()
            self._note_rotation(view)
        return view

    def _with_jobs(self, view: ClaimSnapshot, spent: set[str]) -> list[str]:
        found = {name for _, name in view.with_jobs()}
        return [name for name in self._names if name in found - spent]

    def _take(
        self,
        view: ClaimSnapshot,
        names: Sequence[str],
        count: int,
        terms: LeaseTerms,
        ahead: Ahead | None = None,
    ) -> Claim:
        """Start up to *count* jobs of these queues, the best first."""
        board, queues = self._board, self._queues(view, names)
        grants = None
        if ahead is not None and _opens_soon(board, view, ahead):
            board.db.need_gates()
            grants = GrantsAhead(board, ahead)
            grants.open()
        ruled = view.type_gates or view.queue_gates or view.pool_gates
        lanes = board.db.gated or board.newly_ready
        if count and not lanes and not ruled and queues == [("", names[0])]:
            claim = self._take_at_once(view, queues[0], count, terms)
            if claim is not None:
                return claim

        def is_wanted(lane: Lane) -> bool:
            known = not lane.part or (lane.head is not None and claiming.tasks.knows(lane))
            return known and self._asked.tenant in (None, lane.tenant) and lane.queue in names

        # Shares are counted in jobs, and so are claims that are answered together.
        alone = self._asked.order is Order.PRIORITY and len(self._requests) == 1
        spans = {task: span for task, span in self._asked.relay if task in self._known} if alone else {}
        standby = self._asked.standby if spans else 0
        claiming = Claiming(
            board, queues, count, self._asked.grace, view, self._known, is_wanted, grants, standby
        )
        claiming.run()
        paces = False  # starts of this worker have their moments
        if grants is not None and ahead is not None:
            most = ahead.most
            if ahead.alone:
                taken = len(claiming.admitted)
                empty = self._empty_handed(taken)
                most, terms = min(most, len(empty)), terms.then(taken, [each.worker for each in empty])
            paces = grants.grant(claiming, most) or bool(ahead.held)
        stands_by = standby > 0 and not paces and stand_by(claiming, spans, standby)
        taken = len(claiming.admitted)
        if not stands_by:
            hand_on(claiming, spans)
        claiming.starting.read_payloads()
        if grants is not None:
            grants.close()
        board.flush()
        jobs = claiming.save(terms)
        self._tell_room(view, jobs)
        left_over = claiming.unseen or any(is_wanted(lane) and lane.ready for lane in board.newly_ready)
        more = taken < count and (claiming.budget.left <= 0 or left_over)
        if more or taken >= count > 0 or stands_by:
            return Claim(jobs, more, board.now)
        next_at = _next_at(board, view, claiming.queues.opens_at, jobs, early=ahead is not None)
        return Claim(jobs, more=False, next_at=next_at)

    def _take_at_once(self, view: ClaimSnapshot, queue: Queue, count: int, terms: LeaseTerms) -> Claim | None:
        """Start jobs of a queue in one statement; None if they stand in several parts, or are not all known."""
        board, tasks = self._board, self._known.names()
        if any(lanes[:2] == queue for lanes in view.with_lanes):
            need_lanes(board.db)
            return None
        parts = {part for *place, part in view.with_free if place == list(queue)}
        if parts - {""} or (tasks is None and not self._known.is_all):
            return None
        jobs = start_at_once(board, queue[1], count, terms, tasks) if parts else []
        if jobs is None:
            return None
        self._tell_room(view, jobs)
        if len(jobs) == count:
            return Claim(jobs, more=False, next_at=board.now)
        return Claim(jobs, more=False, next_at=_next_at(board, view, ON_RELEASE, jobs))

    def _tell_room(self, view: ClaimSnapshot, jobs: Sequence[Claimed]) -> None:
        if view.awaited and any((job.tenant, job.queue) in view.awaited for job in jobs):
            self._board.db.tell(Topic.ROOM)

    def _note_rotation(self, view: ClaimSnapshot) -> None:
        """Note whether tenants are in rotation.  Once they were, they are to the end, though none has a job left."""
        self._last_served = max(self._last_served, view.last_served)
        if any(tenant for tenant, _ in view.with_jobs()):
            self._rotates = True
            self._board.db.need_gates()  # so that which tenant is served, and when, is one decision

    def _note_served(self, jobs: Sequence[Claimed]) -> None:
        """Write down which tenants were served, in order, if they are in rotation."""
        if not self._rotates:
            return
        # The last job of each counts.
        served = {(job.queue, job.tenant): number for number, job in enumerate(jobs, self._last_served + 1)}
        self._last_served += len(jobs)
        queue_rows.serve(self._board.db, [(*key, number) for key, number in served.items()])

    def _empty_handed(self, taken: int) -> list[ClaimFor]:
        """Return the claims that get none of so many jobs, which go to one claim after the other."""
        before = accumulate((request.count for request in self._requests), initial=0)
        return [request for request, first in zip(self._requests, before, strict=False) if first >= taken]

    def _divided(self, claim: Claim) -> list[Claim]:
        """Divide the jobs: they were taken for one claim after the other, then one for each of those left empty."""
        if len(self._requests) == 1:
            return [claim]
        taken, granted = claim.jobs, list[Claimed]()
        if self._asked.ahead is not None and self._asked.ahead.alone:
            taken = [job for job in claim.jobs if not job.begin_from]
            granted = claim.jobs[len(taken) :]
        answers, begin = [], 0
        for request in self._requests:
            jobs = taken[begin : begin + request.count]
            if not jobs:
                jobs, granted = granted[:1], granted[1:]
            begin += request.count
            full = len(jobs) == request.count
            answers.append(Claim(jobs, claim.more and not full, self._board.now if full else claim.next_at))
        return answers


def settle_down(board: Board) -> None:
    """Write everything, so that the next claim of this transaction finds it."""
    board.flush()
    board.db.send_last()


def catch_up(board: Board, view: ClaimSnapshot | None = None) -> bool:
    """Do what is due; False if there is so much that the rest is left to the next transaction."""
    if view is None or "instances" in view.flags:
        board.to_follow.unadmitted = True
    if view is None or view.moments.get("timer", ON_RELEASE) <= board.now:
        board.to_follow.fired += instance_rows.due_timers(board.db, board.now, BATCH)
    return any(BATCH not in bring_up_to_date(board).values() for _ in range(CATCH_UP))


def _opens_soon(board: Board, view: ClaimSnapshot, ahead: Ahead) -> bool:
    """Tell whether there may be starts to grant ahead; at lanes of their own the clock opens nothing."""
    lanes = board.db.gated and bool(view.with_lanes)
    wakes = [post.wake for post in board.posts.values() if post.wake is not None]
    wake = min(view.moments.get("wake", ON_RELEASE), *wakes, ON_RELEASE)
    return bool(ahead.held) or lanes or wake <= board.now + ahead.within


def _next_at(
    board: Board, view: ClaimSnapshot, opens_at: int, jobs: Sequence[Claimed], *, early: bool = False
) -> int | None:
    """Return when the clock alone changes something for a claim; *early* enough to be granted starts ahead."""
    if view.in_flight(board.now) or "instances" in view.flags:
        # Another transaction is bringing it about and has not committed: its job is in no place that can be seen yet.
        # Or there are more instances to admit than this transaction could.
        return AT_ONCE
    if view.is_due(board.now):
        # Something stays due, as the expiry of a job that runs: look beyond it.
        moment = next_moment(board.db, board.now)
        moments = [] if moment is None else [moment]
        wake = ON_RELEASE
    else:
        moments = [at for what, at in view.moments.items() if what != "wake"]
        wake = view.moments.get("wake", ON_RELEASE)
    if early and (stored := gate_rows.next_wake(board.db)) is not None:
        wake = stored
    wake = min(wake, board.next_wake)
    if early and board.now < wake - LEAD < ON_RELEASE - LEAD:
        # A gate that opens sooner has nothing to grant ahead: that would have been granted now.
        wake -= LEAD
    next_at = min(opens_at, wake, *(job.lease for job in jobs), *moments)
    return None if next_at == ON_RELEASE else next_at
