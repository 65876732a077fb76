"""Where a claim looks: the queues that it asked for, each in its parts, tenant by tenant.

Every job of a queue passes the queue's own gates and those of its pools.  They are asked before its lanes are, and
nothing parks behind them.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.engine.admission.lane import Lane, Post
from penstock.limits.gate import ON_RELEASE
from penstock.limits.rules import UNLIMITED
from penstock.store.claim_snapshot import ClaimSnapshot
from penstock.store.session import Part, Queue
from penstock.store.waiting import FreeJob

if TYPE_CHECKING:
    from penstock.engine.admission.board import Board

Entry = tuple[
    int, int, int, "ClaimQueue", Lane | None
]  # the rank, what tells equals apart, and where it stands


@dataclass(slots=True, eq=False)
class TenantQueues:
    """Where a claim stands with the jobs of one tenant."""

    queues: "list[ClaimQueue]" = field(default_factory=list)
    heap: list[Entry] = field(default_factory=list)
    is_read: bool = False
    in_rotation: bool = True  # it is among those to serve


@dataclass(slots=True)
class ClaimQueue:
    """Where a claim stands in one part of a queue."""

    key: Queue
    part: str
    tenant: TenantQueues
    posts: list[Post]  # what every job of the queue must pass: its own gates, and those of its pools
    parts: "list[ClaimQueue]"  # of the same queue, this one too
    page: int = 1  # jobs without limits to read at once, at least
    free: list[FreeJob] = field(default_factory=list)  # last first
    free_passed: int = 0  # rows at the front that were taken or passed over
    free_left: bool = True
    lane_reads: int = 0  # so many pages of lanes were read
    read_to: tuple[int, int] | None = None  # lanes of a later rank may be unread
    shut: bool = False  # no further job may start from it now

    @property
    def place(self) -> Part:
        """Which part of whose queue it is."""
        return (*self.key, self.part)

    def further(self, part: str) -> "ClaimQueue":
        """Return a further part of the queue."""
        found = ClaimQueue(self.key, part, self.tenant, self.posts, self.parts)
        self.parts.append(found)
        return found


class ClaimQueues:
    """The queues of one claim."""

    def __init__(self, board: "Board", keys: Sequence[Queue], snapshot: ClaimSnapshot) -> None:
        self._board = board
        self.opens_at = ON_RELEASE  # when the gate of a queue lets more through
        self._tenants: dict[str, TenantQueues] = {}
        self.by_place = {queue.place: queue for queue in self._open(keys, snapshot)}
        served = snapshot.served
        names = sorted(self._tenants, key=lambda name: (served.get(name, 0), name))
        self.rotation = deque(self._tenants[name] for name in names)

    def of(self, lane: Lane) -> ClaimQueue | None:
        """Return the part of a queue that a lane is in; None if this claim did not ask for that queue."""
        queue = self.by_place.get(lane.where)
        if queue is None and (whole := self.by_place.get((*lane.place, ""))) is not None:
            queue = self.by_place[lane.where] = whole.further(lane.part)
        return queue

    def is_open(self, queue: ClaimQueue, cost: int) -> bool:
        """Ask the queue's own gates and those of its pools; a refused job holds up the rest of the queue."""
        now = self._board.now
        for post in queue.posts:
            gate = post.gate
            at = gate.opens_at(UNLIMITED, cost, now)
            if at > now:
                for part in queue.parts:
                    part.shut = True
                changes = gate.rules.next_change(now) if gate.rules is not None else ON_RELEASE
                self.opens_at = min(self.opens_at, at, changes)
                return False
        return True

    def too_heavy_for(self, queue: ClaimQueue, cost: int) -> int | None:
        """Return the gate of the queue into whose rate a start of *cost* can never fit."""
        gates = (post.gate for post in queue.posts)
        return next((gate.id for gate in gates if gate.too_heavy(UNLIMITED, cost, self._board.now)), None)

    def _open(self, keys: Sequence[Queue], snapshot: ClaimSnapshot) -> list[ClaimQueue]:
        board = self._board
        ruling = [
            gate
            for of in (snapshot.queue_gates, snapshot.pool_gates)
            for found in of.values()
            for gate in found
        ]
        board.load_gates([*ruling, *snapshot.type_gates.values()])
        apart = sorted(place for place in snapshot.with_free | snapshot.with_lanes if place[2])
        found = {}
        for key in keys:
            tenant = self._tenants.setdefault(key[0], TenantQueues())
            found[key] = ClaimQueue(key, "", tenant, [board.posts[gate] for gate in snapshot.gates(key)], [])
            found[key].parts.append(found[key])
            tenant.queues.append(found[key])
        parts = [found[tenant, name].further(task) for tenant, name, task in apart if (tenant, name) in found]
        for part in parts:
            part.tenant.queues.append(part)
        return [*found.values(), *parts]
