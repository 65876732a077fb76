"""The latest call of a unique key wins: it takes the place of a job that waits, and waits for one that runs.

Invariant: a call that was accepted is in exactly one place: it waits, it waits for the end of an earlier job of
its key, or a later call has taken its place.  So the last one of them runs.
"""

from collections.abc import Sequence
from typing import NamedTuple

from penstock.engine.admission.arrivals import Arrival, arrive, rejoin
from penstock.engine.admission.board import Board
from penstock.engine.removal import end, remove
from penstock.engine.uniqueness import earlier, pause_of
from penstock.lifecycle.states import State
from penstock.lifecycle.unique import pause_ends
from penstock.store import attempts as attempt_rows
from penstock.store import jobs as job_rows
from penstock.store import successors as successor_rows
from penstock.store import uniqueness as unique_rows
from penstock.store import waiting as waiting_rows
from penstock.store.jobs import ArrivingJob
from penstock.store.waiting import AtDoor


class Replacement(NamedTuple):
    """The latest call of a unique key: how it would arrive by itself, and when it came and is due (0: at once)."""

    arrival: Arrival
    id: str
    at: int
    due: int
    pause: tuple[int, int | None] | None  # quiet and max_wait

    def due_at(self, since: int) -> int:
        """Return when it is due if calls have come *since* then."""
        return self.due if self.pause is None else pause_ends(self.at, *self.pause, since)


class Placed(NamedTuple):
    """Where a replacement goes: its *arrival* (None: it has its place already), its due time, since when calls came."""

    arrival: Arrival | None
    due: int
    since: int


def by_itself(new: Replacement) -> Placed:
    """Return the place of a call that replaces no job."""
    return Placed(new.arrival, new.due_at(new.at), new.at)


def take_place(board: Board, old: int, old_since: int | None, new: Replacement) -> Placed:
    """Let a replacement take the place of an earlier job; if the answer has an arrival, the caller lets it arrive."""
    board.db.need_gates()
    while True:
        board.flush_lanes()  # a job that was dropped in this transaction, as one let in, waits no more
        # Another transaction may start or end a job without limits at any moment; then its place is read again.
        found = job_rows.place(board.db, old)
        if found is None:
            return by_itself(new)
        table, attempt = found.table, found.attempt
        # Calls that came before a start were served by it.
        since = new.at if old_since is None or table == "running" or attempt else old_since
        placed = Placed(None, new.due_at(since), since)
        if table == "door":
            let_in(board, waiting_rows.from_door(board.db, old))
        elif table == "running":
            if _wait_for(board, old, new, placed.due):
                return placed
        elif table == "successor":
            if _replace_successor(board, old, new, placed.due):
                return placed
        elif found.lane is not None and placed.due <= board.now and _alike(board, old, new.arrival):
            _stand_in(board, old, attempt, found.lane, new)
            return placed
        elif remove(board, old, State.CANCELLED, _reason(new.id)):
            unique_rows.forget(board.db, old)
            place = new.arrival.ord if found.ord is None else found.ord
            refused = found.refused if found.refused and _in_one_lane(board, old, new.arrival) else 0
            return placed._replace(arrival=new.arrival._replace(ord=place, refused=refused))


def let_in(board: Board, jobs: Sequence[AtDoor]) -> None:
    """Let jobs in from the door."""
    rejoin(board, [(job.seq, job.seq, job.attempt, job.lost) for job in jobs if job.replaces is None])
    replaced = [job.replaces for job in jobs if job.replaces is not None]
    if replaced:
        attempt_rows.locked(board.db, replaced)  # locked in one order everywhere
    for seq, _, _, replaces, due in jobs:
        if replaces is None:
            continue
        # Enqueued in a transaction of the caller's own, which must not keep jobs from starting.
        (known,) = job_rows.arriving(board.db, [seq])
        new = Replacement(
            Arrival(*known, seq, 0, 0), *job_rows.called(board.db, seq), due, pause_of(board, seq)
        )
        # The job it was to replace may have been cancelled, but not the one before that.
        found = earlier(board, seq)
        placed = by_itself(new) if found is None else take_place(board, found.seq, found.since, new)
        if new.pause is not None:
            unique_rows.set_since(board.db, seq, placed.since)
        if placed.arrival is not None:
            stand(board, placed.arrival, placed.due)


def stand(board: Board, arrival: Arrival, due: int) -> None:
    """Let a job arrive, now or when it is due."""
    if due > board.now:
        waiting_rows.schedule(board.db, [(arrival.seq, due, 0, 0)])
    else:
        arrive(board, [arrival])


def _wait_for(board: Board, old: int, new: Replacement, due: int) -> bool:
    """Let a replacement wait for the end of a job that runs; False if that has just ended."""
    if not successor_rows.announce(board.db, old):
        return False
    other = successor_rows.of(board.db, old)
    if other is not None and _replace_successor(board, other, new, due):
        return True
    successor_rows.add(board.db, new.arrival.seq, old, new.arrival.ord, due)
    return True


def _replace_successor(board: Board, old: int, new: Replacement, due: int) -> bool:
    if not successor_rows.replace(board.db, old, new.arrival.seq, due):
        return False
    _end(board, old, 0, new)
    return True


def _stand_in(board: Board, old: int, attempt: int, lane_id: int, new: Replacement) -> None:
    """Put a replacement exactly where a job with the same limits waits; its call or its turn passes on."""
    lane = board.lane(lane_id)
    waiting_rows.stand_in(board.db, old, new.arrival.seq)
    lane.upcoming = []
    if lane.head == old:
        lane.head = new.arrival.seq
        board.touch(lane)
    board.turns.pass_on(lane, old, new.arrival.seq)
    _end(board, old, attempt, new)


def _end(board: Board, old: int, attempt: int, new: Replacement) -> None:
    end(board, old, attempt, State.CANCELLED, _reason(new.id))
    unique_rows.forget(board.db, old)


def _reason(id_: str) -> str:
    return f"replaced by {id_}"


def _alike(board: Board, old: int, new: Arrival) -> bool:
    """Tell whether two jobs belong in one lane, at the same place."""
    (known,) = job_rows.arriving(board.db, [old])
    return known == ArrivingJob(old, new.tenant, new.queue, new.task, new.limits, new.priority, new.cost)


def _in_one_lane(board: Board, old: int, new: Arrival) -> bool:
    (known,) = job_rows.arriving(board.db, [old])
    return (known.tenant, known.queue, known.task, known.limits) == (
        new.tenant,
        new.queue,
        new.task,
        new.limits,
    )
