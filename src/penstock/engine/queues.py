"""Queues: look at them, pause and resume them, put them into pools, and say how full one may become.

A pause, numbers and a pool that name no tenant rule the queue of that name of every tenant.

A pool is a set of queues from which workers fetch in one order, and which may share a number of slots.  The
slots are a gate that every job of these queues passes, like the gate of a queue.

Within a bound jobs that wait and jobs that are scheduled count; a running job that comes back is let in again.  A
transaction that adds to a bounded queue holds the queue's lock until it ends, so counting and adding are one decision.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from msgspec import to_builtins

from penstock.engine import audit
from penstock.engine.admission.board import Board
from penstock.engine.admission.rows import rules_from_text
from penstock.engine.gates import change, configured, count_running, gate_of
from penstock.engine.in_use import following_at_keys
from penstock.engine.removal import remove_all
from penstock.engine.transactions import Transactions
from penstock.errors import InvalidError, NotFoundError, QueueFullError
from penstock.job import (
    DROPPED_FOR_ROOM,
    Bound,
    FloatingGauge,
    Gauges,
    KeyGauge,
    OnFull,
    Order,
    Pool,
    QueueCounts,
    Topic,
)
from penstock.lifecycle.checks import (
    MAX_NUMBER,
    check_queue,
    check_schedule_name,
    check_tenant,
    check_whole,
)
from penstock.lifecycle.states import State
from penstock.limits.rules import Numbers
from penstock.store import counts as count_rows
from penstock.store import floating as floating_rows
from penstock.store import gates as gate_rows
from penstock.store import instance_checks
from penstock.store import queues as queue_rows
from penstock.store.queues import BoundRow
from penstock.store.session import Locks, Queue, Session

MAX_WEIGHT: Final = 1_000_000
MAX_QUEUES: Final = 1_000
_PARTS: Final = 1_000_000  # of one, in which a warning is stored


class QueueVerbs(Transactions):
    def pause(self, queue: str, *, tenant: str = "") -> None:
        """Let nothing start from a queue: of one tenant, or of all."""
        check_queue(queue)
        check_tenant(tenant)

        def work(board: Board) -> None:
            before = queue_rows.has_pause(board.db, (tenant, queue))
            queue_rows.pause(board.db, (tenant, queue), board.now)
            audit.note(
                board,
                "queue.pause",
                "queue",
                queue,
                tenant,
                before={"paused": before},
                after={"paused": True},
            )
            board.events.tell("queue.paused", queue=queue, tenant=tenant)

        self._write(work, Locks.RULES)

    def resume(self, queue: str, *, tenant: str = "") -> None:
        """Let jobs start from a queue again: of one tenant, or of all, also where only one was paused."""
        check_queue(queue)
        check_tenant(tenant)

        def work(board: Board) -> None:
            if queue_rows.resume(board.db, (tenant, queue)):
                paused = {"paused": True}
                audit.note(
                    board, "queue.resume", "queue", queue, tenant, before=paused, after={"paused": False}
                )
            board.events.tell("queue.resumed", queue=queue, tenant=tenant)

        self._write(work, Locks.RULES)

    def set_pool(self, pool: Pool) -> None:
        """Add a pool of queues, or replace the one of its name; jobs that run in its queues count at once."""
        _check_pool(pool)

        def work(board: Board) -> None:
            before = _pool_told(board.db, pool.tenant, pool.name)
            _put_pool(board, pool)
            after = _pool_told(board.db, pool.tenant, pool.name)
            audit.note(board, "pool.put", "pool", pool.name, pool.tenant, before=before or {}, after=after)

        self._write(work, Locks.RULES)

    def delete_pool(self, name: str, *, tenant: str = "") -> None:
        """Delete a pool; its queues stay, and jobs that run go on."""

        def work(board: Board) -> None:
            before = _pool_told(board.db, tenant, name)
            gate = gate_rows.find(board.db, "pool", tenant, [name]).get(name)
            if gate is not None:
                change(board, gate, lambda rules: replace(rules, configured=None))
            if not queue_rows.delete_pool(board.db, tenant, name):
                raise NotFoundError("pool", name)
            audit.note(board, "pool.delete", "pool", name, tenant, before=before)

        self._write(work, Locks.RULES)

    def pools(self, tenant: str | None = None) -> list[Pool]:
        """Return the pools of one tenant or of all, by name."""
        return self.store.read(lambda db: _pools(db, tenant))

    def queues(self) -> list[dict[str, object]]:
        """Return every queue that has jobs or rules."""

        def work(board: Board) -> list[dict[str, object]]:
            return [
                {
                    "tenant": t,
                    "name": n,
                    "waiting": w,
                    "scheduled": s,
                    "running": r,
                    "paused": bool(p),
                    "numbers": configured(board, "queue", n, t),
                }
                for t, n, w, s, r, p in queue_rows.counts(board.db)
            ]

        return self._read(work)

    def tally(self) -> list[QueueCounts]:
        """Count the jobs of every queue that has any."""
        return self._read(lambda board: _tallies(count_rows.tally(board.db, board.now)))

    def ended_since(self, since: int) -> list[QueueCounts]:
        """Count the jobs of every queue that ended after then."""
        return self.store.read(lambda db: _tallies(count_rows.ended_since(db, since)))

    def gauges(self, most: int) -> Gauges:
        """Return how full queues and gates are, and which instances live; of keys only the *most* busy ones by name."""
        now = self._time.seen()

        def work(db: Session) -> Gauges:
            found = count_rows.busiest_keys(db, most)
            following = following_at_keys(db)
            keys = [
                KeyGauge(tenant, key, running - following[gate], waiting)
                for gate, tenant, key, running, waiting, *_ in found
            ]
            running, waiting = next(((running, waiting) for *_, running, waiting in found), (0, 0))
            running -= following.total()
            rest = (running - sum(key.running for key in keys), waiting - sum(key.waiting for key in keys))
            live = [(queue, state, jobs) for queue, state, jobs in count_rows.live(db)]
            return Gauges(
                live, keys, *rest, floating=_floating(db, most, now),
                instances=[(name, state, count) for name, state, count in count_rows.live_instances(db, now)],
                stuck=len(instance_checks.stuck(db)),
            )  # fmt: skip

        return self.store.read(work)

    def bound(self, queue: str, bound: Bound | None, *, tenant: str = "") -> None:
        """Set how many jobs may wait in a queue; None removes the bound.  Jobs that wait already stay."""
        _check_bound(queue, bound)
        check_tenant(tenant)
        key = tenant, queue

        def work(board: Board) -> None:
            board.db.lock([bound_lock(key)])
            board.db.tell(Topic.ROOM)
            before = bounds_of(board.db, [key]).get(key)
            audit.note(
                board,
                "queue.bound",
                "queue",
                queue,
                tenant,
                before=_bound_told(before),
                after=_bound_told(bound),
            )
            if bound is None:
                queue_rows.remove_bound(board.db, key)
            else:
                warning = None if bound.warning is None else round(bound.warning * _PARTS)
                queue_rows.put_bound(board.db, (*key, bound.max_depth, bound.strategy.value, warning))

        self._write(work, Locks.NONE)

    def bounds(self) -> dict[Queue, Bound]:
        """Return the bounds of queues, by tenant and name."""
        return self.store.read(lambda db: _bounds(queue_rows.bounds(db)))

    def depth(self, queue: str, *, tenant: str = "") -> int:
        """Return how many jobs of a queue wait or are scheduled."""
        return self.store.read(lambda db: queue_rows.depth(db, (tenant, queue)))


def _check_pool(pool: Pool) -> None:
    """Raise unless *pool* can be kept."""
    check_schedule_name(pool.name)
    if not pool.queues or len(set(pool.queues)) < len(pool.queues) or len(pool.queues) > MAX_QUEUES:
        raise InvalidError("queues", f"must be 1 to {MAX_QUEUES} different queues")
    check_tenant(pool.tenant)
    for queue in pool.queues:
        check_queue(queue)
    if len(pool.weights) not in (0, len(pool.queues)):
        raise InvalidError("weights", "must be as many as the queues, or none")
    for weight in pool.weights:
        check_whole("weights", weight, 1, MAX_WEIGHT)
    if pool.slots is not None:
        check_whole("slots", pool.slots, 0, MAX_NUMBER)


def _put_pool(board: Board, pool: Pool) -> None:
    gate = gate_rows.find(board.db, "pool", pool.tenant, [pool.name]).get(pool.name)
    if pool.slots is not None:
        gate = gate_of(board, "pool", pool.name, pool.tenant)
        for queue in pool.queues:
            count_running(board, "queue", queue, pool.tenant, gate)
    if gate is not None:
        numbers = None if pool.slots is None else Numbers(pool.slots)
        change(board, gate, lambda rules: replace(rules, configured=numbers))
    weights = pool.weights or (1,) * len(pool.queues)
    passed = None if pool.slots is None else gate
    rows = [(queue, n, weights[n], passed) for n, queue in enumerate(pool.queues)]
    queue_rows.put_pool(board.db, (pool.tenant, pool.name, pool.order.value, pool.slots), rows)


def _pool_told(db: Session, tenant: str, name: str) -> dict[str, object] | None:
    """Return what the audit tells of a pool."""
    found = next((pool for pool in _pools(db, tenant) if pool.name == name), None)
    return None if found is None else to_builtins(found)


def _bound_told(bound: Bound | None) -> dict[str, object]:
    """Return what the audit tells of a bound."""
    return {} if bound is None else to_builtins(bound)


def _pools(db: Session, tenant: str | None) -> list[Pool]:
    members: dict[tuple[str, str], list[tuple[str, int]]] = {}
    for owner, pool, queue, weight in queue_rows.pool_queues(db):
        members.setdefault((owner, pool), []).append((queue, weight))
    found = []
    for owner, name, ordering, slots in queue_rows.pools(db, tenant):
        queues = members.get((owner, name), [])
        found.append(
            Pool(
                name, tuple(q for q, _ in queues), Order(ordering), tuple(w for _, w in queues), slots, owner
            )
        )
    return found


def _tallies(rows: Iterable[tuple[str, str, str, int]]) -> list[QueueCounts]:
    found: dict[tuple[str, str], QueueCounts] = {}
    for tenant, queue, state, number in rows:
        of_queue = found.setdefault((tenant, queue), QueueCounts(tenant, queue, {}))
        of_queue.counts[state] = of_queue.counts.get(state, 0) + number
    return list(found.values())


def _floating(db: Session, most: int, now: int) -> list[FloatingGauge]:
    found = []
    for tenant, key, rules, initial, refreshed, failures in floating_rows.lately_used(db, most):
        known = rules_from_text(rules)
        value = initial if known is None or known.floating is None else known.floating
        age = None if refreshed is None else max(now - refreshed, 0)
        found.append(FloatingGauge(tenant, key, value, failures, age))
    return found


def _check_bound(queue: str, bound: Bound | None) -> None:
    """Raise unless a queue can have such a bound."""
    check_queue(queue)
    if bound is None:
        return
    check_whole("max_depth", bound.max_depth, 0, MAX_NUMBER)
    if bound.warning is not None and not 0 < bound.warning <= 1:
        raise InvalidError("warning", f"{bound.warning!r} must be more than 0 and at most 1")


def bounds_of(db: Session, queues: Iterable[Queue]) -> dict[Queue, Bound]:
    """Return the bounds of those of these queues that have one."""
    return _bounds(queue_rows.bounds_of(db, queues))


def bound_lock(queue: Queue) -> str:
    """Return the name of the lock for counting a queue."""
    tenant, name = queue
    return f"\x1equeue {name} {tenant}"


def make_room(board: Board, coming: Mapping[Queue, int], spared: Collection[int]) -> None:
    """Raise `QueueFullError`, or drop the jobs that have waited longest, where more are *coming* than a queue may take.

    The caller holds the locks of these queues.  Jobs in *spared* are not dropped.
    """
    bounded = bounds_of(board.db, coming).items()
    # Only when no queue refuses is a job of another dropped.
    for queue, bound in sorted(bounded, key=lambda each: each[1].strategy is OnFull.DROP_OLDEST):
        new = coming[queue]
        if new <= 0:
            continue
        depth = queue_rows.depth(board.db, queue)
        if bound.strategy is OnFull.DROP_OLDEST:
            depth = _drop_oldest(board, queue, depth, bound.max_depth - new, spared)
        if depth + new > bound.max_depth:
            raise QueueFullError(queue[1], depth, bound.max_depth, queue[0])
        if bound.warning is not None and depth < bound.warning * bound.max_depth <= depth + new:
            facts = {"tenant": queue[0], "queue": queue[1], "depth": depth + new, "bound": bound.max_depth}
            board.events.tell("queue.filling", **facts)


def _drop_oldest(board: Board, queue: Queue, depth: int, most: int, spared: Collection[int]) -> int:
    """Drop waiting jobs until at most *most* are left, if there are so many; return how many are left."""
    while depth > most >= 0:
        board.db.need_gates()
        oldest = queue_rows.oldest(board.db, queue, depth - most + len(spared))
        seqs = [seq for seq in oldest if seq not in spared][: depth - most]
        if len(seqs) < depth - most:
            break
        # A job without limits may start at this very moment; then there is room too.
        dropped = len(seqs) - len(remove_all(board, seqs, State.DISCARDED, DROPPED_FOR_ROOM))
        board.events.tell("queue.dropped", tenant=queue[0], queue=queue[1], jobs=dropped)
        depth = queue_rows.depth(board.db, queue)
    return depth


def _bounds(rows: Sequence[BoundRow]) -> dict[Queue, Bound]:
    return {
        (tenant, queue): Bound(most, OnFull(strategy), None if warning is None else warning / _PARTS)
        for tenant, queue, most, strategy, warning in rows
    }
