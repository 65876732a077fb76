"""The engine: each verb is one transaction that reads, decides and writes.

Blocking and safe to call from any thread.  Time comes from one clock, read inside the transaction.
"""

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import Final, TypeVar

from penstock.clock import SECOND, Clock
from penstock.engine import (
    bounds,
    doctor,
    floating,
    gauges,
    lending,
    look,
    operating,
    pools,
    rules,
    schedules,
    webhooks,
    workflow_views,
    workflows,
)
from penstock.engine.again import retry
from penstock.engine.board import Board
from penstock.engine.claims import check as check_claim
from penstock.engine.claims import claim_all, settle_down
from penstock.engine.enqueue import check, enqueue, is_plain, job_row
from penstock.engine.events import Events, enqueued, named
from penstock.engine.following import follow
from penstock.engine.gathering import Gathering
from penstock.engine.placing import set_apart
from penstock.engine.settle import Settling, begun
from penstock.engine.telling import Listener, Telling
from penstock.engine.time import Time
from penstock.engine.upkeep import BATCH, bring_up_to_date, prune, sweep
from penstock.engine.waiting import ask_to_stop, remove
from penstock.errors import NotFoundError, WrongStateError
from penstock.ids import new_id
from penstock.job import (
    LEASE,
    START_GRACE,
    Beat,
    Bound,
    Claim,
    ClaimFor,
    Enqueued,
    Event,
    Failure,
    FloatingView,
    GateView,
    Gauges,
    JobFilter,
    JobView,
    NewJob,
    NewWorkflow,
    Order,
    Pool,
    QueueCounts,
    Refresh,
    Running,
    Schedule,
    Settlement,
    Webhook,
    Why,
    WorkflowView,
)
from penstock.lending import Lending, Lent
from penstock.lifecycle.checks import check_queue, check_whole
from penstock.lifecycle.states import State
from penstock.limits.rules import MAX_NUMBER, Numbers
from penstock.store import bounds as bound_rows
from penstock.store import gates as gate_rows
from penstock.store import jobs as job_rows
from penstock.store import leases as lease_rows
from penstock.store import lending as lending_rows
from penstock.store import prune as prune_rows
from penstock.store import queues as queue_rows
from penstock.store import settings as setting_rows
from penstock.store import tallies as tally_rows
from penstock.store import views
from penstock.store.session import BoundedError, Hold, Row, Session, Store, Topic
from penstock.workflows.steps import WorkflowState

T = TypeVar("T")

LIKELY: Final = 32  # transactions for which the gates are taken at once after one that needed them


class Engine:
    """Jobs, gates and queues in one store."""

    def __init__(self, store: Store, clock: Clock | None = None, *, turns: bool = True) -> None:
        self.store = store
        # Whether workers may go on when the machine of the store loses its power.
        self.far = store.remote
        self._time = Time(clock)
        self.clock = self._time.clock
        self._turns = turns
        self._telling = Telling()
        self._swept = 0
        self._before_close: list[Callable[[], None]] = []
        self._gated = 0  # so many more transactions are thought to need the gates
        self._plain = None if store.add_free is None else Gathering(store.add_free)
        store.write(self._time.now, keep=False)

    # Jobs.

    def enqueue(self, jobs: Sequence[NewJob], *, connection: object = None) -> list[Enqueued]:
        """Add jobs, all or none; they are durable when this returns.

        With a *connection* of the caller's own to the same database, they exist if and only if its
        transaction commits.
        """
        for job in jobs:
            check(job)
        if not jobs:
            return []
        if connection is not None:
            return self.store.within(
                connection, lambda db: self._run(db, lambda board: enqueue(board, jobs))[0]
            )
        if self._plain is not None and all(is_plain(job) for job in jobs):
            with suppress(BoundedError):
                return self._add_plain(self._plain, jobs)
        hold = Hold.GATES_IF_FREE if any(job.limits for job in jobs) else Hold.NOTHING
        return self._write(lambda board: enqueue(board, jobs), hold=hold)

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
        # If a machine that holds both loses its power nothing runs: a claim that is forgotten breaks no limit.
        return self._write_freely(lambda board: claim_all(board, requests), Hold.STARTS, keep=self.far)

    def turn(
        self, jobs: Sequence[NewJob], settlements: Sequence[Settlement], requests: Sequence[ClaimFor]
    ) -> tuple[list[Enqueued], list[bool], list[Claim]]:
        """Enqueue, settle and claim for many at once: one transaction, all of it or nothing."""
        for job in jobs:
            check(job)
        for request in requests:
            check_claim(request)

        def work(board: Board) -> tuple[list[Enqueued], list[bool], list[Claim]]:
            added = enqueue(board, jobs) if jobs else []
            settle_down(board)
            accepted = Settling(board).settle(settlements) if settlements else []
            settle_down(board)
            return added, accepted, claim_all(board, requests)

        return self._write_freely(work, Hold.STARTS, keep=self.far or bool(jobs or settlements))

    def attempts(self, ids: Sequence[str]) -> dict[str, Running]:
        """Return the attempts of these jobs that run now."""
        if not ids:
            return {}
        rows = self.store.read(lambda db: lease_rows.running(db, ids))
        return {row[0]: Running(*row) for row in rows}

    def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        """Record how attempts ended; False for one whose lease was lost: what it did counts for nothing."""
        if not settlements:
            return []
        return self._write_freely(lambda board: Settling(board).settle(settlements), Hold.NOTHING)

    def exchange(
        self,
        settlements: Sequence[Settlement],
        queues: Sequence[str],
        count: int,
        *,
        worker: str,
        lease: int = LEASE,
        grace: int = START_GRACE,
    ) -> tuple[list[bool], Claim]:
        """Settle, then claim, in one transaction: half the flushes to disk of doing one after the other."""
        wanted = ClaimFor(tuple(queues), count, worker, lease, grace)
        check_claim(wanted)

        def work(board: Board) -> tuple[list[bool], Claim]:
            answers = Settling(board).settle(settlements) if settlements else []
            return answers, claim_all(board, [wanted])[0]

        return self._write_freely(work, Hold.STARTS)

    def begun(self, reports: Sequence[tuple[int, int, int]]) -> None:
        """Tell when handlers began, as (seq, fence, moment), so that windows open at the right time."""
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

    def bound(self, queue: str, bound: Bound | None) -> None:
        """Let a queue become so full and no fuller; None removes the bound."""
        bounds.check(queue, bound)
        self._write(lambda board: bounds.put(board, queue, bound), Hold.NOTHING)

    def bounds(self) -> dict[str, Bound]:
        """Return the bounds of queues."""
        return self.store.read(bounds.every)

    def depth(self, queue: str) -> int:
        """Return how many jobs of a queue wait or are scheduled."""
        return self.store.read(lambda db: bound_rows.depth(db, queue))

    def cancel(self, job_id: str, reason: str = "cancelled on request") -> State:
        """Cancel a job: at once if it waits; if it runs its worker is asked to stop."""
        return self._write(lambda board: _cancel(board, job_id, reason))

    def retry(self, job_id: str) -> None:
        """Stand an ended job in line again, with all its attempts."""
        self._write(lambda board: retry(board, job_id))

    def forget(self, job_id: str) -> None:
        """Delete a job that has ended, and all that is known of it."""
        self._write(lambda board: _forget(board, job_id))

    def reset(self) -> None:
        """Delete everything: for tests."""
        self._write(lambda board: prune_rows.everything(board.db), Hold.RULES)
        self._gated = self._swept = 0

    # Rules.

    def pause(self, queue: str) -> None:
        """Let nothing start from a queue."""
        check_queue(queue)
        self._write(lambda board: operating.pause(board, queue), Hold.RULES)

    def resume(self, queue: str) -> None:
        """Let jobs start from a queue again."""
        check_queue(queue)
        self._write(lambda board: operating.resume(board, queue), Hold.RULES)

    def configure(self, scope: str, name: str, numbers: Numbers | None, *, tenant: str = "") -> None:
        """Set the numbers of a key, a queue or a job type for everybody; None removes them."""
        self._write(lambda board: rules.configure(board, scope, name, tenant, numbers), Hold.RULES)

    def set_pool(self, pool: Pool) -> None:
        """Add a pool of queues, or replace the one of its name."""
        pools.check(pool)
        self._write(lambda board: pools.put(board, pool), Hold.RULES)

    def delete_pool(self, name: str, *, tenant: str = "") -> None:
        """Delete a pool; its queues stay."""
        self._write(lambda board: pools.delete(board, name, tenant), Hold.RULES)

    def override(self, key: str, numbers: Numbers, *, until: int | None = None, tenant: str = "") -> None:
        """Let other numbers rule a key until then, or until cleared."""
        self._write(lambda board: rules.override(board, key, tenant, numbers, until))

    def clear_override(self, key: str, *, tenant: str = "") -> None:
        """End an override and a shut-until of a key."""
        self._write(lambda board: _clear(board, key, tenant))

    def shut(self, key: str, until: int, *, tenant: str = "", reason: str = "") -> None:
        """Let nothing through a gate until then."""

        def work(board: Board) -> None:
            gate = rules.find_or_add(board, "key", key, tenant)
            rules.shut_until(board, [gate], until, key, reason)

        self._write(work)

    # Looking.

    def job(self, job_id: str) -> JobView:
        """Return one job."""
        return self._read(lambda board: look.job(board, job_id))

    def failures(self, job_id: str) -> list[Failure]:
        """Return the failed attempts of a job, the first one first."""
        return self.store.read(lambda db: look.failures(db, job_id))

    def jobs(
        self,
        *,
        state: State | None = None,
        queue: str | None = None,
        task: str | None = None,
        tenant: str | None = None,
        key: str | None = None,
        before: int | None = None,
        limit: int = 50,
    ) -> list[JobView]:
        """Return jobs, newest first; *before* a job's number for the next page."""

        def work(db: Session) -> list[JobView]:
            rows = views.jobs(db, state, queue, task, tenant, key, before, limit)
            return [look.job_view(row) for row in rows]

        return self.store.read(work)

    def count(
        self, *, queue: str | None = None, task: str | None = None, tenant: str | None = None
    ) -> dict[State, int]:
        """Return how many jobs are in each state."""
        return self.store.read(lambda db: views.count(db, queue, task, tenant))

    def gate(self, key: str, tenant: str = "") -> GateView:
        """Return one gate with its numbers in force."""
        return self._read(lambda board: look.gate(board, key, tenant))

    def gates(
        self,
        *,
        tenant: str | None = None,
        prefix: str = "",
        without: str = "",
        offset: int = 0,
        limit: int = 50,
    ) -> tuple[list[GateView], int]:
        """Return a page of gates by name, of one tenant or of all, and how many there are.

        Only those whose names begin with *prefix*, and not with *without*.
        """

        def work(board: Board) -> tuple[list[GateView], int]:
            rows = views.gates(board.db, tenant, prefix, without, offset, limit)
            page = [look.gate_view(board, id_, name, owner) for id_, owner, name in rows]
            return page, views.gates_total(board.db, tenant, prefix, without)

        return self._read(work)

    def queues(self) -> list[dict[str, object]]:
        """Return every queue that has jobs or rules."""

        def work(board: Board) -> list[dict[str, object]]:
            return [
                {
                    "name": n,
                    "waiting": w,
                    "running": r,
                    "paused": bool(p),
                    "numbers": look.configured(board, "queue", n),
                }
                for n, w, r, p in queue_rows.counts(board.db)
            ]

        return self._read(work)

    def pools(self, tenant: str | None = None) -> list[Pool]:
        """Return the pools of one tenant or of all, by name."""
        return self.store.read(lambda db: pools.pools(db, tenant))

    def busy_queues(self) -> list[str]:
        """Return the queues in which a claim might find somebody."""
        return self.store.read(queue_rows.busy)

    def configured(self, scope: str, name: str) -> Numbers | None:
        """Return the numbers that were set for a queue or a type; None if none were."""
        return self._read(lambda board: look.configured(board, scope, name))

    def why(self, job_id: str) -> Why:
        """Say why a job waits."""
        return self._read(lambda board: look.why(board, job_id))

    def doctor(self) -> list[str]:
        """Recompute every counter; return what is not as it should be."""
        return self._read(doctor.examine)

    def search(self, wanted: JobFilter, *, offset: int = 0, limit: int = 50) -> tuple[list[JobView], int]:
        """Return a page of the jobs that fit, newest first, and how many there are."""
        return self.store.read(lambda db: operating.search(db, wanted, offset, limit))

    def matching(self, wanted: JobFilter, limit: int) -> tuple[list[str], int]:
        """Return the ids of the jobs that fit, oldest first, and how many there are."""
        return self.store.read(lambda db: operating.matching(db, wanted, limit))

    def tally(self) -> list[QueueCounts]:
        """Count the jobs of every queue that has any."""
        return self.store.read(operating.tally)

    def ended_since(self, since: int) -> list[QueueCounts]:
        """Count the jobs of every queue that ended after then."""
        return self.store.read(lambda db: operating.ended_since(db, since))

    def tenant_depth(self, tenant: str, *, scheduled: bool = False) -> int:
        """Return how many jobs of a tenant wait or are *scheduled*, or only the latter."""
        return self.store.read(lambda db: tally_rows.depth(db, tenant, scheduled=scheduled))

    # What operators decided.

    def settings(self, prefix: str = "") -> dict[str, str]:
        """Return the settings whose names begin with *prefix*."""
        return self.store.read(lambda db: setting_rows.under(db, prefix))

    def set_setting(self, name: str, value: str | None) -> None:
        """Keep a setting, for every process; None forgets it."""
        self._write(lambda board: operating.set_setting(board, name, value), Hold.NOTHING)

    def advice(self) -> list[str]:
        """Return what somebody should look after in the database, though nothing is wrong with the jobs."""
        return self.store.advice()

    # Upkeep.

    def upkeep(self) -> dict[str, int]:
        """Rescue, expire, wake and sweep what is due, a bounded amount; claims do the first three too."""

        def work(board: Board) -> dict[str, int]:
            board.now += self._time.follow(board.db)
            return bring_up_to_date(board)

        done = self._write(work, keep=False)
        self._swept, swept = self._write(lambda board: sweep(board, self._swept), keep=False)
        return done | swept

    def prune(self, older_than: int, most: int | None = None) -> int:
        """Delete jobs that ended before then, in small batches; return how many."""
        total = 0
        while True:
            step = self._write(lambda board: prune(board, older_than, BATCH), Hold.NOTHING)
            total += step
            if step < BATCH or (most is not None and total >= most):
                return total

    # Floating limits.

    def refreshes(
        self, handlers: Collection[str], count: int, *, worker: str, lease: int = LEASE
    ) -> list[Refresh]:
        """Lend due refreshes to a worker that has one of these handlers."""
        if not handlers:
            return []
        return self._write(lambda board: floating.refreshes(board, handlers, count, worker, lease))

    def refreshed(self, refresh: Refresh, *, value: int | None = None, error: str = "") -> bool:
        """Take a refreshed value, or an error; False if another worker was given the refresh meanwhile."""
        return self._write(lambda board: floating.refreshed(board, refresh, value, error))

    def floating(self, key: str, tenant: str = "") -> FloatingView:
        """Return the floating limit of a key."""
        return self._read(lambda board: floating.view(board, key, tenant))

    def set_floating(
        self,
        key: str,
        *,
        value: int | None = None,
        every: int | None = None,
        metadata: str | None = None,
        tenant: str = "",
    ) -> None:
        """Change the value, the interval or the metadata of a floating limit."""
        for name, number in (("value", value), ("every", every)):
            if number is not None:
                check_whole(name, number, 0, MAX_NUMBER)
        self._write(lambda board: floating.edit(board, key, tenant, value, every, metadata))

    def delete_floating(self, key: str, *, tenant: str = "") -> None:
        """Let a key float no longer."""
        self._write(lambda board: floating.delete(board, key, tenant))

    # Slots for calls of other processes.

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

    # Schedules.

    def set_schedule(self, schedule: Schedule) -> Schedule:
        """Add a schedule, or replace the one of its name; return it with its next moment."""
        wanted = schedules.checked(schedule)
        return self._write(lambda board: schedules.put(board, wanted), Hold.NOTHING)

    def schedules(
        self, tenant: str | None = None, offset: int = 0, limit: int = 50
    ) -> tuple[list[Schedule], int]:
        """Return a page of schedules by name, of one tenant or of all, and how many there are."""
        return self.store.read(lambda db: schedules.page(db, tenant, offset, limit))

    def schedule(self, name: str, tenant: str = "") -> Schedule:
        """Return one schedule."""
        return self.store.read(lambda db: schedules.get(db, name, tenant))

    def pause_schedule(self, name: str, tenant: str = "") -> Schedule:
        """Let a schedule fire no more."""
        return self._write(lambda board: schedules.pause(board, name, tenant), Hold.NOTHING)

    def resume_schedule(self, name: str, tenant: str = "") -> Schedule:
        """Let a schedule fire again, from its next moment on."""
        return self._write(lambda board: schedules.resume(board, name, tenant), Hold.NOTHING)

    def delete_schedule(self, name: str, tenant: str = "") -> None:
        """Delete a schedule; its jobs stay."""
        self._write(lambda board: schedules.delete(board, name, tenant), Hold.NOTHING)

    # Workflows.

    def start_workflow(self, new: NewWorkflow) -> WorkflowView:
        """Add a workflow and enqueue the steps that wait for nobody; all of it is durable when this returns."""
        wanted = workflows.checked(new)
        limited = any(step.job.limits for step in wanted.steps if not step.depends_on)

        def work(board: Board) -> WorkflowView:
            return workflow_views.view(board.db, workflows.start(board, wanted))

        return self._write(work, Hold.GATES_IF_FREE if limited else Hold.NOTHING)

    def workflow(self, workflow_id: str) -> WorkflowView:
        """Return one workflow with its steps."""
        return self.store.read(lambda db: workflow_views.view(db, workflow_id))

    def workflows(
        self,
        tenant: str | None = None,
        offset: int = 0,
        limit: int = 50,
        *,
        state: WorkflowState | None = None,
    ) -> tuple[list[WorkflowView], int]:
        """Return a page of workflows, newest first and without their steps, and how many there are."""
        return self.store.read(lambda db: workflow_views.page(db, tenant, state, offset, limit))

    def cancel_workflow(self, workflow_id: str, reason: str = "its workflow was cancelled") -> WorkflowView:
        """Set no further step free; cancel the jobs that wait, and ask the workers of those that run to stop."""

        def work(board: Board) -> WorkflowView:
            workflows.cancel(board, workflow_id, reason)
            return workflow_views.view(board.db, workflow_id)

        return self._write(work)

    def gauges(self, most: int, *, without: str = "") -> Gauges:
        """Return how full queues and gates are; of the keys only the *most* busy ones by name.

        Keys that begin with *without* do not count.
        """
        return self.store.read(lambda db: gauges.read(db, most, without))

    # Webhooks.

    def add_webhook(self, webhook: Webhook) -> Webhook:
        """Remember whom to tell of what happens; return it with its id."""
        return self._write(lambda board: webhooks.add(board, webhook), Hold.NOTHING)

    def change_webhook(
        self, id_: str, edit: Callable[[Webhook], Webhook], tenant: str | None = None
    ) -> Webhook:
        """Replace a webhook by what *edit* makes of it."""
        return self._write(lambda board: webhooks.change(board, id_, edit, tenant), Hold.NOTHING)

    def delete_webhook(self, id_: str, tenant: str | None = None) -> None:
        """Forget a webhook."""
        self._write(lambda board: webhooks.delete(board, id_, tenant), Hold.NOTHING)

    def webhook(self, id_: str, tenant: str | None = None) -> Webhook:
        """Return one webhook."""
        return self.store.read(lambda db: webhooks.get(db, id_, tenant))

    def webhooks(self, tenant: str | None = None) -> list[Webhook]:
        """Return the webhooks of one tenant, or of all."""
        return self.store.read(lambda db: webhooks.all_of(db, tenant))

    # Listening and waiting.

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call *listener* with every event this engine commits; call the answer to stop."""
        return self._telling.listen(listener)

    def listen_to_batches(self, listener: Callable[[Sequence[Event]], None]) -> Callable[[], None]:
        """Call *listener* with all events that are to be told at once; call the answer to stop."""
        return self._telling.listen_to_batches(listener)

    def token(self, topic: Topic = Topic.WORK) -> int:
        """Return a number that changes whenever any process did something about *topic*."""
        return self.store.token(topic)

    def wait(self, token: int, timeout: float, topic: Topic = Topic.WORK) -> int:
        """Wait until somebody did something after *token*, or for *timeout* seconds; return the new token."""
        return self.store.wait(topic, token, timeout)

    def close(self) -> None:
        """Close the store, after those who use it were told."""
        while self._before_close:
            self._before_close.pop()()
        self.store.close()

    def before_close(self, call: Callable[[], None]) -> None:
        """Have *call* called when the store is to be closed."""
        self._before_close.append(call)

    def _write_freely(self, work: Callable[[Board], T], hold: Hold, *, keep: bool = True) -> T:
        """Write with no more than *hold* as long as jobs have no limits, and with the gates while they do."""

        def watched(board: Board) -> T:
            answer = work(board)
            if board.posts or board.lanes or board.in_workflows:
                self._gated = LIKELY
            return answer

        if self._gated:
            self._gated -= 1
            hold = Hold.GATES
        return self._write(watched, hold, keep=keep)

    def _write(self, work: Callable[[Board], T], hold: Hold = Hold.GATES, *, keep: bool = True) -> T:
        if not self._telling.listeners:
            return self.store.write(lambda db: self._run(db, work)[0], keep=keep, hold=hold)
        numbers: list[int] = []  # one for each time that it was run

        def numbered(db: Session) -> tuple[T, list[Event]]:
            found = self._run(db, work)
            numbers.append(self._telling.number())
            return found

        told: list[Event] = []
        try:
            answer, told = self.store.write(numbered, keep=keep, hold=hold)
            return answer
        finally:
            for number in numbers:
                self._telling.told(number, told if number == numbers[-1] else ())

    def _run(self, db: Session, work: Callable[[Board], T]) -> tuple[T, list[Event]]:
        events = Events(self._time.now(db), wanted=bool(self._telling.listeners))
        board = Board(db, events.now, events, set_apart=set_apart, turns=self._turns)
        answer = work(board)
        board.flush()
        while board.ended:
            follow(board)
            board.flush()
        return answer, named(db, events.gathered)

    def _read(self, work: Callable[[Board], T]) -> T:
        now = self._time.seen()
        return self.store.read(
            lambda db: work(Board(db, now, Events(now, wanted=False), set_apart=set_apart, turns=self._turns))
        )

    def _add_plain(self, plain: Gathering, jobs: Sequence[NewJob]) -> list[Enqueued]:
        now = self._time.seen()
        rows = [job_row(job, None, new_id(), now) for job in jobs]
        if self._telling.listeners:
            self._add_and_tell(plain, rows, now)
        else:
            plain.add(rows)
        return [Enqueued(row[1]) for row in rows]

    def _add_and_tell(self, plain: Gathering, rows: list[Row], now: int) -> None:
        number, told = self._telling.number(), []
        try:
            plain.add(rows)
            told = [enqueued(row, now) for row in rows]
        finally:
            self._telling.told(number, told)


def _cancel(board: Board, job_id: str, reason: str) -> State:
    seq = job_rows.seq_of(board.db, job_id)
    if seq is None:
        raise NotFoundError("job", job_id)
    if remove(board, seq, State.CANCELLED, reason):
        return State.CANCELLED
    if ask_to_stop(board, seq):
        return State.RUNNING
    state = job_rows.state(board.db, seq)
    raise WrongStateError(job_id, str(state), "a job that has not ended")


def _forget(board: Board, job_id: str) -> None:
    seq = job_rows.seq_of(board.db, job_id)
    if seq is None:
        raise NotFoundError("job", job_id)
    if not prune_rows.forget(board.db, seq):
        raise WrongStateError(job_id, str(job_rows.state(board.db, seq)), "a job that has ended")


def _clear(board: Board, key: str, tenant: str) -> None:
    if key not in gate_rows.find(board.db, "key", tenant, [key]):
        raise NotFoundError("gate", key)
    rules.clear(board, key, tenant)
