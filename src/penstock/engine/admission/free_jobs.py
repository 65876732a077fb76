"""Jobs without limits: they stand in no lane, and start in order unless the gates of their queue are shut."""

import heapq
from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.engine.admission.arrivals import rejoin
from penstock.engine.admission.claim_queues import ClaimQueue
from penstock.engine.admission.starting import LeaseTerms
from penstock.job import Claimed
from penstock.store import attempts as attempt_rows
from penstock.store import leases as lease_rows
from penstock.store import waiting as waiting_rows
from penstock.store.session import StartedRow

if TYPE_CHECKING:
    from penstock.engine.admission.board import Board
    from penstock.engine.admission.claiming import Claiming


class FreeJobs:
    """The jobs without limits in the queues of a claim."""

    def __init__(self, claiming: "Claiming") -> None:
        self._claiming = claiming
        self._board = claiming.board

    def read(self, queue: ClaimQueue) -> None:
        """Read the first jobs of a queue, as many as the claim may still start."""
        claiming = self._claiming
        while not queue.free and queue.free_left and claiming.wanted > 0 and claiming.budget.left > 0:
            page = max(claiming.wanted, queue.page)
            rows = waiting_rows.first_ready(self._board.db, queue.key[1], queue.part, queue.free_passed, page)
            queue.free_left = len(rows) == page
            queue.free = claiming.tasks.send_free_away(queue, rows)[::-1]
        if queue.free:
            _, priority, ord_, *_ = queue.free[-1]
            heapq.heappush(queue.tenant.heap, (-priority, ord_, 0, queue, None))

    def consider(self, queue: ClaimQueue) -> None:
        """Take the first jobs of a queue, as long as they come before all others; one if tenants take turns."""
        claiming, heap = self._claiming, queue.tenant.heap
        left = 0 if len(claiming.queues.rotation) == 1 else claiming.wanted - 1
        # A lane that was not read yet comes after the last of those that were.
        unread = [each.read_to for each in queue.tenant.queues if each.read_to is not None and not each.shut]
        rival = min([*unread, *(entry[:2] for entry in heap[:1])], default=None)
        while queue.free and claiming.wanted > left and not queue.shut:
            seq, priority, ord_, cost, attempt, lost, task = job = queue.free[-1]
            if rival is not None and rival < (-priority, ord_):
                break
            queue.free.pop()
            if task in claiming.type_gates:
                self._to_lane(seq, ord_, attempt, lost)
                break
            if (gate := claiming.queues.too_heavy_for(queue, cost)) is not None:
                waiting_rows.leave_ready(self._board.db, [seq])
                self._board.heavy.stand_behind_queue(queue.place, gate, job)
                claiming.budget.spend()
                break
            if claiming.queues.is_open(queue, cost):
                queue.free_passed += 1
                claiming.starting.admit_free(queue, job)
        self.read(queue)

    def _to_lane(self, seq: int, ord_: int, attempt: int, lost: int) -> None:
        """Move a job to the lane that passes the gate of its type, configured since it came."""
        waiting_rows.leave_ready(self._board.db, [seq])
        rejoin(self._board, [(seq, ord_, attempt, lost)])
        self._claiming.budget.spend()


def start_at_once(
    board: "Board", queue: str, count: int, terms: LeaseTerms, tasks: list[str] | None
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
