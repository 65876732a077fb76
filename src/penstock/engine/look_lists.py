"""Looking at queues, workers, schedules, workflows and floating limits: lists that go on by cursor."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from penstock.engine.admission.board import Board
from penstock.engine.floating import floating_view
from penstock.engine.instances import instance_view
from penstock.engine.look_gates import COUNTED, LOOKED_AT, gate_looks
from penstock.engine.looks import bounded
from penstock.engine.transactions import Transactions
from penstock.job import (
    Count,
    FloatingPage,
    GateLook,
    InstancePage,
    Place,
    QueueLook,
    SchedulePage,
    Tally,
    Totals,
    WorkerLook,
    WorkflowPage,
)
from penstock.limits.gate import ON_RELEASE
from penstock.limits.rules import Numbers
from penstock.store import look_gates as gate_rows
from penstock.store import look_lists as look_rows
from penstock.store import queues as queue_rows
from penstock.store.queues import BoundRow
from penstock.store.session import Session

MANY: Final = 1_000  # queues and workers that are shown at most
DECIDED: Final = 200  # keys for which something was decided
COUNTED_BRIEFLY: Final = 100  # jobs that wait for each of them

Queue = tuple[str, str]  # a tenant, and the name of its queue


class _Decided(NamedTuple):
    paused: dict[Queue, int]
    numbers: dict[Queue, Numbers]
    bounds: dict[Queue, BoundRow]


class ListLookVerbs(Transactions):
    def queue_looks(self, *, tenant: str | None = None, counted: int = COUNTED) -> list[QueueLook]:
        """Return every queue that has jobs or rules, of one tenant or of all; counts stop at *counted*."""

        def work(board: Board) -> list[QueueLook]:
            decided = _decided(board)
            counts: dict[Queue, dict[str, Count]] = {}
            for owner, queue, state, jobs, more in look_rows.queues(board.db, counted):
                of_queue = counts.setdefault((owner, queue), {})
                of_queue[state] = of_queue.get(state, Count()) + Count(jobs, more)
            known = {*counts, *decided.paused, *decided.numbers, *decided.bounds}
            named = sorted(known, key=lambda each: (each[1], each[0]))
            seen = [each for each in named if tenant in (None, each[0])]
            return [_queue_look(each, counts.get(each, {}), decided) for each in seen[:MANY]]

        return self._read(work)

    def totals(self, tenant: str | None = None) -> Totals:
        """Count the jobs that have not ended, of one tenant or of all."""
        return totals_of(self.queue_looks(tenant=tenant))

    def all_counted(self, tenant: str | None = None) -> Tally:
        """Count things of each kind, of one tenant or of all; counts stop."""
        queues = self.queue_looks(tenant=tenant)
        totals = totals_of(queues)
        jobs = bounded(totals.running + totals.waiting + totals.scheduled)

        def work(db: Session) -> Tally:
            at_work = {name for name, *_ in look_rows.workers(db, tenant, LOOKED_AT, MANY)}
            workers = at_work.union(look_rows.worker_names(db, tenant, MANY))
            gates, schedules, runs = (
                bounded(Count(number))
                for number in (
                    gate_rows.total(db, tenant, COUNTED),
                    look_rows.schedules_counted(db, tenant, COUNTED),
                    look_rows.runs_counted(db, tenant, LOOKED_AT, COUNTED),
                )
            )
            return Tally(gates, jobs, _many(len(queues)), _many(len(workers)), schedules, runs)

        return self.store.read(work)

    def worker_looks(self, *, tenant: str | None = None) -> list[WorkerLook]:
        """Return the workers of which attempts run."""
        return self.store.read(
            lambda db: [WorkerLook(*row) for row in look_rows.workers(db, tenant, LOOKED_AT, MANY)]
        )

    def schedule_page(
        self, *, tenant: str | None = None, after: Place | None = None, most: int = 50
    ) -> SchedulePage:
        """Return schedules by tenant and name."""

        def work(db: Session) -> SchedulePage:
            found = look_rows.schedules(db, tenant, _place(after), most + 1)
            last = Place(found[most - 1].tenant, found[most - 1].name) if len(found) > most else None
            return SchedulePage(found[:most], last)

        return self.store.read(work)

    def workflow_page(
        self, *, tenant: str | None = None, before: int | None = None, most: int = 50
    ) -> WorkflowPage:
        """Return workflows of fixed steps, newest first."""

        def work(db: Session) -> WorkflowPage:
            found = look_rows.workflows(db, tenant, _before(before), LOOKED_AT, most + 1)
            last = found[most - 1][0] if len(found) > most else None
            return WorkflowPage([view for _, view in found[:most]], last)

        return self.store.read(work)

    def instance_page(
        self, *, tenant: str | None = None, before: int | None = None, most: int = 50
    ) -> InstancePage:
        """Return instances without their steps, newest first."""

        def work(board: Board) -> InstancePage:
            rows = look_rows.instances(board.db, tenant, _before(before), LOOKED_AT, most + 1)
            found = [instance_view(row, board.now) for row in rows]
            return InstancePage(found[:most], found[most - 1].seq if len(found) > most else None)

        return self._read(work)

    def floating_page(
        self, *, tenant: str | None = None, after: Place | None = None, most: int = 50
    ) -> FloatingPage:
        """Return floating limits by tenant and key."""

        def work(board: Board) -> FloatingPage:
            rows = look_rows.floating(board.db, tenant, _place(after), LOOKED_AT, most + 1)
            board.load_gates(row.gate for row, _, _ in rows)
            found = [floating_view(board, row, key, owner) for row, owner, key in rows]
            last = Place(found[most - 1].tenant, found[most - 1].key) if len(found) > most else None
            return FloatingPage(found[:most], last)

        return self._read(work)

    def decided_gates(self, *, tenant: str | None = None) -> list[GateLook]:
        """Return the gates of keys for which something was decided: configured, overridden, shut or floating."""

        def work(board: Board) -> list[GateLook]:
            ids = look_rows.decided(board.db, tenant, DECIDED)
            looks = gate_looks(board, ids, counted=COUNTED_BRIEFLY)
            return [looks[id_] for id_ in ids if id_ in looks]

        return self._read(work)


def totals_of(queues: Sequence[QueueLook]) -> Totals:
    """Add up the jobs of queues."""
    running, waiting, scheduled = Count(), Count(), Count()
    for queue in queues:
        running, waiting, scheduled = (
            running + queue.running,
            waiting + queue.waiting,
            scheduled + queue.scheduled,
        )
    return Totals(bounded(running), bounded(waiting), bounded(scheduled))


def _many(number: int) -> Count:
    return Count(min(number, MANY), more=number >= MANY)


def _decided(board: Board) -> _Decided:
    ruled = look_rows.ruled_queues(board.db, MANY)
    board.load_gates(gate for gate, _, _ in ruled)
    numbers = {}
    for gate, owner, queue in ruled:
        rules = board.posts[gate].gate.rules
        if rules is not None and rules.configured is not None:
            numbers[owner, queue] = rules.configured
    paused = {(owner, queue): at for owner, queue, at in look_rows.pauses(board.db, MANY)}
    return _Decided(paused, numbers, {(row[0], row[1]): row for row in queue_rows.bounds(board.db)})


def _queue_look(queue: Queue, counts: dict[str, Count], decided: _Decided) -> QueueLook:
    owner, name = queue
    running, waiting, scheduled = (
        bounded(counts.get(state, Count())) for state in ("running", "waiting", "scheduled")
    )
    bound = decided.bounds.get(queue)
    return QueueLook(
        owner,
        name,
        running,
        waiting,
        scheduled,
        paused=decided.paused.get(queue, decided.paused.get(("", name))),
        numbers=decided.numbers.get(queue),
        most=None if bound is None else bound[2],
    )


def _place(after: Place | None) -> tuple[str, str]:
    return ("", "") if after is None else (after.tenant, after.key)


def _before(number: int | None) -> int:
    return ON_RELEASE if number is None else number
