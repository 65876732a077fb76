"""Queues: pause and resume them, put them into pools.

A pause, numbers and a pool that name no tenant rule the queue of that name of every tenant.

A pool is a set of queues from which workers fetch in one order, and which may share a number of slots.  The
slots are a gate that every job of these queues passes, like the gate of a queue.
"""

from dataclasses import replace
from typing import Final

from penstock.engine.admission.board import Board
from penstock.engine.gates import change, count_running, gate_of
from penstock.engine.transactions import Transactions
from penstock.errors import InvalidError, NotFoundError
from penstock.job import Order, Pool
from penstock.lifecycle.checks import MAX_NUMBER, check_queue, check_schedule_name, check_whole
from penstock.limits.rules import Numbers
from penstock.store import gates as gate_rows
from penstock.store import pools as pool_rows
from penstock.store import queues as queue_rows
from penstock.store.session import Locks, Session

MAX_WEIGHT: Final = 1_000_000
MAX_QUEUES: Final = 1_000


class QueueVerbs(Transactions):
    def pause(self, queue: str, *, tenant: str = "") -> None:
        """Let nothing start from a queue: of one tenant, or of all."""
        check_queue(queue)

        def work(board: Board) -> None:
            queue_rows.pause(board.db, (tenant, queue), board.now)
            board.events.tell("queue.paused", queue=queue, tenant=tenant)

        self._write(work, Locks.RULES)

    def resume(self, queue: str, *, tenant: str = "") -> None:
        """Let jobs start from a queue again: of one tenant, or of all, also where only one was paused."""
        check_queue(queue)

        def work(board: Board) -> None:
            queue_rows.resume(board.db, (tenant, queue))
            board.events.tell("queue.resumed", queue=queue, tenant=tenant)

        self._write(work, Locks.RULES)

    def set_pool(self, pool: Pool) -> None:
        """Add a pool of queues, or replace the one of its name; jobs that run in its queues count at once."""
        _check_pool(pool)
        self._write(lambda board: _put_pool(board, pool), Locks.RULES)

    def delete_pool(self, name: str, *, tenant: str = "") -> None:
        """Delete a pool; its queues stay, and jobs that run go on."""

        def work(board: Board) -> None:
            gate = gate_rows.find(board.db, "pool", tenant, [name]).get(name)
            if gate is not None:
                change(board, gate, lambda rules: replace(rules, configured=None))
            if not pool_rows.delete(board.db, tenant, name):
                raise NotFoundError("pool", name)

        self._write(work, Locks.RULES)

    def pools(self, tenant: str | None = None) -> list[Pool]:
        """Return the pools of one tenant or of all, by name."""
        return self.store.read(lambda db: _pools(db, tenant))


def _check_pool(pool: Pool) -> None:
    """Raise unless *pool* can be kept."""
    check_schedule_name(pool.name)
    if not pool.queues or len(set(pool.queues)) < len(pool.queues) or len(pool.queues) > MAX_QUEUES:
        raise InvalidError("queues", f"must be 1 to {MAX_QUEUES} different queues")
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
    pool_rows.put(board.db, pool.tenant, pool.name, pool.order.value, pool.slots, rows)


def _pools(db: Session, tenant: str | None) -> list[Pool]:
    members: dict[tuple[str, str], list[tuple[str, int]]] = {}
    for owner, pool, queue, weight in pool_rows.queues(db):
        members.setdefault((owner, pool), []).append((queue, weight))
    found = []
    for owner, name, ordering, slots in pool_rows.all_of(db, tenant):
        queues = members.get((owner, name), [])
        found.append(
            Pool(
                name, tuple(q for q, _ in queues), Order(ordering), tuple(w for _, w in queues), slots, owner
            )
        )
    return found
