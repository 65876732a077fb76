"""Start the jobs that a claim admits: take their gates, and write their attempts down.

A job takes all its gates in one decision.  Where one of them remembers starts, the handler must begin by a certain
moment, and the gate remembers the start there.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from penstock.engine.admission.claim_queues import ClaimQueue
from penstock.engine.admission.lane import Lane, Post
from penstock.job import AHEAD, Claimed
from penstock.limits.costs import cost_at
from penstock.limits.groups import Member
from penstock.limits.rules import UNLIMITED, Numbers
from penstock.sequences.pool_values import with_resource
from penstock.store import attempts as attempt_rows
from penstock.store import jobs as job_rows
from penstock.store import leases as lease_rows
from penstock.store import waiting as waiting_rows
from penstock.store import workflows as workflow_rows
from penstock.store.attempts import NewAttempt
from penstock.store.jobs import Made, PayloadRow
from penstock.store.session import Queue
from penstock.store.waiting import Following, FreeJob

if TYPE_CHECKING:
    from penstock.engine.admission.ahead import GrantsAhead
    from penstock.engine.admission.board import Board


class LeaseTerms(NamedTuple):
    """Which workers get the attempts that begin *now*, and for how long, by what the claim and the jobs ask for.

    A single worker in *workers* gets all.  If it is *timed*, the store ends attempts when their timeout is over.
    """

    now: int
    workers: Sequence[str]
    lease: int
    timed: bool

    def until(self, own: int | None, timeout: int | None) -> tuple[int, int | None]:
        """Return when the lease of an attempt ends, given the job's own, and its deadline."""
        lease = self.now + (self.lease if own is None else own)
        if not self.timed or timeout is None:
            return lease, None
        deadline = self.now + timeout
        return min(lease, deadline), deadline

    def worker(self, n: int) -> str:
        """Return the worker that gets the job at place *n*."""
        return self.workers[n] if n < len(self.workers) else self.workers[0]

    def after(self, taken: int) -> "LeaseTerms":
        """Return the terms for the jobs after the first *taken*."""
        return self._replace(workers=self.workers[taken:]) if len(self.workers) > 1 else self

    def then(self, taken: int, workers: Sequence[str]) -> "LeaseTerms":
        """Return the terms by which *workers* get one job each after the first *taken*."""
        return self._replace(workers=[*self.workers[:taken], *workers]) if len(self.workers) > 1 else self


class Admitted(NamedTuple):
    """A job that a claim starts: all its gates were open."""

    seq: int
    queue: Queue
    cost: int
    priority: int
    ord: int
    gates: list[int]
    begin_by: int
    behind: int | None = None  # the gate in whose line its lane stood
    costs: str | None = None
    begin_from: int = 0
    spaced: Sequence[int] = ()
    resource: str | None = None  # the key of the one that it takes of a group
    counted: str | None = None  # on which of its days
    after: int = 0  # the seq of the one that it follows in a relay

    def row(self, fence: int, task: str, worker: str, lease: int, now: int, made: Made) -> NewAttempt:
        """Return its attempt as it is written."""
        attempt, lost = made
        return (
            self.seq, fence, self.queue[1], task, worker, lease, now, self.begin_by, ",".join(map(str, self.gates)),
            self.cost, self.priority, self.ord, attempt + 1, lost, 0, self.behind, self.costs, self.resource,
            self.counted, self.after,
        )  # fmt: skip


class Starting:
    """The jobs that one claim starts, whose handlers begin within *grace*."""

    def __init__(self, board: "Board", grace: int, ahead: "GrantsAhead | None") -> None:
        self._board = board
        self._grace = grace
        self._ahead = ahead
        self.admitted: list[Admitted] = []
        self.free: dict[int, Made] = {}  # the attempts so far of those that have no limits
        self._payloads: dict[int, PayloadRow] = {}

    def admit(self, queue: ClaimQueue, lane: Lane, taken: Member | None = None, begin_from: int = 0) -> None:
        """Start a lane's first job, now or later, with the resource that is *taken* for it."""
        assert lane.head is not None  # noqa: S101 - the caller looked
        board, gates = self._board, [stand.gate for stand in lane.stands]
        if taken is not None and taken.gate.id not in gates:
            gates.append(taken.gate.id)
        passed = [board.posts[gate] for gate in gates]
        passed += [post for post in queue.posts if post.gate.id not in gates]
        remembered = any(p.gate.starts is not None for p in passed)
        begins = begin_from or board.now
        begin_by = begins + self._grace if remembered else 0
        counted = None
        if taken is not None and taken.resource.daily is not None:
            # It counts on this day, so it begins on this day or not at all.
            begin_by = min(begins + self._grace, taken.last_moment(begins))
            counted = taken.start(begins)
        spaced: list[int] = []
        if remembered:
            spaced = self._remember(lane, passed, begins, begin_by)
        else:
            for post in passed:
                post.gate.start(0, lane.cost)
        self.admitted.append(
            Admitted(
                lane.head, queue.key, lane.cost, lane.priority, lane.ord, [p.gate.id for p in passed], begin_by,
                lane.behind, lane.costs, begin_from, spaced, None if taken is None else taken.resource.key, counted,
            )
        )  # fmt: skip

    def admit_after(self, queue: ClaimQueue, lane: Lane, earlier: int, job: Following) -> None:
        """Start a job of a lane's only gate that begins once an earlier one has ended."""
        gate = lane.stands[0].gate
        post = self._board.posts[gate]
        post.gate.start(0, job.cost)
        post.following += 1
        self.admitted.append(
            Admitted(
                job.seq, queue.key, job.cost, job.priority, job.ord, [gate], 0, lane.behind, job.costs, after=earlier
            )
        )  # fmt: skip

    def admit_free(self, queue: ClaimQueue, job: FreeJob) -> None:
        """Start a job without limits."""
        seq, priority, ord_, cost, attempt, lost, _ = job
        self.free[seq] = (attempt, lost)
        if queue.posts:
            self.admit(queue, Lane(0, *queue.place, (), None, seq, priority, ord_, cost))
        else:
            self.admitted.append(Admitted(seq, queue.key, cost, priority, ord_, [], 0))

    def read_payloads(self) -> None:
        """Read what the workers get of the jobs that start: before the writes, so that those can be sent together."""
        if self.admitted:
            self._board.heads.flush_along()
            rows = job_rows.payloads(self._board.db, [t.seq for t in self.admitted])
            self._payloads = {row[0]: row for row in rows}

    def save(self, terms: LeaseTerms) -> list[Claimed]:
        """Write the attempts down; return what the workers get."""
        db, now = self._board.db, self._board.now
        if not self.admitted:
            return []
        fence, first, usual = db.fence(), terms.workers[0], terms.now + terms.lease
        attempts = self._board.heads.left | self.free
        rows, free, claimed, ends = [], [], [], []
        for n, t in enumerate(self.admitted):
            payload = self._payloads[t.seq]
            _, id_, task, args, timeout, meta, tenant, enqueued, limits, expires, own, workflow = payload
            attempt, lost = made = attempts[t.seq]
            lease, deadline = usual, None
            if own is not None or (terms.timed and timeout is not None):
                lease, deadline = terms.until(own, timeout)
            worker = terms.worker(n)
            if t.begin_from:
                lease += t.begin_from - now
                deadline = None if deadline is None else deadline + t.begin_from - now
            args = args if t.resource is None else with_resource(args, meta, t.resource)
            if t.gates or lease != usual or worker != first or t.seq not in self.free:
                rows.append(t.row(fence, task, worker, lease, now, made))
            else:
                free.append(t.seq)
            if deadline is not None:
                ends.append((t.seq, fence, deadline))
            claimed.append(
                Claimed(
                    t.seq, id_, task, args, t.queue[1], attempt + 1, fence, lease, t.begin_by, timeout, meta, tenant,
                    enqueued, lost, now, limits, expires, workflow, t.costs, t.begin_from,
                    ",".join(map(str, t.gates)) if t.begin_by else "", ",".join(map(str, t.spaced)), t.resource,
                    after=t.after,
                )
            )  # fmt: skip
        self._board.blocked.started(claimed, terms.worker)
        if free:
            attempt_rows.run_ready(db, free, fence, first, usual, now)
        if rows:
            moved = [row[0] for row in rows if row[0] in self.free]
            if moved:
                waiting_rows.leave_ready(db, moved)
            attempt_rows.start(db, rows)
        if ends:
            lease_rows.set_deadlines(db, ends)
        workflow_rows.began(db, [job.seq for job in claimed if job.workflow is not None], now)
        self.keep()
        return claimed

    def keep(self) -> None:
        """Have this transaction on disk before it ends, if gates remember a start."""
        if any(t.begin_by for t in self.admitted):
            # A window must not forget its starts, even if the machine loses its power.
            self._board.db.keep()

    def _remember(self, lane: Lane, passed: Sequence[Post], begins: int, begin_by: int) -> list[int]:
        """Have gates remember a start; return those at which its caller keeps distances."""
        spaced = []
        for n, post in enumerate(passed):
            own = lane.stands[n].own if n < len(lane.stands) else UNLIMITED
            if self._ahead is not None and self._is_spaced(post.gate.numbers(own, self._board.now)):
                spaced.append(post.gate.id)
            weight = cost_at(n, lane.cost, lane.costs)
            post.gate.start(begin_by if self._ahead is None else begins, weight)
            if self._ahead is not None:
                self._ahead.expect(post, begins, begin_by, weight)
            post.memory_changed = post.memory_changed or post.gate.starts is not None
        return spaced

    def _is_spaced(self, numbers: Numbers) -> bool:
        """Tell whether the rules look at when a start of late began, and not only at whether there was one."""
        grace = max(self._grace, self._ahead.longest_grace) if self._ahead is not None else self._grace
        short = AHEAD + 2 * grace
        return numbers.throttle is not None or (numbers.rate is not None and numbers.rate.period <= short)
