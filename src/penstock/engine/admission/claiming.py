"""Decide which jobs a claim starts: the best by priority, then age, among those whose gates are all open.

Where several tenants have jobs, they take turns: the one that was served longest ago comes first, and each gives one
job at a time, its best.

A batch counts itself: gates are read once, changed in memory by each start, and written at the end.
"""

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from penstock.engine.admission.ahead import GrantsAhead
from penstock.engine.admission.board import Board, first_page
from penstock.engine.admission.claim_queues import ClaimQueue, ClaimQueues, TenantQueues
from penstock.engine.admission.free_jobs import FreeJobs
from penstock.engine.admission.known_tasks import KnownTasks
from penstock.engine.admission.lane import Lane, Shut
from penstock.engine.admission.other_lane import with_type
from penstock.engine.admission.placement import Budget, place, refused_and_gone, set_aside
from penstock.engine.admission.starting import LeaseTerms, Starting
from penstock.job import Claimed, Topic
from penstock.lifecycle.knowledge import Knowledge
from penstock.limits.rules import OnLimit
from penstock.store.claim_snapshot import ClaimSnapshot
from penstock.store.session import Queue

LEAST_SHARE: Final = 8  # lanes to read at first of each of several tenants, at least


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
        standby: int = 0,
    ) -> None:
        self.board = board
        self.count = count
        self._reads = count + standby  # so many lanes at first, at least
        self.budget = Budget(256 + 4 * (count + standby))
        self.queues = ClaimQueues(board, queues, snapshot)
        self.type_gates = snapshot.type_gates
        self.tasks = KnownTasks(board, known, self.budget)
        self.starting = Starting(board, grace, ahead)
        self.admitted = self.starting.admitted
        self.unseen = False  # lanes became ready in queues that this claim knows nothing of
        self.filled: list[
            tuple[ClaimQueue, Lane]
        ] = []  # lanes that a start of this claim shut, in that order
        self._free_jobs = FreeJobs(self)
        self._snapshot = snapshot
        self._is_wanted = is_wanted
        self._in_heap: dict[int, tuple[int, int]] = {}  # the rank at which each lane comes up
        # By gate: the lanes that this claim found shut there, first to last, each with its first job of then.
        self._refused: dict[int, deque[tuple[Lane, int | None]]] = {}

    @property
    def wanted(self) -> int:
        """How many more jobs it may start."""
        return self.count - len(self.admitted)

    @property
    def is_short(self) -> bool:
        """Whether there may be jobs that could start if more were wanted."""
        if self.budget.left <= 0 or self.unseen:
            return True
        if self.wanted:
            return False
        return bool(self._snapshot.with_free) or any(
            tenant.heap or not tenant.is_read or any(queue.read_to for queue in tenant.queues)
            for tenant in self.queues.rotation
        )

    def run(self) -> None:
        """Start jobs until there are enough, none is left, or the budget is spent."""
        rotation = self.queues.rotation
        self._push_newly_ready()
        while rotation and len(self.admitted) < self.count and self.budget.left > 0:
            tenant, taken = rotation[0], len(self.admitted)
            self._read(tenant)
            self._read_on(tenant)
            if not tenant.heap:
                rotation.popleft().in_rotation = False
                continue
            if not self._consider_first(tenant):
                continue
            if len(self.admitted) > taken:
                rotation.rotate(-1)
            if not tenant.heap and not any(other.heap or not other.is_read for other in rotation):
                self.board.ring_pending()
            if self.board.newly_ready:
                self._push_newly_ready()

    # Starts that stand by.

    def first_lanes(self, most: int) -> list[tuple[ClaimQueue, Lane]]:
        """Return the first *most* lanes that this claim would look at next, as far as no other job comes before."""
        if len(self.queues.rotation) != 1 or self._snapshot.with_free or self.type_gates:
            return []
        self._push_newly_ready()
        tenant = self.queues.rotation[0]
        self._read(tenant)
        unread = min((q.read_to for q in tenant.queues if q.read_to is not None), default=None)
        found: list[tuple[ClaimQueue, Lane]] = []
        for *rank, id_, queue, lane in sorted(tenant.heap):
            if lane is None or (unread is not None and tuple(rank) > unread) or len(found) >= most:
                break
            if self._in_heap.get(id_) == tuple(rank):
                found.append((queue, lane))
        return found

    def start_next(self) -> bool:
        """Start the job of the first of these lanes; False if it cannot start, or another comes first now."""
        tenant, taken = self.queues.rotation[0], len(self.admitted)
        self.count = taken + 1
        while tenant.heap and not self._consider_first(tenant):
            pass
        started = len(self.admitted) > taken
        self.count = len(self.admitted)
        return started and not self.board.newly_ready

    def save(self, terms: LeaseTerms) -> list[Claimed]:
        """Write the starts down; return what the workers get."""
        self.tasks.note()
        if any(queue.free for queue in self.queues.by_place.values()):
            # They were locked and not taken: no other claim could take them meanwhile.
            self.board.db.tell(Topic.WORK)
        return self.starting.save(terms)

    def _read(self, tenant: TenantQueues) -> None:
        if tenant.is_read:
            return
        tenant.is_read = True
        for queue in tenant.queues:
            if not self.queues.is_open(queue, 1):
                continue
            if queue.place in self._snapshot.with_free:
                self._free_jobs.read(queue)
            if queue.place in self._snapshot.with_lanes:
                self._read_lanes(queue)

    def _read_on(self, tenant: TenantQueues) -> None:
        """Read further lanes where one that was not read yet may come before all that were."""
        for queue in tenant.queues:
            if queue.read_to is None or queue.shut:
                continue
            if not tenant.heap or tenant.heap[0][:2] > queue.read_to:
                self.budget.spend()
                self.board.flush_lanes()
                self._read_lanes(queue)

    def _read_lanes(self, queue: ClaimQueue) -> None:
        """Read the first ready lanes; those on the board are as they are there, not as the store has them."""
        several = len({tenant for tenant, _ in self._snapshot.with_jobs()})
        page = first_page(self._reads) if several <= 1 else max(self._reads // several, LEAST_SHARE)
        page <<= queue.lane_reads  # twice as many each time
        if not self.board.db.gated and not queue.lane_reads:
            # No other claim can take more of them meanwhile.
            page = self._reads - len(self.admitted)
        queue.lane_reads += 1
        rows = self.board.ready_lanes(queue.place, page)
        queue.read_to = (-rows[-1].priority, rows[-1].ord) if len(rows) == page else None
        for lane in self.board.adopt(rows):
            if lane.ready and lane.head is not None:
                self._push(queue, lane)

    def _push(self, queue: ClaimQueue, lane: Lane) -> None:
        rank = lane.rank
        if self._in_heap.get(lane.id) != rank:
            self._in_heap[lane.id] = rank
            heapq.heappush(queue.tenant.heap, (*rank, lane.id, queue, lane))

    def _push_newly_ready(self) -> None:
        lanes, self.board.newly_ready = self.board.newly_ready, []
        for lane in lanes:
            if not lane.ready or lane.head is None or (lane.part and not self.tasks.knows(lane)):
                continue
            queue = self.queues.of(lane)
            if queue is None:
                self.unseen = self.unseen or self._is_wanted(lane)
                continue
            self._push(queue, lane)
            if not queue.tenant.in_rotation:
                queue.tenant.in_rotation = True
                self.queues.rotation.append(queue.tenant)

    def _consider_first(self, tenant: TenantQueues) -> bool:
        """Look at a tenant's best job; False if there is nothing to look at."""
        priority, ord_, _, queue, lane = heapq.heappop(tenant.heap)
        if lane is not None and self._in_heap.get(lane.id) == (priority, ord_):
            del self._in_heap[lane.id]
        elif lane is not None:
            return False
        if queue.shut or not self.queues.is_open(queue, 1):
            return False
        if lane is None:
            self._free_jobs.consider(queue)
        else:
            self._consider_lane(queue, lane)
        return True

    def _consider_lane(self, queue: ClaimQueue, lane: Lane) -> None:
        """Start a lane's first job if all its gates are open; else move the lane where it belongs."""
        board = self.board
        if not lane.ready or lane.head is None:
            return
        if not self.budget.spend():
            self._push(queue, lane)
            return
        if self.tasks.send_away(lane):
            self._next(queue, lane)
            return
        type_gate = self._type_gate(lane)
        if type_gate is not None and not lane.passes(type_gate):
            with_type(board, lane, type_gate, self.budget)
            self._next(queue, lane)
            return
        heavy_for = self.queues.too_heavy_for(queue, lane.cost) if queue.posts else None
        if heavy_for is not None and not lane.passes(heavy_for):
            board.heavy.move_behind_queue(lane, heavy_for)
            self._next(queue, lane)
            return
        shut = board.test(lane)
        if not shut and self._passes_higher(lane):
            shut = board.test(lane)
        if not shut:
            if self.queues.is_open(queue, lane.cost):
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

    def _start(self, queue: ClaimQueue, lane: Lane) -> None:
        board, now = self.board, self.board.now
        taken = board.groups.choose(lane) if board.groups.present else None
        self.starting.admit(queue, lane, taken)
        board.turns.gone(lane)
        board.turns.started_at(lane)
        if taken is not None:
            board.turns.looked_at_again([taken.gate.id])
        board.heads.drop(lane)
        shut = [
            Shut(s, at) for s in lane.stands if (at := board.posts[s.gate].gate.opens_at(s.own, 1, now)) > now
        ]
        if shut and all(s.on_limit is not OnLimit.DROP for s in lane.stands):
            # The next job is refused, whichever it is: it can be read later, for all lanes at once.
            board.heads.read_later(lane)
            board.park(lane, shut, any_job=True)
            self.filled.append((queue, lane))
            return
        left = board.leave(lane)
        self._next(queue, lane)
        if left is not None:
            board.call([left])

    def _next(self, queue: ClaimQueue, lane: Lane) -> None:
        """Give a lane whose first job has left the next one that this claim knows, and a place."""
        self.board.heads.next(lane, self.wanted + 1)
        while lane.head is not None and self.tasks.send_away(lane):
            self.board.heads.next(lane, self.wanted + 1)
            if not self.budget.spend():
                break
        place(self.board, lane, self.budget)
        if lane.ready and lane.head is not None:
            self._push(queue, lane)

    def _type_gate(self, lane: Lane) -> int | None:
        return self.type_gates.get(self.tasks.of(lane)) if self.type_gates else None

    # Starts that are granted ahead.

    def may_start(self, lane: Lane) -> bool:
        """Tell whether this claim knows the task of a lane's first job, and the lane passes the gate of its type."""
        type_gate = self._type_gate(lane)
        return self.tasks.knows(lane) and (type_gate is None or lane.passes(type_gate))

    def start_later(self, lane: Lane, at: int) -> None:
        """Start the first job of a lane that stays shut until then, and let it begin *at* that moment."""
        queue, board = self.queues.of(lane), self.board
        assert queue is not None  # noqa: S101 - the caller looked
        self.starting.admit(queue, lane, begin_from=at)
        board.heads.drop(lane)
        # The next one finds the same gate shut.
        board.heads.next(lane, self.wanted + 1)
        if lane.head is None:
            board.empty(lane)
        else:
            board.blocked.refused(lane)
