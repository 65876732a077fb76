"""Start jobs for which no hand of the worker is free yet, but soon will be: they stand by in the worker.

A worker with few hands would exchange a few short jobs at a time, and spend most of its time on that.

Such a job holds its slots from now on, as any that was started.  So only a job may stand by whose gate is the only one
it passes, and has one slot, which no other job could use meanwhile.

Invariant: jobs are started in the order of the claim; the first that must not stand by ends it.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from penstock.engine.admission.claim_queues import ClaimQueue
from penstock.engine.admission.lane import Lane
from penstock.engine.admission.own_lanes import has_slots_only, seem_own
from penstock.engine.admission.relays import must_be_alone
from penstock.store import waiting as waiting_rows

if TYPE_CHECKING:
    from penstock.engine.admission.claiming import Claiming


def stand_by(claiming: "Claiming", spans: Mapping[str, int], most: int) -> bool:
    """Start up to *most* more jobs of the tasks in *spans*; tell whether there was one."""
    if claiming.wanted:
        return False
    board = claiming.board
    found = claiming.first_lanes(most)
    lanes = []
    for queue, lane in found:
        if not _may(claiming, queue, lane, spans):
            break
        lanes.append(lane)
    if not lanes:
        return False
    firsts = waiting_rows.first_in(board.db, [lane.id for lane in lanes], 1)
    taken = len(claiming.admitted)
    for lane in lanes:
        first = firsts[lane.id][0]
        if first.seq != lane.head or must_be_alone(first) or not claiming.start_next():
            break
    return len(claiming.admitted) > taken


def _may(claiming: "Claiming", queue: ClaimQueue, lane: Lane, spans: Mapping[str, int]) -> bool:
    if lane.tenant or queue.posts or lane.gone or lane.unread or not has_slots_only(lane):
        return False
    post = claiming.board.posts[lane.stands[0].gate]
    return lane.stands[0].own.slots == 1 and seem_own((), [post]) and claiming.tasks.of(lane) in spans
