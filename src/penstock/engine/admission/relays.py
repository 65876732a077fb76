"""Start a job together with those that stand behind it in its lane: a relay, in which a slot is handed on.

Where a key has one slot and the worker has hands to spare, the next job of the key could only start in the next
transaction, once the one before has ended and was settled.  A relay starts it now, to begin after that one, in the same
worker.

Each attempt of a relay counts at the gate until it is settled, handed back or rescued, as any other does.  So the gate
stays shut until the last of them has gone, in whatever order they go, and no other verb knows of relays.

Invariant: at a gate with one slot, no start but those of one relay is between its claim and its end.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from penstock.engine.admission.claim_queues import ClaimQueue
from penstock.engine.admission.lane import Lane
from penstock.engine.admission.own_lanes import has_slots_only, seem_own
from penstock.job import FOLLOWERS_MOST, RELAY, RELAY_MOST
from penstock.lifecycle.retry import policy_from_json
from penstock.store import gates as gate_rows
from penstock.store import waiting as waiting_rows
from penstock.store.waiting import Following

if TYPE_CHECKING:
    from penstock.engine.admission.board import Board
    from penstock.engine.admission.claiming import Claiming


def hand_on(claiming: "Claiming", spans: Mapping[str, int]) -> None:
    """Let jobs follow those that started, given how long the handlers of their tasks take.

    Not if the hands of this claim are needed: then a hand that does several jobs of one key keeps others waiting.
    """
    if not spans or claiming.is_short or claiming.type_gates:
        return
    most = min(RELAY_MOST, RELAY // min(spans.values()))
    leading = _alone(claiming, spans) if most > 1 else []
    if not leading:
        return
    board = claiming.board
    found = waiting_rows.first_in(board.db, [lane.id for _, lane in leading[:FOLLOWERS_MOST]], most)
    left = FOLLOWERS_MOST
    for queue, lane in leading:
        if not left:
            return
        leader, *line = found[lane.id]
        for job in islice(_followers(leader, line, spans), left):
            claiming.starting.admit_after(queue, lane, leader.seq, job)
            board.heads.drop_next(lane, job.seq)
            leader = job
            left -= 1


def _followers(leader: Following, line: Iterable[Following], spans: Mapping[str, int]) -> Iterator[Following]:
    """Return the jobs of a *line* that may follow the one before them."""
    if must_be_alone(leader):
        return
    expected = spans[leader.task]
    for job in line:
        expected += spans.get(job.task, RELAY)
        if expected > RELAY or must_be_alone(job):
            return
        yield job


def must_be_alone(job: Following) -> bool:
    """Tell whether a job must not share the fate of its worker with others, of which most have not begun.

    One that was lost may be what kills workers.  One whose lost attempts count may fail by one that never began.
    """
    return job.lost > 0 or policy_from_json(job.retry).lost_counts


def _alone(claiming: "Claiming", spans: Mapping[str, int]) -> list[tuple[ClaimQueue, Lane]]:
    """Return the lanes whose start took the only slot of a gate at which nothing else happens."""
    board = claiming.board
    found = [
        (queue, lane)
        for queue, lane in claiming.filled
        if lane.unread and lane.gone == 1 and not lane.tenant and not queue.posts and _has_one_slot(claiming, lane)
        and claiming.tasks.of(lane) in spans
    ]  # fmt: skip
    if not found or not board.db.gated:
        return found  # lanes of a transaction that shares the gates are their own
    own = own_gates(board, [lane for _, lane in found])
    return [(queue, lane) for queue, lane in found if lane.stands[0].gate in own]


def own_gates(board: "Board", lanes: Sequence[Lane]) -> set[int]:
    """Return the gates that these lanes pass first and no other lane passes, for a transaction that holds the gates."""
    passing = Counter(stand.gate for lane in board.lanes.values() for stand in lane.stands)
    gates = [lane.stands[0].gate for lane in lanes if passing[lane.stands[0].gate] == 1]
    return {row.id for row in gate_rows.load_own(board.db, gates)} if gates else set()


def _has_one_slot(claiming: "Claiming", lane: Lane) -> bool:
    if not has_slots_only(lane):
        return False
    post = claiming.board.posts[lane.stands[0].gate]
    # One start shut it.
    return post.gate.running == 1 and seem_own((), [post])
