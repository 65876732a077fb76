"""How full may a queue become?  Whoever adds to one that has a bound counts first, and nobody else does meanwhile."""

from collections import Counter
from collections.abc import Sequence

from penstock.engine.board import Board
from penstock.engine.waiting import remove
from penstock.errors import QueueFullError
from penstock.job import Bound, NewJob, OnFull
from penstock.lifecycle.states import State
from penstock.store import bounds as bound_rows

DROPPED = "dropped to make room for newer jobs"


def make_room(board: Board, jobs: Sequence[NewJob]) -> None:
    """Raise unless *jobs* fit into their queues; where the oldest are to go, let them go."""
    queues = sorted({job.queue for job in jobs})
    found = bound_rows.of(board.db, queues)
    if not found:
        return
    coming = Counter(job.queue for job in jobs)
    for queue, most, strategy, _ in found:
        depth = bound_rows.depth(board.db, queue)
        over = depth + coming[queue] - most
        if over <= 0:
            continue
        if strategy != OnFull.DROP_OLDEST or coming[queue] > most:
            raise QueueFullError(queue, depth, most)
        gone = 0
        while gone < over:
            oldest = bound_rows.oldest(board.db, queue, over - gone)
            if not oldest:
                raise QueueFullError(queue, depth - gone, most)
            gone += sum(remove(board, seq, State.DISCARDED, DROPPED) for seq in oldest)


def set_bound(board: Board, queue: str, bound: Bound | None) -> None:
    """Set or remove the bound of a queue."""
    if bound is None:
        bound_rows.remove(board.db, queue)
    else:
        warning = None if bound.warning is None else round(bound.warning * 1_000_000)
        bound_rows.set_(board.db, queue, bound.max_depth, bound.strategy.value, warning)


def bound_of(row: tuple[str, int, str, int | None]) -> Bound:
    """Return a bound as it was set."""
    _, most, strategy, warning = row
    return Bound(most, OnFull(strategy), None if warning is None else warning / 1_000_000)
