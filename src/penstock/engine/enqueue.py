"""Add jobs: all of a batch or none."""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from penstock.engine import tenants as tenant_limits
from penstock.engine.admission.arrivals import Arrival, arrive
from penstock.engine.admission.board import Board
from penstock.engine.events import enqueued
from penstock.engine.queues import bound_lock, bounds_of, make_room
from penstock.engine.tenants import Coming
from penstock.engine.transactions import Transactions
from penstock.engine.uniqueness import (
    Placed,
    Replacement,
    by_itself,
    holder,
    let_in,
    stored_key,
    take_place,
    unique_to_text,
)
from penstock.errors import DuplicateJobError, InvalidJobError
from penstock.ids import new_id
from penstock.job import INSTANCES, Enqueued, NewJob
from penstock.lifecycle.checks import (
    MAX_NUMBER,
    check_cost,
    check_job_id,
    check_priority,
    check_queue,
    check_task_name,
    check_tenant,
    check_whole,
)
from penstock.lifecycle.nesting import TOO_DEEP, is_deep
from penstock.lifecycle.retry import policy_to_json
from penstock.lifecycle.states import LIVE, State
from penstock.lifecycle.unique import OnDuplicate, Unique
from penstock.limits.costs import costs_to_text
from penstock.limits.spec import in_order, limits_to_json
from penstock.store import attempts as attempt_rows
from penstock.store import jobs as job_rows
from penstock.store import leases as lease_rows
from penstock.store import uniqueness as unique_rows
from penstock.store import waiting as waiting_rows
from penstock.store.session import BoundedError, JobRow, Locks, Queue

MAX_ARGS: Final = 16 * 1024 * 1024
AT_DOOR: Final = 10_000  # jobs that are let in before others
MAX_MOMENT: Final = 2**63 - 1
_DEFAULT_PRIORITY: Final = 0


class EnqueueVerbs(Transactions):
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
                connection, lambda db: self._run(db, lambda board: enqueue(board, jobs, own=True))[0]
            )
        if self.store.add_free is not None and all(is_plain(job) for job in jobs):
            with suppress(BoundedError):
                return self._add_plain(self.store.add_free, jobs)
        gated = any(job.limits or job.tenant or replaces(job) for job in jobs)
        locks = Locks.GATES_IF_FREE if gated else Locks.NONE
        return self._write(lambda board: enqueue(board, jobs), locks=locks)

    def _add_plain(self, add: Callable[[Sequence[JobRow]], None], jobs: Sequence[NewJob]) -> list[Enqueued]:
        now = self._time.seen()
        rows = [job_row(job, None, new_id(), now, "") for job in jobs]
        if self._publisher.listeners:
            number, told = self._publisher.number(), []
            try:
                add(rows)
                told = [enqueued(row, now) for row in rows]
            finally:
                self._publisher.told(number, told)
        else:
            add(rows)
        return [Enqueued(row[1], at=now) for row in rows]


@dataclass(slots=True)
class _Batch:
    """What one enqueue will write."""

    jobs: list[JobRow] = field(default_factory=list)
    weighed: list[tuple[*JobRow, str]] = field(default_factory=list)  # those with costs for each limit
    arrivals: list[Arrival] = field(default_factory=list)
    scheduled: list[tuple[int, int, int, int]] = field(default_factory=list)
    expiring: list[tuple[int, int]] = field(default_factory=list)
    leases: list[tuple[int, int]] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)  # unique keys of jobs that are not written yet

    def write(self, board: Board) -> None:
        """Write the jobs down and stand them in line."""
        if self.jobs:
            job_rows.add(board.db, self.jobs)
        if self.weighed:
            job_rows.add_weighed(board.db, self.weighed)
        if self.arrivals and board.db.gated:
            arrive(board, self.arrivals)
        elif self.arrivals:
            _deliver(board, self.arrivals)
        if self.scheduled:
            waiting_rows.schedule(board.db, self.scheduled)
        if self.expiring:
            job_rows.expire_at(board.db, self.expiring)
        if self.leases:
            lease_rows.set_own(board.db, self.leases)
        self.jobs, self.arrivals, self.scheduled, self.keys = [], [], [], set()
        self.expiring, self.leases, self.weighed = [], [], []


def _deliver(board: Board, arrivals: Sequence[Arrival]) -> None:
    """Let new jobs wait without a look at any gate: those with limits or a tenant wait at the door."""
    free = [
        (j.seq, j.queue, "", j.priority, j.ord, j.cost, 0, 0) for j in arrivals if not (j.limits or j.tenant)
    ]
    if free:
        board.to_follow.free_instances = board.to_follow.free_instances or any(
            row[1] == INSTANCES for row in free
        )
        waiting_rows.get_ready(board.db, free)
    if len(free) < len(arrivals):
        waiting_rows.to_door(board.db, [job.seq for job in arrivals if job.limits or job.tenant])


def check(job: NewJob) -> None:
    """Raise unless *job* could ever run."""
    _check_names(job.queue, job.task)
    if job.priority != _DEFAULT_PRIORITY:
        check_priority(job.priority)
    if job.cost != 1 or any(limit.cost is not None for limit in job.limits):
        _check_weight(job)
    if job.id is not None:
        check_job_id(job.id)
    if job.lease is not None:
        check_whole("lease", job.lease, 1, MAX_NUMBER)
    for name, moment in (("due", job.due), ("expires", job.expires), ("timeout", job.timeout)):
        if moment is not None and not -MAX_MOMENT <= moment <= MAX_MOMENT:
            raise InvalidJobError(name, f"{moment} is more than can be stored")
    if job.due is not None and job.unique is not None and job.unique.quiet is not None:
        raise InvalidJobError("quiet", "a job that waits for a pause in the calls can have no other due time")
    for name, text in (("args", job.args), ("meta", job.meta)):
        check_text(name, text)
        if is_deep(text):
            raise InvalidJobError(name, TOO_DEEP)
    if job.tenant:
        check_tenant(job.tenant)
    if len(job.args) > MAX_ARGS:
        raise InvalidJobError("args", f"{len(job.args)} bytes of JSON; at most {MAX_ARGS} are allowed")


def check_text(field_: str, text: str) -> None:
    """Raise unless every database can store *text*."""
    if "\0" in text:
        raise InvalidJobError(
            field_, "must not contain the character NUL, which not every database can store"
        )
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InvalidJobError(field_, f"cannot be stored as UTF-8: {error}") from None


def is_plain(job: NewJob) -> bool:
    """Tell whether a job needs nothing but to be written down."""
    return (
        not job.limits
        and not job.tenant
        and job.unique is None
        and job.id is None
        and job.due is None
        and job.expires is None
        and job.lease is None
    )


def job_row(job: NewJob, seq: int | None, id_: str, now: int, limits: str) -> JobRow:
    """Return a job as it is stored, with its *limits* as JSON."""
    return (
        seq, id_, job.tenant, job.queue, job.task, job.args, job.priority, job.cost, limits,
        policy_to_json(job.retry), job.timeout, job.expires,
        job.meta, None if job.unique is None else unique_to_text(job), now,
    )  # fmt: skip


def replaces(job: NewJob) -> bool:
    """Tell whether a job takes the place of an earlier one of its key."""
    return job.unique is not None and job.unique.on_duplicate is OnDuplicate.REPLACE


def enqueue(
    board: Board, jobs: Sequence[NewJob], seqs: Sequence[int] = (), *, own: bool = False, following: int = 0
) -> list[Enqueued]:
    """Add jobs that passed `check`, under these numbers if they are given.

    A transaction of the caller's *own* may last, so it must not keep jobs from starting: an earlier job of a
    unique key is replaced only after it has committed.  So many jobs will be *following* these by themselves, and
    count for their tenant now.
    """
    given = [(job.tenant, job.id) for job in jobs if job.id is not None]
    keys = {_key(job, job.unique) for job in jobs if job.unique is not None}
    bounded = bounds_of(board.db, ((job.tenant, job.queue) for job in jobs))
    limited = tenant_limits.known(board.db, (job.tenant for job in jobs))
    if given or keys or bounded or limited:
        names = [*map(bound_lock, bounded), *map(tenant_limits.lock_name, limited)]
        board.db.lock([*map(_id_lock, given), *keys, *names])
    if limited:
        board.look_at_clock()
    if given:
        _check_ids(board, given)
    if bounded or limited:
        _make_room(board, jobs, following)
    if board.db.gated and sum(map(replaces, jobs)) > 1:
        # Lock them in one order everywhere, before they are marked one after the other.
        attempt_rows.locked(board.db, unique_rows.seqs(board.db, keys))
    if board.db.gated and any(limit.floating is not None for job in jobs for limit in job.limits):
        # The first job of a floating key says how it floats, also if it still stands at the door.
        let_in(board, waiting_rows.at_door(board.db, AT_DOOR))
    return add(board, jobs, seqs or board.db.numbers(len(jobs)), own=own)


def reserve(board: Board, jobs: Sequence[NewJob]) -> None:
    """Lock the ids that jobs bring; raise `DuplicateJobError` if one is taken."""
    given = [(job.tenant, job.id) for job in jobs if job.id is not None]
    if given:
        board.db.lock([*map(_id_lock, given)])
        _check_ids(board, given)


def add(board: Board, jobs: Sequence[NewJob], seqs: Sequence[int], *, own: bool = False) -> list[Enqueued]:
    """Write jobs down under these unused numbers, and stand them in line."""
    batch = _Batch()
    later = own and not board.db.gated
    answers = [_one(board, batch, job, seq, later=later) for job, seq in zip(jobs, seqs, strict=True)]
    batch.write(board)
    return answers


def _make_room(board: Board, jobs: Sequence[NewJob], following: int) -> None:
    """Make room for those of *jobs* that become new jobs, before anything is written."""
    queues: Counter[Queue] = Counter()
    tenants: defaultdict[str, Coming] = defaultdict(Coming)
    standing: dict[str, tuple[Queue, State] | None] = {}  # by key: where the job is that stands for it
    spared = set()
    for job in jobs:
        queue, tenant = (job.tenant, job.queue), tenants[job.tenant]
        state = State.SCHEDULED if _is_later(board, job) else State.WAITING
        if job.unique is not None:
            key = _key(job, job.unique)
            if key not in standing:
                standing[key] = None
                if (found := holder(board, key)) is not None:
                    spared.add(found.seq)
                    standing[key] = (job_rows.queue_of(board.db, found.seq), found.state)
            earlier = standing[key]
            if earlier is not None and not _gives_way(job.unique, earlier[1]):
                continue
            if earlier is not None and earlier[1] is not State.RUNNING:
                queues[earlier[0]] -= 1
                tenant.add(earlier[1], -1)
            stands = job.unique.window is not None or state in job.unique.states
            standing[key] = (queue, state) if stands else None
        queues[queue] += 1
        tenant.add(state, 1)
        tenant.new += 1
    if following:
        tenants[jobs[0].tenant].follow(following)
    # A refused job may not have others dropped for it, nor count as one that came.
    arrived = tenant_limits.check(board, tenants)
    make_room(board, queues, spared)
    tenant_limits.remember(board, arrived)


def _is_later(board: Board, job: NewJob) -> bool:
    """Tell whether a job is scheduled first: until it is due, or until there is a pause in the calls of its key."""
    pausing = job.unique is not None and job.unique.quiet is not None
    return pausing or (job.due is not None and job.due > board.now)


def _gives_way(unique: Unique, state: State) -> bool:
    """Tell whether the job that stands for a key, in this state, is replaced by the next, at once or when it ends."""
    return unique.on_duplicate is OnDuplicate.REPLACE and state in LIVE


def _one(board: Board, batch: _Batch, job: NewJob, seq: int, *, later: bool) -> Enqueued:
    id_ = job.id or new_id()
    known = in_order(job.limits)
    limits = limits_to_json(known) if known else ""
    costs = costs_to_text(known, job.cost) if known else None
    arrival = Arrival(
        seq, job.tenant, job.queue, job.task, limits, job.priority, job.cost, costs, seq, 0, 0, known=known
    )
    placed = Placed(arrival, job.due or 0, board.now)
    if job.unique is not None:
        new = Replacement(arrival, id_, board.now, job.due or 0, job.unique.pause)
        found = _place_of(board, batch, new, job.unique, later=later)
        if isinstance(found, str):
            return Enqueued(found, reused=True)
        placed = found
    row = job_row(job, seq, id_, board.now, limits)
    if costs is None:
        batch.jobs.append(row)
    else:
        batch.weighed.append((*row, costs))
    if placed.arrival is not None and placed.due > board.now:
        batch.scheduled.append((seq, placed.due, 0, 0))
    elif placed.arrival is not None:
        batch.arrivals.append(placed.arrival)
    if job.expires is not None:
        batch.expiring.append((seq, job.expires))
    if job.lease is not None:
        batch.leases.append((seq, job.lease))
    if board.events.wanted:
        facts: dict[str, object] = {"job": id_, "task": job.task, "queue": job.queue, "tenant": job.tenant}
        if batch.scheduled and batch.scheduled[-1][0] == seq:
            facts["due"] = placed.due
        board.events.tell("job.enqueued", **facts)
        board.events.know(seq, id_, job.task, job.queue, job.tenant)
    return Enqueued(id_, at=board.now)


def _place_of(board: Board, batch: _Batch, new: Replacement, unique: Unique, *, later: bool) -> Placed | str:
    """Return the id of the job that stands for this key; or take the key for the new job, and find it a place."""
    key, seq = _key(new.arrival, unique), new.arrival.seq
    if key in batch.keys:
        batch.write(board)  # so that the earlier job of this batch is found like any other
    found, placed = holder(board, key), by_itself(new)
    if found is not None and not _gives_way(unique, found.state):
        if unique.on_duplicate is OnDuplicate.REUSE:
            return found.id
        raise DuplicateJobError(found.id)
    if found is not None and later:
        waiting_rows.replace_later(board.db, seq, found.seq, new.due)
        placed = Placed(None, 0, placed.since)
    elif found is not None:
        placed = take_place(board, found.seq, found.since, new)
    until = None if unique.window is None else board.now + unique.window
    since = None if unique.quiet is None else placed.since
    unique_rows.take(board.db, key, seq, unique.states, until, since)
    batch.keys.add(key)
    return placed


def _key(job: NewJob | Arrival, unique: Unique) -> str:
    return f"{job.tenant}\x1f{stored_key(job.queue, unique)}"


def _id_lock(named: tuple[str, str]) -> str:
    """Return the name of the lock for an id of a tenant."""
    return "\x1d".join(named)


def _check_ids(board: Board, given: Sequence[tuple[str, str]]) -> None:
    of_tenant: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for tenant, id_ in given:
        if id_ in of_tenant[tenant]:
            raise DuplicateJobError(id_)
        of_tenant[tenant][id_] = None
    for tenant, ids in of_tenant.items():
        taken = job_rows.known_ids(board.db, tenant, list(ids))
        if taken:
            raise DuplicateJobError(taken[0])


def _check_weight(job: NewJob) -> None:
    check_cost(job.cost)
    for limit in job.limits:
        rate, cost = limit.numbers.rate, job.cost if limit.cost is None else limit.cost
        if rate is not None and 0 < rate.limit < cost:
            raise InvalidJobError(
                "cost", f"{cost} is more than the rate of {limit.key!r} ever allows ({rate.limit})"
            )


@lru_cache(maxsize=4096)
def _check_names(queue: str, task: str) -> None:
    check_queue(queue)
    check_task_name(task)
