"""Decide which jobs a claim starts: the best by priority, then age, among those whose gates are all open.

Where several tenants have jobs, they take turns: the one that was served longest ago comes first, and each gives one
job at a time, its best.

A batch counts itself: gates are read once, changed in memory by each start, and written at the end.
"""

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from penstock.engine.admission.ahead import GrantsAhead
from penstock.engine.admission.arrivals import rejoin
from penstock.engine.admission.board import Board
from penstock.engine.admission.lane import Lane, Post, Shut, Stand
from penstock.engine.admission.other_lane import to_part, with_type
from penstock.engine.admission.placement import Budget, place, refused_and_gone, set_aside
from penstock.job import AHEAD, Claimed, Topic
from penstock.lifecycle.knowledge import Knowledge
from penstock.limits.costs import cost_at
from penstock.limits.gate import ON_RELEASE
from penstock.limits.groups import Member
from penstock.limits.rules import UNLIMITED, Numbers, OnLimit
from penstock.sequences.pool_values import with_resource
from penstock.store import attempts as attempt_rows
from penstock.store import jobs as job_rows
from penstock.store import lanes as lane_rows
from penstock.store import leases as lease_rows
from penstock.store import parts as part_rows
from penstock.store import waiting as waiting_rows
from penstock.store import workflows as workflow_rows
from penstock.store.claim_snapshot import ClaimSnapshot
from penstock.store.jobs import PayloadRow
from penstock.store.session import Queue, StartedRow
from penstock.store.waiting import FreeJob

LEAST_PAGE: Final = 64
LEAST_SHARE: Final = 8  # lanes to read of each of several tenants
STRANGE_PAGE: Final = 500  # jobs without limits to read after some that the claim does not know
STRANGE_COST: Final = 16  # as so many tests counts the move of a page of those to their parts


class Admitted(NamedTuple):
    """A job that this claim starts: all its gates were open."""

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


_Entry = tuple[int, int, int, "_Queue", Lane | None]  # the rank, what tells equals apart, and where it stands


@dataclass(slots=True, eq=False)
class _Tenant:
    """Where a claim stands with the jobs of one tenant."""

    queues: "list[_Queue]" = field(default_factory=list)
    heap: list[_Entry] = field(default_factory=list)
    is_read: bool = False
    in_rotation: bool = True  # it is among those to serve


@dataclass(slots=True)
class _Queue:
    """Where a claim stands in one part of a queue."""

    key: Queue
    part: str
    tenant: _Tenant
    posts: list[Post]  # what every job of the queue must pass: its own gates, and those of its pools
    parts: "list[_Queue]"  # of the same queue, this one too
    page: int = 1  # jobs without limits to read at once, at least
    free: list[FreeJob] = field(default_factory=list)  # last first
    free_passed: int = 0  # rows at the front that were taken or passed over
    free_left: bool = True
    read_to: tuple[int, int] | None = None  # lanes of a later rank may be unread
    shut: bool = False  # no further job may start from it now


def start_at_once(
    board: Board, queue: str, count: int, terms: LeaseTerms, tasks: list[str] | None
) -> list[Claimed] | None:
    """Start jobs of a queue in which no job has limits, in one statement; None if one is of none of these *tasks*."""
    fence, first = board.db.fence(), terms.workers[0]
    rows = attempt_rows.start_first(board.db, queue, count, fence, first, terms.lease, board.now, tasks)
    if rows is None:
        return None
    jobs = claimed_free(rows, queue, fence, terms)
    for n, job in enumerate(jobs):
        board.events.started(job, terms.worker(n))
    if terms.timed:
        timed = [(job, terms.now + job.timeout) for job in jobs if job.timeout is not None]
        lease_rows.set_leases(board.db, [(job.lease, job.seq) for job, end in timed if job.lease == end])
        lease_rows.set_deadlines(board.db, [(job.seq, fence, end) for job, end in timed])
    others = [(worker, job.seq) for n, job in enumerate(jobs) if (worker := terms.worker(n)) != first]
    lease_rows.assign(board.db, others)
    return jobs


def claimed_free(rows: Sequence[StartedRow], queue: str, fence: int, terms: LeaseTerms) -> list[Claimed]:
    """Return jobs without limits that were started, as `start_first` tells of them."""
    return [
        Claimed(
            seq, id_, task, args, queue, attempt + 1, fence, terms.until(own, timeout)[0], 0, timeout, meta, tenant,
            enqueued, lost, terms.now, "", expires, workflow,
        )
        for seq, id_, task, args, timeout, meta, tenant, enqueued, expires, own, workflow, attempt, lost in rows
    ]  # fmt: skip


class Claiming:
    """One claim on its way through the queues."""

    def __init__(
        self,
        board: Board,
        queues: Sequence[Queue],
        count: int,
        grace: int,
        snapshot: ClaimSnapshot,
        known: Knowledge,
        is_wanted: Callable[[Lane], bool],
        ahead: GrantsAhead | None = None,
    ) -> None:
        self.board = board
        self._ahead = ahead
        self._known = known
        self._strangers: set[tuple[str, str]] = (
            set()
        )  # queue and task of jobs that this claim met and does not know
        self._snapshot = snapshot
        self._grace = grace
        self._is_wanted = is_wanted
        self.admitted: list[Admitted] = []
        self.budget = Budget(256 + 4 * count)
        self.opens_at = ON_RELEASE  # when the gate of a queue lets more through
        self.count = count
        self._types = snapshot.type_gates
        self.unseen = False  # lanes became ready in queues that this claim knows nothing of
        self._in_heap: dict[int, tuple[int, int]] = {}  # the rank at which each lane comes up
        self._payloads: dict[int, PayloadRow] = {}
        self._free_attempts: dict[int, tuple[int, int]] = {}
        # By gate: the lanes that this claim found shut there, first to last, each with its first job of then.
        self._refused: dict[int, deque[tuple[Lane, int | None]]] = {}
        self._tenants: dict[str, _Tenant] = {}
        self._queues = {(*q.key, q.part): q for q in self._open_queues(queues)}
        served = snapshot.served
        names = sorted(self._tenants, key=lambda name: (served.get(name, 0), name))
        self._rotation = deque(self._tenants[name] for name in names)

    def run(self) -> None:
        """Start jobs until there are enough, none is left, or the budget is spent."""
        self._push_newly_ready()
        while self._rotation and len(self.admitted) < self.count and self.budget.left > 0:
            tenant, taken = self._rotation[0], len(self.admitted)
            self._read(tenant)
            self._read_on(tenant)
            if not tenant.heap:
                self._rotation.popleft().in_rotation = False
                continue
            if not self._consider_first(tenant):
                continue
            if len(self.admitted) > taken:
                self._rotation.rotate(-1)
            if not tenant.heap and not any(other.heap or not other.is_read for other in self._rotation):
                self.board.ring_pending()
            if self.board.newly_ready:
                self._push_newly_ready()

    def _read(self, tenant: _Tenant) -> None:
        if tenant.is_read:
            return
        tenant.is_read = True
        for queue in tenant.queues:
            if not self._queue_open(queue, 1):
                continue
            if (*queue.key, queue.part) in self._snapshot.with_free:
                self._read_free(queue)
            if (*queue.key, queue.part) in self._snapshot.with_lanes:
                self._read_lanes(queue)

    def _read_on(self, tenant: _Tenant) -> None:
        """Read further lanes where one that was not read yet may come before all that were."""
        for queue in tenant.queues:
            if queue.read_to is None or queue.shut:
                continue
            if not tenant.heap or tenant.heap[0][:2] >= queue.read_to:
                self.budget.spend()
                self.board.flush_lanes()
                self._read_lanes(queue)

    def _consider_first(self, tenant: _Tenant) -> bool:
        """Look at a tenant's best job; False if there is nothing to look at."""
        priority, ord_, _, queue, lane = heapq.heappop(tenant.heap)
        if lane is not None and self._in_heap.get(lane.id) == (priority, ord_):
            del self._in_heap[lane.id]
        elif lane is not None:
            return False
        if queue.shut or not self._queue_open(queue, 1):
            return False
        if lane is None:
            self._consider_free(queue)
        else:
            self._consider_lane(queue, lane)
        return True

    def read_payloads(self) -> None:
        """Read what the workers get of the jobs that start: before the writes, so that those can be sent together."""
        if self.admitted:
            rows = job_rows.payloads(self.board.db, [t.seq for t in self.admitted])
            self._payloads = {row[0]: row for row in rows}

    def save(self, terms: LeaseTerms) -> list[Claimed]:
        """Write the starts down; return what the workers get."""
        db, now = self.board.db, self.board.now
        self._note_left()
        if not self.admitted:
            return []
        fence, first, usual = db.fence(), terms.workers[0], terms.now + terms.lease
        attempts = self.board.heads.left | self._free_attempts
        rows, free, claimed, ends = [], [], [], []
        for n, t in enumerate(self.admitted):
            payload = self._payloads[t.seq]
            _, id_, task, args, timeout, meta, tenant, enqueued, limits, expires, own, workflow = payload
            attempt, lost = attempts[t.seq]
            lease, deadline = usual, None
            if own is not None or (terms.timed and timeout is not None):
                lease, deadline = terms.until(own, timeout)
            worker = terms.worker(n)
            if t.begin_from:
                lease += t.begin_from - now
                deadline = None if deadline is None else deadline + t.begin_from - now
            args = args if t.resource is None else with_resource(args, meta, t.resource)
            gates = ",".join(map(str, t.gates))
            if t.gates or lease != usual or worker != first or t.seq not in self._free_attempts:
                rows.append(
                    (t.seq, fence, t.queue[1], task, worker, lease, now, t.begin_by, gates, t.cost,
                     t.priority, t.ord, attempt + 1, lost, 0, t.behind, t.costs, t.resource, t.counted)
                )  # fmt: skip
            else:
                free.append(t.seq)
            if deadline is not None:
                ends.append((t.seq, fence, deadline))
            claimed.append(
                Claimed(
                    t.seq, id_, task, args, t.queue[1], attempt + 1, fence, lease, t.begin_by, timeout, meta, tenant,
                    enqueued, lost, now, limits, expires, workflow, t.costs, t.begin_from,
                    gates if t.begin_by else "", ",".join(map(str, t.spaced)), t.resource,
                )
            )  # fmt: skip
        self._tell_started(claimed, terms)
        if free:
            attempt_rows.run_ready(db, free, fence, first, usual, now)
        if rows:
            moved = [row[0] for row in rows if row[0] in self._free_attempts]
            if moved:
                waiting_rows.leave_ready(db, moved)
            attempt_rows.start(db, rows)
        if ends:
            lease_rows.set_deadlines(db, ends)
        workflow_rows.began(db, [job.seq for job in claimed if job.workflow is not None], now)
        if any(t.begin_by for t in self.admitted):
            # A window must not forget its starts, even if the machine loses its power.
            db.keep()
        return claimed

    def _tell_started(self, claimed: Sequence[Claimed], terms: LeaseTerms) -> None:
        if self.board.events.wanted:
            for n, job in enumerate(claimed):
                self.board.blocked.started(job, terms.worker(n))

    def _note_left(self) -> None:
        """Write down which tasks were met and not known; tell others of jobs that were locked and not taken."""
        db, now = self.board.db, self.board.now
        if self._strangers:
            part_rows.note(db, self._strangers, now)
            part_rows.refused(db, self._strangers, now)
        if any(queue.free for queue in self._queues.values()):
            # No other claim could take those meanwhile.
            db.tell(Topic.WORK)

    def _open_queues(self, keys: Sequence[Queue]) -> list[_Queue]:
        board, snapshot = self.board, self._snapshot
        ruling = [
            gate
            for of in (snapshot.queue_gates, snapshot.pool_gates)
            for found in of.values()
            for gate in found
        ]
        board.load_gates([*ruling, *self._types.values()])
        apart = sorted(place for place in snapshot.with_free | snapshot.with_lanes if place[2])
        found = {}
        for key in keys:
            tenant = self._tenants.setdefault(key[0], _Tenant())
            found[key] = _Queue(key, "", tenant, [board.posts[gate] for gate in snapshot.gates(key)], [])
            found[key].parts.append(found[key])
            tenant.queues.append(found[key])
        parts = [
            _further(found[tenant, name], task) for tenant, name, task in apart if (tenant, name) in found
        ]
        for part in parts:
            part.tenant.queues.append(part)
        return [*found.values(), *parts]

    def _queue_open(self, queue: _Queue, cost: int) -> bool:
        """Ask the queue's own gates and those of its pools; a refused job holds up the rest of the queue."""
        now = self.board.now
        for post in queue.posts:
            gate = post.gate
            at = gate.opens_at(UNLIMITED, cost, now)
            if at > now:
                for part in queue.parts:
                    part.shut = True
                changes = gate.rules.next_change(now) if gate.rules is not None else ON_RELEASE
                self.opens_at = min(self.opens_at, at, changes)
                return False
        return True

    def _too_heavy_for(self, queue: _Queue, cost: int) -> int | None:
        """Return the gate of the queue into whose rate a start of *cost* can never fit."""
        gates = (post.gate for post in queue.posts)
        return next((gate.id for gate in gates if gate.too_heavy(UNLIMITED, cost, self.board.now)), None)

    # Jobs without limits.

    def _read_free(self, queue: _Queue) -> None:
        while not queue.free and queue.free_left and len(self.admitted) < self.count and self.budget.left > 0:
            wanted = max(self.count - len(self.admitted), queue.page)
            rows = waiting_rows.first_ready(
                self.board.db, queue.key[1], queue.part, queue.free_passed, wanted
            )
            queue.free_left = len(rows) == wanted
            queue.free = (rows if self._known.is_all else self._set_strangers_apart(queue, rows))[::-1]
        if queue.free:
            _, priority, ord_, *_ = queue.free[-1]
            heapq.heappush(queue.tenant.heap, (-priority, ord_, 0, queue, None))

    def _set_strangers_apart(self, queue: _Queue, rows: list[FreeJob]) -> list[FreeJob]:
        """Move jobs of tasks that this claim does not know to the parts of those tasks; return the others."""
        strange = [row for row in rows if row[-1] not in self._known]
        if not strange:
            return rows
        part_rows.set_apart(self.board.db, [(row[0], row[-1]) for row in strange])
        self._strangers.update((queue.key[1], row[-1]) for row in strange)
        queue.page = STRANGE_PAGE
        self.budget.left -= STRANGE_COST
        return [row for row in rows if row[-1] in self._known]

    def _consider_free(self, queue: _Queue) -> None:
        """Take the first jobs of a queue, as long as they come before all others; one if tenants take turns."""
        heap, enough = queue.tenant.heap, self.count if len(self._rotation) == 1 else len(self.admitted) + 1
        rival = heap[0][:2] if heap else None
        while queue.free and len(self.admitted) < enough and not queue.shut:
            seq, priority, ord_, cost, attempt, lost, task = job = queue.free[-1]
            if rival is not None and rival < (-priority, ord_):
                break
            queue.free.pop()
            if task in self._types:
                self._leave_free(seq, ord_, attempt, lost)
                break
            if (gate := self._too_heavy_for(queue, cost)) is not None:
                waiting_rows.leave_ready(self.board.db, [seq])
                self.board.heavy.stand_behind_queue((*queue.key, queue.part), gate, job)
                self.budget.spend()
                break
            if self._queue_open(queue, cost):
                queue.free_passed += 1
                self._free_attempts[seq] = (attempt, lost)
                self._admit(queue, seq, cost, priority, ord_, ())
        self._read_free(queue)

    def _leave_free(self, seq: int, ord_: int, attempt: int, lost: int) -> None:
        """Move a job to the lane that passes the gate of its type, configured since it came."""
        waiting_rows.leave_ready(self.board.db, [seq])
        rejoin(self.board, [(seq, ord_, attempt, lost)])
        self.budget.spend()

    # Lanes.

    def _read_lanes(self, queue: _Queue) -> None:
        """Read the first ready lanes; those on the board are as they are there, not as the store has them."""
        several = len({tenant for tenant, _ in self._snapshot.with_jobs()})
        page = max(self.count, LEAST_PAGE) if several <= 1 else max(self.count // several, LEAST_SHARE)
        rows = lane_rows.ready(self.board.db, (*queue.key, queue.part), page)
        queue.read_to = (-rows[-1].priority, rows[-1].ord) if len(rows) == page else None
        for lane in self.board.adopt(rows):
            if lane.ready and lane.head is not None:
                self._push(queue, lane)

    def _push(self, queue: _Queue, lane: Lane) -> None:
        rank = lane.rank
        if self._in_heap.get(lane.id) != rank:
            self._in_heap[lane.id] = rank
            heapq.heappush(queue.tenant.heap, (*rank, lane.id, queue, lane))

    def _push_newly_ready(self) -> None:
        lanes, self.board.newly_ready = self.board.newly_ready, []
        for lane in lanes:
            if not lane.ready or lane.head is None or (lane.part and self.task(lane) not in self._known):
                continue
            queue = self._queues.get(lane.where)
            if queue is None and (whole := self._queues.get((*lane.place, ""))) is not None:
                queue = self._queues[lane.where] = _further(whole, lane.part)
            if queue is None:
                self.unseen = self.unseen or self._is_wanted(lane)
                continue
            self._push(queue, lane)
            if not queue.tenant.in_rotation:
                queue.tenant.in_rotation = True
                self._rotation.append(queue.tenant)

    def _consider_lane(self, queue: _Queue, lane: Lane) -> None:
        board = self.board
        if not lane.ready or lane.head is None:
            return
        if not self.budget.spend():
            self._push(queue, lane)
            return
        if self._is_strange(lane):
            self._next(queue, lane)
            return
        type_gate = self._type_gate(lane)
        if type_gate is not None and not lane.passes(type_gate):
            with_type(board, lane, type_gate, self.budget)
            self._next(queue, lane)
            return
        heavy_for = self._too_heavy_for(queue, lane.cost) if queue.posts else None
        if heavy_for is not None and not lane.passes(heavy_for):
            board.heavy.move_behind_queue(lane, heavy_for)
            self._next(queue, lane)
            return
        shut = board.test(lane)
        if not shut and self._passes_higher(lane):
            shut = board.test(lane)
        if not shut:
            if self._queue_open(queue, lane.cost):
                self._start(queue, lane)
        elif refused_and_gone(board, lane, shut, arriving=False):
            self._next(queue, lane)
        else:
            for refusing in shut:
                self._refused.setdefault(refusing.stand.gate, deque()).append((lane, lane.head))
            set_aside(board, lane, [s for s in shut if s.stand.on_limit is not OnLimit.DROP])

    def _passes_higher(self, lane: Lane) -> bool:
        """Tell whether a lane would start at a gate that is shut for a job of higher priority, which gets the turn."""
        passed = [
            higher
            for stand in lane.stands
            if (higher := self._first_refused(stand.gate)) is not None and higher.priority > lane.priority
        ]
        for higher in passed:
            self.board.turns.demand(higher)
        return bool(passed)

    def _first_refused(self, gate: int) -> Lane | None:
        """Return the first lane that this claim found shut at a gate and whose job has not started since."""
        lanes = self._refused.get(gate)
        while lanes:
            lane, head = lanes[0]
            if lane.head == head and not lane.unread:
                return lane
            lanes.popleft()
        return None

    def _start(self, queue: _Queue, lane: Lane) -> None:
        board = self.board
        assert lane.head is not None  # noqa: S101 - the caller looked
        taken = board.groups.choose(lane) if board.groups.present else None
        self._admit(
            queue,
            lane.head,
            lane.cost,
            lane.priority,
            lane.ord,
            lane.stands,
            lane.behind,
            lane.costs,
            taken=taken,
        )
        board.turns.gone(lane)
        board.turns.started_at(lane)
        if taken is not None:
            board.turns.looked_at_again([taken.gate.id])
        board.heads.drop(lane)
        now = board.now
        shut = [
            Shut(s, at) for s in lane.stands if (at := board.posts[s.gate].gate.opens_at(s.own, 1, now)) > now
        ]
        if shut and all(s.on_limit is not OnLimit.DROP for s in lane.stands):
            # The next job is refused, whichever it is: it can be read later, for all lanes at once.
            board.heads.read_later(lane)
            board.park(lane, shut, any_job=True)
            return
        left = board.leave(lane)
        self._next(queue, lane)
        if left is not None:
            board.call([left])

    def start_later(self, lane: Lane, at: int) -> None:
        """Start the first job of a lane that stays shut until then, and let it begin *at* that moment."""
        queue, board = self.queue_of(lane), self.board
        assert queue is not None  # noqa: S101 - the caller looked
        assert lane.head is not None  # noqa: S101 - the caller looked
        self._admit(
            queue, lane.head, lane.cost, lane.priority, lane.ord, lane.stands, lane.behind, lane.costs, at
        )
        board.heads.drop(lane)
        self._stay_parked(lane)

    def _stay_parked(self, lane: Lane) -> None:
        """Give a parked lane whose first job has left the next one, which finds the same gate shut."""
        self.board.heads.next(lane, self.count - len(self.admitted) + 1)
        if lane.head is None:
            self.board.empty(lane)
        else:
            self.board.blocked.refused(lane)

    def queue_of(self, lane: Lane) -> _Queue | None:
        """Return where this claim stands in the part of the queue that a lane is in, if it may start jobs there."""
        queue = self._queues.get(lane.where)
        if queue is None and (whole := self._queues.get((*lane.place, ""))) is not None and lane.part:
            queue = self._queues[lane.where] = _further(whole, lane.part)
        return None if queue is None or queue.shut else queue

    def may_start(self, lane: Lane) -> bool:
        """Tell whether this claim knows the task of a lane's first job, and the lane passes the gate of its type."""
        type_gate = self._type_gate(lane)
        known = self._known.is_all or self.task(lane) in self._known
        return known and (type_gate is None or lane.passes(type_gate))

    def _is_strange(self, lane: Lane) -> bool:
        """Tell whether this claim does not know the task of a lane's first job, and move it to its part."""
        if self._known.is_all or lane.part or (task := self.task(lane)) in self._known:
            return False
        to_part(self.board, lane, task, self.budget)
        self._strangers.add((lane.queue, task))
        return True

    def _next(self, queue: _Queue, lane: Lane) -> None:
        """Give a lane whose first job has left the next one that this claim knows, and a place."""
        self.board.heads.next(lane, self.count - len(self.admitted) + 1)
        while lane.head is not None and self._is_strange(lane):
            self.board.heads.next(lane, self.count - len(self.admitted) + 1)
            if not self.budget.spend():
                break
        place(self.board, lane, self.budget)
        if lane.ready and lane.head is not None:
            self._push(queue, lane)

    def _admit(
        self,
        queue: _Queue,
        seq: int,
        cost: int,
        priority: int,
        ord_: int,
        stands: Sequence[Stand],
        behind: int | None = None,
        costs: str | None = None,
        begin_from: int = 0,
        taken: Member | None = None,
    ) -> None:
        board, gates = self.board, [stand.gate for stand in stands]
        if not gates and not queue.posts:
            self.admitted.append(Admitted(seq, queue.key, cost, priority, ord_, gates, 0))
            return
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
            spaced = self._remember(passed, stands, (cost, costs), begins, begin_by)
        else:
            for post in passed:
                post.gate.start(0, cost)
        self.admitted.append(
            Admitted(
                seq,
                queue.key,
                cost,
                priority,
                ord_,
                [p.gate.id for p in passed],
                begin_by,
                behind,
                costs,
                begin_from,
                spaced,
                None if taken is None else taken.resource.key,
                counted,
            )
        )

    def _remember(
        self,
        passed: Sequence[Post],
        stands: Sequence[Stand],
        costs: tuple[int, str | None],
        begins: int,
        begin_by: int,
    ) -> list[int]:
        """Have gates remember a start; return those at which its caller keeps distances."""
        spaced = []
        for n, post in enumerate(passed):
            own = stands[n].own if n < len(stands) else UNLIMITED
            if self._ahead is not None and self._is_spaced(post.gate.numbers(own, self.board.now)):
                spaced.append(post.gate.id)
            weight = cost_at(n, *costs)
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

    def _type_gate(self, lane: Lane) -> int | None:
        return self._types.get(self.task(lane)) if self._types else None

    def task(self, lane: Lane) -> str:
        """Return the task of a lane's first job."""
        if lane.task is None:
            assert lane.head is not None  # noqa: S101 - the caller looked
            lane.task = job_rows.tasks(self.board.db, [lane.head])[lane.head]
        return lane.task


def _further(whole: _Queue, task: str) -> _Queue:
    """Return a further part of a queue."""
    part = _Queue(whole.key, task, whole.tenant, whole.posts, whole.parts)
    whole.parts.append(part)
    return part
