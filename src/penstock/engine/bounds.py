"""How full may a queue of a tenant, or of none, become?

Jobs that wait and jobs that are scheduled count; a running job that comes back is let in again.  A transaction that
adds to a bounded queue holds the queue's lock until it ends, so counting and adding are one decision.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from penstock.engine.admission.board import Board
from penstock.engine.removal import remove_all
from penstock.engine.transactions import Transactions
from penstock.errors import InvalidError, QueueFullError
from penstock.job import DROPPED_FOR_ROOM, Bound, OnFull, Topic
from penstock.lifecycle.checks import MAX_NUMBER, check_queue, check_whole
from penstock.lifecycle.states import State
from penstock.store import bounds as bound_rows
from penstock.store.bounds import BoundRow
from penstock.store.session import Locks, Queue, Session

_PARTS: Final = 1_000_000  # of one, in which a warning is stored


class BoundVerbs(Transactions):
    def bound(self, queue: str, bound: Bound | None, *, tenant: str = "") -> None:
        """Set how many jobs may wait in a queue; None removes the bound.  Jobs that wait already stay."""
        _check(queue, bound)
        key = tenant, queue

        def work(board: Board) -> None:
            board.db.lock([lock_name(key)])
            board.db.tell(Topic.ROOM)
            if bound is None:
                bound_rows.remove(board.db, key)
            else:
                warning = None if bound.warning is None else round(bound.warning * _PARTS)
                bound_rows.put(board.db, key, bound.max_depth, bound.strategy.value, warning)

        self._write(work, Locks.NONE)

    def bounds(self) -> dict[Queue, Bound]:
        """Return the bounds of queues, by tenant and name."""
        return self.store.read(lambda db: _read(bound_rows.every(db)))

    def depth(self, queue: str, *, tenant: str = "") -> int:
        """Return how many jobs of a queue wait or are scheduled."""
        return self.store.read(lambda db: bound_rows.depth(db, (tenant, queue)))


def _check(queue: str, bound: Bound | None) -> None:
    """Raise unless a queue can have such a bound."""
    check_queue(queue)
    if bound is None:
        return
    check_whole("max_depth", bound.max_depth, 0, MAX_NUMBER)
    if bound.warning is not None and not 0 < bound.warning <= 1:
        raise InvalidError("warning", f"{bound.warning!r} must be more than 0 and at most 1")


def known(db: Session, queues: Iterable[Queue]) -> dict[Queue, Bound]:
    """Return the bounds of those of these queues that have one."""
    return _read(bound_rows.of(db, queues))


def lock_name(queue: Queue) -> str:
    """Return the name of the lock for counting a queue."""
    tenant, name = queue
    return f"\x1equeue {name} {tenant}"


def make_room(board: Board, coming: Mapping[Queue, int], spared: Collection[int]) -> None:
    """Raise `QueueFullError`, or drop the jobs that have waited longest, where more are *coming* than a queue may take.

    The caller holds the locks of these queues.  Jobs in *spared* are not dropped.
    """
    bounded = known(board.db, coming).items()
    # Only when no queue refuses is a job of another dropped.
    for queue, bound in sorted(bounded, key=lambda each: each[1].strategy is OnFull.DROP_OLDEST):
        new = coming[queue]
        if new <= 0:
            continue
        depth = bound_rows.depth(board.db, queue)
        if bound.strategy is OnFull.DROP_OLDEST:
            depth = _drop(board, queue, depth, bound.max_depth - new, spared)
        if depth + new > bound.max_depth:
            raise QueueFullError(queue[1], depth, bound.max_depth, queue[0])
        if bound.warning is not None and depth < bound.warning * bound.max_depth <= depth + new:
            facts = {"tenant": queue[0], "queue": queue[1], "depth": depth + new, "bound": bound.max_depth}
            board.events.tell("queue.filling", **facts)


def _drop(board: Board, queue: Queue, depth: int, most: int, spared: Collection[int]) -> int:
    """Drop waiting jobs until at most *most* are left, if there are so many; return how many are left."""
    while depth > most >= 0:
        board.db.need_gates()
        oldest = bound_rows.oldest(board.db, queue, depth - most + len(spared))
        seqs = [seq for seq in oldest if seq not in spared][: depth - most]
        if len(seqs) < depth - most:
            break
        # A job without limits may start at this very moment; then there is room too.
        dropped = len(seqs) - len(remove_all(board, seqs, State.DISCARDED, DROPPED_FOR_ROOM))
        board.events.tell("queue.dropped", tenant=queue[0], queue=queue[1], jobs=dropped)
        depth = bound_rows.depth(board.db, queue)
    return depth


def _read(rows: Sequence[BoundRow]) -> dict[Queue, Bound]:
    return {
        (tenant, queue): Bound(most, OnFull(strategy), None if warning is None else warning / _PARTS)
        for tenant, queue, most, strategy, warning in rows
    }
