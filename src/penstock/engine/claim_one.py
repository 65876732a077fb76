"""Claim one job by its id: it starts if all its gates are open, wherever it stands in its line.

It passes every gate like any start, and what is kept there: for a job that has the turn, for calls that gather slots,
for a heavier job ahead of it in line.  It may pass others of its line that could start too.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from msgspec.structs import replace as with_fields

from penstock.engine.admission.board import Board
from penstock.engine.admission.claiming import Claiming
from penstock.engine.admission.lane import Lane, Post, Stand, with_gate
from penstock.engine.admission.starting import LeaseTerms
from penstock.engine.claim_batch import catch_up
from penstock.engine.lookup import seq_of
from penstock.engine.removal import leave_line
from penstock.engine.transactions import Transactions
from penstock.engine.wording import gate_title, shut_rule
from penstock.errors import GateShutError, WrongStateError
from penstock.job import LEASE, START_GRACE, Claimed, Topic
from penstock.lifecycle.knowledge import knowledge_of
from penstock.limits.gate import ON_RELEASE
from penstock.limits.rules import UNLIMITED, Numbers
from penstock.store import gates as gate_rows
from penstock.store import history as history_rows
from penstock.store import jobs as job_rows
from penstock.store import successors as successor_rows
from penstock.store import waiting as waiting_rows
from penstock.store.claim_snapshot import ClaimSnapshot, read_snapshot
from penstock.store.jobs import ArrivingJob, Place


class ClaimOneVerbs(Transactions):
    def claim_one(
        self,
        job_id: str,
        *,
        worker: str,
        lease: int = LEASE,
        grace: int = START_GRACE,
        timed: bool = False,
        tenant: str | None = None,
    ) -> Claimed:
        """Start this job for a worker, before others of its line, if all its gates are open.

        Raises `GateShutError`, which names those that keep it, and `WrongStateError` if it does not wait.  See `claim`
        for *grace* and *timed*.
        """

        def work(board: Board) -> Claimed:
            seq = seq_of(board.db, job_id, tenant)
            catch_up(board)
            return _start(board, job_id, seq, grace, LeaseTerms(board.now, [worker], lease, timed))

        return self._write(work)


class Refusal(NamedTuple):
    """What keeps a job from starting, by which rule, and until when, if the clock alone decides that."""

    gate: str
    rule: str
    opens_at: int | None


class Picking(Claiming):
    """A claim of one certain job."""

    def pick(self, job: ArrivingJob, place: Place) -> list[Refusal]:
        """Start the job, or return what keeps it."""
        lane = None if place.lane is None else self.board.lane(place.lane)
        candidate = self._candidate(job, place, lane)
        queue = self.queues.by_place[job.tenant, job.queue, ""]
        passed = {stand.gate for stand in candidate.stands}
        refusals = [self._refusal(shut.stand, candidate, shut.at) for shut in self.board.test(candidate)]
        refusals += self._refusals_of_queue(
            [post for post in queue.posts if post.gate.id not in passed], candidate
        )
        if refusals:
            return refusals
        taken = self.board.groups.choose(candidate) if self.board.groups.present else None
        self.starting.admit(queue, candidate, taken)
        self.board.turns.looked_at_again(passed if taken is None else {*passed, taken.gate.id})
        if lane is None:
            self.starting.free[job.seq] = place.made
        else:
            self.board.blocked.left(waiting_rows.told(self.board.db, [job.seq]))
            self.board.heads.left[job.seq] = leave_line(self.board, job.seq, lane) or place.made
        return []

    def _candidate(self, job: ArrivingJob, place: Place, lane: Lane | None) -> Lane:
        """Return the job's lane as it would be if this job came first in it; it passes the gate of its type."""
        if lane is None:
            lane = Lane(0, job.tenant, job.queue, "", ())
        candidate = replace(
            lane,
            head=job.seq,
            priority=job.priority,
            ord=place.ord or 0,
            cost=job.cost,
            costs=job.costs,
            upcoming=[],
        )
        type_gate = self.type_gates.get(job.task)
        if type_gate is not None and not candidate.passes(type_gate):
            candidate.stands = with_gate(candidate.stands, type_gate)
        return candidate

    def _refusals_of_queue(self, posts: Sequence[Post], job: Lane) -> list[Refusal]:
        now, found = self.board.now, []
        for post in posts:
            at = post.gate.opens_at(UNLIMITED, job.cost, now)
            if at > now:
                found.append(self._refused_by(post, UNLIMITED, job.cost, at))
        return found

    def _refusal(self, stand: Stand, job: Lane, at: int) -> Refusal:
        return self._refused_by(self.board.posts[stand.gate], stand.own, job.cost_at(stand), at)

    def _refused_by(self, post: Post, own: Numbers, cost: int, at: int) -> Refusal:
        now = self.board.now
        kind, _, name = gate_rows.name(self.board.db, post.gate.id)
        rule = shut_rule(post.gate, post.gate.numbers(own, now), cost, now)
        return Refusal(gate_title(kind, name), rule, None if at == ON_RELEASE else at)


def _start(board: Board, job_id: str, seq: int, grace: int, terms: LeaseTerms) -> Claimed:
    board.flush_lanes()
    place = _waiting_place(board, job_id, seq)
    (job,) = job_rows.arriving(board.db, [seq])
    snapshot = read_snapshot(board.db, [job.queue], job.tenant, knowledge_of(None))
    _check_may_start(snapshot, job_id, job, place, board)
    picking = Picking(
        board, [(job.tenant, job.queue)], 1, grace, snapshot, knowledge_of(None), lambda _: False
    )
    refusals = picking.pick(job, place)
    if refusals:
        raise _shut(job_id, refusals)
    picking.starting.read_payloads()
    board.flush()
    (claimed,) = picking.save(terms)
    board.db.tell(Topic.ROOM)
    made = history_rows.numbers(board.db, [seq])
    return with_fields(claimed, number=made.get(seq, 0) + 1)


def _waiting_place(board: Board, job_id: str, seq: int) -> Place:
    while True:
        place = job_rows.place(board.db, seq)
        if place is None or place.table in ("running", "scheduled"):
            state = str(job_rows.state(board.db, seq))
            raise WrongStateError(job_id, state, "a job that waits; one that is scheduled can be expedited")
        # A job without limits may start at this very moment; then it is found elsewhere.
        if place.table != "ready" or waiting_rows.lock_ready(board.db, seq):
            return place


def _check_may_start(
    snapshot: ClaimSnapshot, job_id: str, job: ArrivingJob, place: Place, board: Board
) -> None:
    """Raise if something else than a gate keeps the job."""
    found = []
    if "maintenance" in snapshot.flags:
        found.append(Refusal("maintenance", "nothing starts until it ends", None))
    if snapshot.is_paused((job.tenant, job.queue)):
        found.append(Refusal(gate_title("queue", job.queue), "paused; opens when it is resumed", None))
    if place.table == "successor":
        earlier = successor_rows.waits_for(board.db, job.seq)
        found.append(Refusal("its unique key", f"job {earlier[0] if earlier else ''} must end first", None))
    elif place.table == "door":
        found.append(Refusal("the door", "other jobs come first; try again at once", None))
    if found:
        raise _shut(job_id, found)


def _shut(job_id: str, refusals: Sequence[Refusal]) -> GateShutError:
    why = "; ".join(f"{refusal.gate}: {refusal.rule}" for refusal in refusals)
    known = [refusal.opens_at for refusal in refusals if refusal.opens_at is not None]
    opens_at = max(known) if len(known) == len(refusals) else None
    return GateShutError(job_id, [refusal.gate for refusal in refusals], opens_at, why)
