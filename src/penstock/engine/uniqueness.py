"""Unique keys: which job holds a key, and what the latest call of one does.

A call that replaces takes the place of a job that waits, and waits for one that runs.

Invariant: a call that was accepted is in exactly one place: it waits, it waits for the end of an earlier job of
its key, or a later call has taken its place.  So the last one of them runs.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from penstock.engine.admission.arrivals import Arrival, arrive, rejoin
from penstock.engine.admission.board import Board
from penstock.engine.removal import end, remove
from penstock.errors import DuplicateJobError
from penstock.job import INSTANCES, NewJob
from penstock.lifecycle.states import ENDED, LIVE, State
from penstock.lifecycle.unique import Unique, holds, pause_ends
from penstock.store import attempts as attempt_rows
from penstock.store import jobs as job_rows
from penstock.store import successors as successor_rows
from penstock.store import uniqueness as unique_rows
from penstock.store import waiting as waiting_rows
from penstock.store.jobs import ArrivingJob, Made
from penstock.store.uniqueness import KeyHolder
from penstock.store.waiting import AtDoor


class Holder(NamedTuple):
    """A job that stands for a unique key.  If it waits for a pause in the calls, they have come *since* then."""

    seq: int
    id: str
    state: State
    since: int | None


def holder(board: Board, key: str) -> Holder | None:
    """Return the job that stands for a key now, the latest if there are several."""
    return next(_standing(board, unique_rows.holders(board.db, key)), None)


def earlier(board: Board, seq: int) -> Holder | None:
    """Return the latest live job that stands for the key of a job and came before it."""
    found = _standing(board, unique_rows.earlier(board.db, seq))
    return next((each for each in found if each.state in LIVE), None)


def _standing(board: Board, holders: Iterable[KeyHolder]) -> Iterator[Holder]:
    for job in holders:
        state = job_rows.state(board.db, job.seq)
        # The holder's own states and window count: it was told that nothing else would run while it stands.
        if state is not None and holds(unique_rows.states(job.states), job.until, state, board.now):
            yield Holder(job.seq, job.id, state, job.since)
        elif state in ENDED:
            unique_rows.forget(board.db, job.seq)


def stored_key(queue: str, unique: Unique) -> str:
    """Return the key that is written down: a job and an instance of the same key are not the same request."""
    return f"\x1e{unique.key}" if queue == INSTANCES else unique.key


def unique_to_text(job: NewJob) -> str:
    """Write down how a job is unique, for when it is retried by hand."""
    assert job.unique is not None  # noqa: S101 - the caller looked
    unique = job.unique
    fields = [job.tenant, stored_key(job.queue, unique), sorted(unique.states), unique.window]
    return json.dumps(fields if unique.quiet is None else [*fields, unique.quiet, unique.max_wait])


def pause_of(board: Board, seq: int) -> tuple[int, int | None] | None:
    """Return the (quiet, max_wait) of a job that waits for a pause in the calls."""
    text = job_rows.unique_terms(board.db, seq)
    fields = [] if text is None else json.loads(text)
    return (fields[4], fields[5]) if len(fields) > 4 else None  # noqa: PLR2004 - tenant, key, states, window


def lock_keys_of(board: Board, seqs: Sequence[int]) -> None:
    """Lock the unique keys of jobs, all at once and so in one order everywhere."""
    terms = [text for seq in seqs if (text := job_rows.unique_terms(board.db, seq)) is not None]
    if terms:
        board.db.lock(["\x1f".join(json.loads(text)[:2]) for text in terms])


def retake_key(board: Board, seq: int) -> None:
    """Let a job that is retried by hand stand for its key again; raise `DuplicateJobError` if another does."""
    text = job_rows.unique_terms(board.db, seq)
    if text is None:
        return
    tenant, name, states, window, *_ = json.loads(text)
    key = f"{tenant}\x1f{name}"
    board.db.lock([key])
    found = holder(board, key)
    if found is not None and found.seq != seq:
        raise DuplicateJobError(found.id)
    until = None if window is None else board.now + window
    unique_rows.take(board.db, key, seq, [State(state) for state in states], until)


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
        table = found.table
        # Calls that came before a start were served by it.
        since = new.at if old_since is None or table == "running" or found.attempt else old_since
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
            _stand_in(board, old, found.made, found.lane, new)
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
    _end(board, old, (0, 0), new)
    return True


def _stand_in(board: Board, old: int, made: Made, lane_id: int, new: Replacement) -> None:
    """Put a replacement exactly where a job with the same limits waits; its call or its turn passes on."""
    lane = board.lane(lane_id)
    told = board.blocked.gate_of(lane)
    waiting_rows.stand_in(board.db, old, new.arrival.seq, told)
    lane.upcoming = []
    if lane.head == old:
        lane.head = new.arrival.seq
        board.touch(lane)
    board.turns.pass_on(lane, old, new.arrival.seq)
    board.blocked.joined(lane, [new.arrival.seq], told)
    _end(board, old, made, new)


def _end(board: Board, old: int, made: Made, new: Replacement) -> None:
    end(board, old, made, State.CANCELLED, _reason(new.id))
    unique_rows.forget(board.db, old)


def _reason(id_: str) -> str:
    return f"replaced by {id_}"


def _alike(board: Board, old: int, new: Arrival) -> bool:
    """Tell whether two jobs belong in one lane, at the same place."""
    (known,) = job_rows.arriving(board.db, [old])
    return known == ArrivingJob(
        old, new.tenant, new.queue, new.task, new.limits, new.priority, new.cost, new.costs
    )


def _in_one_lane(board: Board, old: int, new: Arrival) -> bool:
    (known,) = job_rows.arriving(board.db, [old])
    place = (new.tenant, new.queue, new.task, new.limits)
    return (known.tenant, known.queue, known.task, known.limits) == place
