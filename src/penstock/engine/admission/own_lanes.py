"""Lanes of their own: each has one gate, with slots only, and no other lane passes it.

On PostgreSQL a transaction that looks at no other lanes shares the gates with those that do the same, and locks the
rows of its lanes.  While the gates are shared, no rule changes and no lane is added or deleted: that takes the gates
alone.  So which lanes are their own does not change, and what does change of such a lane (its jobs, its place, the
slots that its gate counts) changes under the lock of its row only.  Another lane or gate ends the transaction, which
is then run again with the gates to itself.

Invariant: a transaction that waits for the row of a lane holds none.  Those of attempts that end are locked together,
in order, before any other; those that a claim finds are left out if another transaction has them.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from penstock.engine.admission.lane import Lane, Post
from penstock.engine.admission.rows import lane_of
from penstock.job import INSTANCES, Topic
from penstock.limits.rules import OnLimit
from penstock.store import gates as gate_rows
from penstock.store import lanes as lane_rows
from penstock.store.gates import GateRow
from penstock.store.lanes import LaneRow
from penstock.store.session import Part, Session

if TYPE_CHECKING:
    from penstock.engine.admission.board import Board


class OwnLanes:
    """The lanes that a transaction has locked because it shares the gates with others."""

    def __init__(self, board: "Board") -> None:
        self._board = board
        self._locked: set[int] = set()
        self._gates: set[int] = set()
        self._claims: tuple[Part, int] | None = None  # where the claim to come looks, and for how many lanes
        self._found: dict[tuple[Part, int], list[LaneRow]] = {}  # what it found there
        self._rows: dict[int, GateRow] = {}  # gates that were read with others

    def will_claim(self, part: Part | None, most: int) -> None:
        """Have a claim's first lanes locked with the next that are, and after them."""
        self._claims = None if part is None else (part, most)

    def ready(self, part: Part, most: int) -> list[LaneRow]:
        """Lock and return the first *most* ready lanes of a part, without those that others have locked."""
        if (part, most) in self._found:
            return self._found.pop((part, most))
        self._will_lock()
        rows = lane_rows.ready_locked(self._board.db, part, most)
        self._locked.update(row.id for row in rows)
        return rows

    def behind(self, gates: Sequence[int]) -> list[Lane]:
        """Return the lanes that wait behind gates of their own, uncalled."""
        wanted = set(gates)
        lanes = [self._board.lanes[id_] for id_ in sorted(self._locked) if id_ in self._board.lanes]
        return [lane for lane in lanes if lane.behind in wanted and not lane.ready]

    def gates(self, ids: Sequence[int]) -> list[GateRow]:
        """Return gates, the lane of each of which is locked."""
        db = self._board.db
        need_lanes(db)
        if unlocked := [gate for gate in ids if gate not in self._gates]:
            if self._locked:
                db.need_gates()  # it might have to wait for them, and may not while it holds others
            self._lock(unlocked)
        if missing := [gate for gate in ids if gate not in self._rows]:
            found = gate_rows.load_own(db, [*missing, *self._others()]) if self._gates.issuperset(ids) else []
            self._rows.update((row.id, row) for row in found)
        rows = [self._rows[gate] for gate in ids if gate in self._rows]
        if len(rows) < len(ids):
            db.need_gates()
        return rows

    def _lock(self, gates: Sequence[int]) -> None:
        """Lock the lanes of these gates, then those that the claim to come finds first."""
        db, claims = self._board.db, self._claims
        self._will_lock()
        if claims is not None:
            db.along(lambda later: lane_rows.ready_locked(later, *claims))
        lanes = lane_rows.locked_of(db, list(gates))
        self._locked.update(lane.id for lane in lanes)
        self.check(self._board.bring(lanes))
        if claims is not None:
            self._found[claims] = self.ready(*claims)
            self._claims = None

    def _will_lock(self) -> None:
        """Have claims come again if this is rolled back: they may pass over lanes meanwhile that stay ready."""
        self._board.db.tell_if_undone(Topic.WORK)

    def _others(self) -> list[int]:
        """Return the gates of the lanes that were found for the claim to come, so that one statement reads all."""
        lanes = [lane_of(row) for rows in self._found.values() for row in rows]
        gates = {lane.stands[0].gate for lane in lanes if has_slots_only(lane)}
        return sorted(gates - self._gates)

    def check(self, lanes: Iterable[Lane]) -> None:
        """Go on only if these lanes are locked, and each may be one of its own; its gate tells the rest."""
        need_lanes(self._board.db)
        for lane in lanes:
            if lane.id not in self._locked or not has_slots_only(lane):
                self._board.db.need_gates()
            self._gates.add(lane.stands[0].gate)

    @property
    def found_in(self) -> set[Part]:
        """Where lanes were found for the claim to come; a look that is older may not know of them."""
        return {part for (part, _), rows in self._found.items() if rows}

    @property
    def left_ready(self) -> bool:
        """Whether a lane stays ready that no other claim could take meanwhile."""
        lanes = self._board.lanes
        if any(row.id not in lanes for rows in self._found.values() for row in rows):
            return True
        return any(id_ in lanes and lanes[id_].ready and lanes[id_].head is not None for id_ in self._locked)


def need_lanes(db: Session) -> None:
    """Go on only if this transaction holds the gates, alone or with others."""
    if not db.shares_gates:
        db.need_gates()


def has_slots_only(lane: Lane) -> bool:
    """Tell whether jobs of a lane wait at one gate for slots, and for nothing else."""
    if len(lane.stands) != 1 or lane.apart is not None or lane.queue == INSTANCES:
        return False
    stand = lane.stands[0]
    own = stand.own
    slots_only = own.slots is not None and own.rate is None and own.throttle is None and not own.floats
    return slots_only and stand.on_limit is OnLimit.WAIT


def seem_own(lanes: Iterable[Lane], posts: Iterable[Post]) -> bool:
    """Tell whether all these lanes and gates may be such; whether other lanes pass the gates is not known."""
    return all(map(has_slots_only, lanes)) and not any(
        post.gate.rules is not None or post.gate.starts is not None or post.turn is not None or post.asking
        or post.group is not None or post.member_of
        for post in posts
    )  # fmt: skip
