"""Start jobs for which no hand of the worker is free yet, but soon will be: they stand by in the worker.

A worker with few hands would exchange a few short jobs at a time, and spend most of its time on that.

Such a job holds its slot from now on, as any that was started.  So only a job may stand by for which no other job could
use that slot meanwhile: its only gate has one slot, and no other lane passes it.  And as many ready lanes are left as
became ready in this transaction: else a worker would keep all keys that it has, though others have hands for them.

Invariant: jobs are started in the order of the claim; the first that must not stand by ends it.
"""

from collections.abc import Mapping
from itertools import takewhile
from typing import TYPE_CHECKING

from penstock.engine.admission.claim_queues import ClaimQueue
from penstock.engine.admission.lane import Lane
from penstock.engine.admission.own_lanes import has_slots_only, seem_own
from penstock.engine.admission.relays import must_be_alone, own_gates
from penstock.store import waiting as waiting_rows

if TYPE_CHECKING:
    from penstock.engine.admission.claiming import Claiming


def stand_by(claiming: "Claiming", spans: Mapping[str, int], most: int) -> bool:
    """Start up to *most* more jobs of the tasks in *spans*; tell whether there was one."""
    if claiming.wanted:
        return False
    board = claiming.board
    found = claiming.first_lanes(most)
    called = board.called
    others = sum(lane.id not in called for _, lane in found)
    lanes = [lane for _, lane in takewhile(lambda each: _may(claiming, *each, spans), found[:others])]
    if board.db.gated:
        own = own_gates(board, lanes)
        lanes = list(takewhile(lambda lane: lane.stands[0].gate in own, lanes))
    if not lanes:
        return False
    jobs = waiting_rows.first_in(board.db, [lane.id for lane in lanes], 1)
    taken = len(claiming.admitted)
    for lane in lanes:
        first = jobs[lane.id][0]
        if first.seq != lane.head or must_be_alone(first) or not claiming.start_next():
            break
    return len(claiming.admitted) > taken


def _may(claiming: "Claiming", queue: ClaimQueue, lane: Lane, spans: Mapping[str, int]) -> bool:
    if lane.tenant or queue.posts or lane.gone or lane.unread or not has_slots_only(lane):
        return False
    post = claiming.board.posts[lane.stands[0].gate]
    return lane.stands[0].own.slots == 1 and seem_own((), [post]) and claiming.tasks.of(lane) in spans
