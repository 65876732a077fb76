"""Turns: bounded overtaking (I5).

A job refused too often is given the turn at all its gates, or at none.  A turn holds no slot: while
it stands, others of the same or lower priority are tested as if the holder had already started, so
exactly its slot and its cost are kept.  It stands only while waiting makes sense: each of the
holder's gates is open, or busy with running attempts, or gathering budget.  Among overlapping
waiters only the eldest keeps anything, so turns cannot wait for each other.

Invariant: the holder's lane passes the gate of the holder's type, if that type is limited.  A turn that
did not know of that gate would keep slots for a job whose type is shut.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from penstock.clock import SECOND
from penstock.engine.admission.lane import Lane, Post, Stand, Turn
from penstock.limits.gate import ON_RELEASE, Gate
from penstock.store import gates as gate_rows
from penstock.store import waiting as waiting_rows

if TYPE_CHECKING:
    from penstock.engine.admission.board import Board

REFUSALS: Final = 4  # after so many a job has the turn
GRACE: Final = SECOND  # a turn whose gates are all open lapses after this: perhaps no worker serves its queue


class Turns:
    """The turns at the gates on a board."""

    def __init__(self, board: "Board", *, enabled: bool) -> None:
        self._board = board
        self._enabled = enabled
        self._changed: set[int] = set()
        self.present = False  # whether a gate on the board has a turn: seldom, so nothing is asked before
        self.ended_at: set[int] = set()  # gates to ring: a lane may have waited for a turn that is over
        self.without_type: dict[int, int] = {}  # lane and gate of those to move before they may have the turn

    def kept(self, post: Post, lane: Lane) -> int:
        """Return the cost of the start that is kept at a gate against this lane's first job."""
        turn = post.turn
        if turn is None or turn.seq == lane.head or turn.priority < lane.priority:
            return 0
        # A lane-mate in front of the holder (one that was rescued) would wait for it, and it for that one.
        if turn.lane == lane.id and lane.rank < turn.rank:
            return 0
        return turn.cost if self._stands(turn) else 0

    def kept_from_loans(self, post: Post) -> int:
        """Return the cost of the start kept at a gate against waiting calls, which count as jobs of priority 0."""
        turn = post.turn
        return turn.cost if turn is not None and turn.priority >= 0 and self._stands(turn) else 0

    def has_turn(self, lane: Lane) -> bool:
        """Tell whether the lane's first job has the turn."""
        posts = self._board.posts
        return any((t := posts[s.gate].turn) is not None and t.seq == lane.head for s in lane.stands)

    def refused(self, lane: Lane) -> None:
        """Count a refusal of the lane's first job; enough of them give it the turn."""
        if (
            self._enabled
            and lane.head is not None
            and waiting_rows.refuse(self._board.db, lane.head) >= REFUSALS
        ):
            self._give(lane)

    def gone(self, lane: Lane, seq: int | None = None) -> None:
        """End the turn of a job, if it has it, because it leaves its lane (None: the lane's first job)."""
        if not self.present:
            return
        leaving = lane.head if seq is None else seq
        for stand in lane.stands:
            turn = self._board.posts[stand.gate].turn
            if turn is not None and turn.seq == leaving:
                self._end(turn)
                return

    def end_of_type(self, task: str, gate: int) -> None:
        """End the turns of jobs of a type that is limited from now on, if their lanes do not pass its *gate*."""
        for seq, lane_id in gate_rows.turns_of_type(self._board.db, task):
            lane = self._board.lane(lane_id)
            if all(stand.gate != gate for stand in lane.stands):
                self.gone(lane, seq)

    def pass_on(self, lane: Lane, old: int, new: int) -> None:
        """Give the turn of a job, if it has it, to the one that stands in its place."""
        for stand in lane.stands if self.present else ():
            post = self._board.posts[stand.gate]
            if post.turn is not None and post.turn.seq == old:
                post.turn = post.turn._replace(seq=new)
                self._changed.add(stand.gate)

    def started_at(self, lane: Lane) -> None:
        """Have the gates of turns looked at again where a lane's job started: the turn may stand no longer."""
        self.looked_at_again(stand.gate for stand in lane.stands)

    def looked_at_again(self, gates: Iterable[int]) -> None:
        """Have the gates of the turns at these gates, where something started, looked at again."""
        for gate in gates if self.present else ():
            turn = self._board.posts[gate].turn
            if turn is not None:
                self.ended_at.update(s.gate for s in self._board.lane(turn.lane).stands)

    def with_neighbours(self, gates: set[int]) -> set[int]:
        """Add, to gates that changed, the other gates of the holders at them: what is kept for them may be void now."""
        self._board.load_gates(gates)
        if not self.present:
            return gates
        more = set(gates)
        for gate in gates:
            turn = self._board.posts[gate].turn
            if turn is not None:
                more.update(stand.gate for stand in self._board.lane(turn.lane).stands)
        return more

    def call_holders(self, gates: set[int]) -> None:
        """Make a holder's lane ready if its gate is open for it, though it may not stand first in its line."""
        for gate in gates if self.present else ():
            turn = self._board.posts[gate].turn
            if turn is None:
                continue
            lane = self._board.lane(turn.lane)
            if lane.behind == gate and not lane.ready and lane.head == turn.seq:
                stand = next(s for s in lane.stands if s.gate == gate)
                if self._board.opens_at(stand, lane) <= self._board.now:
                    self._board.set_ready(lane)

    def look_after(self, gates: set[int]) -> None:
        """Set wakes so that turns at these gates lapse, and are looked at when a rule changes by itself."""
        for gate in gates if self.present else ():
            turn = self._board.posts[gate].turn
            if turn is not None and self._stands(turn):
                self._board.lower_wake(gate, ON_RELEASE if turn.until is None else turn.until)

    def flush(self) -> None:
        """Write turns back."""
        posts, changed = self._board.posts, self._changed
        self._changed = set()
        if changed:
            gate_rows.forget_turns(self._board.db, [g for g in changed if posts[g].turn is None])
            gate_rows.save_turns(
                self._board.db, [(g, *t) for g in changed if (t := posts[g].turn) is not None]
            )

    def _give(self, lane: Lane) -> None:
        posts = [self._board.posts[stand.gate] for stand in lane.stands]
        others = {t for post in posts if (t := post.turn) is not None and t.seq != lane.head}
        if any(turn.rank < lane.rank for turn in others):
            return
        assert lane.head is not None  # noqa: S101 - only a waiting job is refused
        type_gate = gate_rows.type_of(self._board.db, lane.head)
        if type_gate is not None and all(stand.gate != type_gate for stand in lane.stands):
            self.without_type[lane.id] = type_gate
            return
        for turn in others:
            self._end(turn)
        self.present = True
        given = Turn(lane.head, lane.id, lane.priority, lane.ord, lane.cost, None)
        for post in posts:
            post.turn = given
            self._changed.add(post.gate.id)
            self._board.lower_wake(post.gate.id, ON_RELEASE)

    def _end(self, turn: Turn) -> None:
        for stand in self._board.lane(turn.lane).stands:
            post = self._board.posts[stand.gate]
            if post.turn is not None and post.turn.seq == turn.seq:
                post.turn = None
                self._changed.add(stand.gate)
            self.ended_at.add(stand.gate)

    def _stands(self, turn: Turn) -> bool:
        board = self._board
        lane = board.lane(turn.lane)
        shut = [s for s in lane.stands if _gate(board, s).opens_at(s.own, turn.cost, board.now) > board.now]
        if shut:
            if turn.until is not None:
                self._set_until(turn, lane, None)
            return all(_worth_waiting(_gate(board, s), s, turn.cost, board.now) for s in shut)
        if turn.until is None:
            self._set_until(turn, lane, board.now + GRACE)
            return True
        if turn.until > board.now:
            return True
        waiting_rows.forgive(board.db, turn.seq)
        self._end(turn)
        return False

    def _set_until(self, turn: Turn, lane: Lane, until: int | None) -> None:
        renewed = turn._replace(until=until)
        for stand in lane.stands:
            post = self._board.posts[stand.gate]
            if post.turn is not None and post.turn.seq == turn.seq:
                post.turn = renewed
                self._changed.add(stand.gate)
                if until is not None:
                    self._board.lower_wake(stand.gate, until)


def _gate(board: "Board", stand: Stand) -> Gate:
    return board.posts[stand.gate].gate


def _worth_waiting(gate: Gate, stand: Stand, cost: int, now: int) -> bool:
    """Tell whether a shut gate is busy with attempts that will end, or has budget that will suffice."""
    numbers = gate.numbers(stand.own, now)
    if gate.rules is not None and gate.rules.shut_until > now:
        return False
    if numbers.slots == 0:
        return False
    if numbers.throttle is not None and gate.throttle_opens_at(numbers.throttle) > now:
        return False
    if numbers.rate is None:
        return True
    used = gate.starts.since(now - numbers.rate.period) if gate.starts else 0
    return cost <= numbers.rate.limit and used < numbers.rate.limit
