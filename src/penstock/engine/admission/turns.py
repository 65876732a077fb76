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
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.clock import SECOND
from penstock.engine.admission.lane import Lane, Post, Stand
from penstock.limits.costs import cost_at
from penstock.limits.gate import ON_RELEASE, Gate
from penstock.limits.groups import Group
from penstock.store import gates as gate_rows
from penstock.store import waiting as waiting_rows

if TYPE_CHECKING:
    from penstock.engine.admission.board import Board

REFUSALS: Final = 4  # after so many a job has the turn
GRACE: Final = SECOND  # a turn whose gates are all open lapses after this: perhaps no worker serves its queue


class Turn(NamedTuple):
    """Whose turn it is at a gate.  *until* is when it lapses, once all the holder's gates are open."""

    seq: int
    lane: int
    priority: int
    ord: int
    cost: int
    until: int | None
    costs: str | None

    @property
    def rank(self) -> tuple[int, int]:
        return (-self.priority, self.ord)

    def cost_at(self, stand: Stand) -> int:
        """Return what the holder's start weighs at one of its gates."""
        return cost_at(stand.place, self.cost, self.costs)


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
        if turn is None or not _goes_before(turn, lane):
            return 0
        return self._weight(turn, post) if self._stands(turn) else 0

    def is_hindered(self, post: Post, stand: Stand, lane: Lane) -> bool:
        """Tell whether a start of this lane's first job would keep the holder of the turn from the gate."""
        turn, cost = post.turn, lane.cost_at(stand)
        return turn is not None and _goes_before(turn, lane) and self._is_in_the_way(post, turn, cost)

    def kept_from_loans(self, post: Post) -> int:
        """Return the cost of the start kept at a gate against waiting calls, which count as jobs of priority 0."""
        turn = post.turn
        kept = turn is not None and turn.priority >= 0 and self._stands(turn)
        return self._weight(turn, post) if turn is not None and kept else 0

    def hinders_loans(self, post: Post, slots: int) -> bool:
        """Tell whether lending so many slots would keep the holder of the turn from the gate."""
        turn = post.turn
        return turn is not None and turn.priority >= 0 and self._is_in_the_way(post, turn, 1, slots)

    def is_passed_over(self, stand: Stand, lane: Lane) -> bool:
        """Tell whether jobs with larger numbers start at a gate, so that it never opens for this lane's first job."""
        if not self._enabled or self.has_turn(lane):
            return False
        return _gate(self._board, stand).outdone(stand.own, self._board.now)

    def demand(self, lane: Lane) -> None:
        """Give the lane's first job the turn though it was not refused often: a lower priority would pass it."""
        if self._enabled and lane.head is not None and not self.has_turn(lane):
            self._give(lane)

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
            if not lane.passes(gate):
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
        if self._board.groups.present:
            gates = self._board.groups.with_groups(set(gates))
            self._board.load_gates(gates)
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
            waits = lane.behind == gate and not lane.ready and lane.head == turn.seq
            if waits and self._board.opens_at(lane.stand_at(gate), lane) <= self._board.now:
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
        if type_gate is not None and not lane.passes(type_gate):
            self.without_type[lane.id] = type_gate
            return
        for turn in others:
            self._end(turn)
        self.present = True
        given = Turn(lane.head, lane.id, lane.priority, lane.ord, lane.cost, None, lane.costs)
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
        now = board.now
        shut = [s for s in lane.stands if _gate(board, s).opens_at(s.own, turn.cost_at(s), now) > now]
        if shut:
            if turn.until is not None:
                self._set_until(turn, lane, None)
            return all(_worth_waiting(_gate(board, s), s, turn.cost_at(s), now) for s in shut)
        if turn.until is None:
            self._set_until(turn, lane, board.now + GRACE)
            return True
        if turn.until > board.now:
            return True
        waiting_rows.forgive(board.db, turn.seq)
        self._end(turn)
        return False

    def _weight(self, turn: Turn, post: Post) -> int:
        """Return what the start of a turn's holder weighs at one of its gates."""
        return turn.cost if turn.costs is None else turn.cost_at(self._stand(turn, post))

    def _stand(self, turn: Turn, post: Post) -> Stand:
        return self._board.lane(turn.lane).stand_at(post.gate.id)

    def _is_in_the_way(self, post: Post, turn: Turn, cost: int, slots: int = 1) -> bool:
        """Tell whether a start of *cost* would leave no room for the holder, whose numbers may be smaller.

        While the clock shuts a gate for the holder alone, nothing is kept elsewhere, but every start there would
        shut it for longer.
        """
        if not self._stands(turn) and post.gate.id not in self._shut_by_clock(turn):
            return False
        stand = self._stand(turn, post)
        return not post.gate.leaves_room(stand.own, turn.cost_at(stand), cost, self._board.now, slots)

    def _shut_by_clock(self, turn: Turn) -> set[int]:
        """Return the gates that nothing but past starts shuts for the holder; none if rules shut another one.

        They are looked at again when waiting there makes sense again: then the turn keeps all its gates, or lapses.
        """
        board = self._board
        found: dict[int, int] = {}
        for stand in board.lane(turn.lane).stands:
            gate, cost = _gate(board, stand), turn.cost_at(stand)
            if gate.opens_at(stand.own, cost, board.now) <= board.now:
                continue
            # No job brings a group smaller numbers than others do.
            if isinstance(gate, Group) or _is_closed(gate, stand, cost, board.now):
                return set()
            if not _worth_waiting(gate, stand, cost, board.now):
                found[stand.gate] = gate.refills_at(stand.own, board.now)
        for gate_id, at in found.items():
            board.lower_wake(gate_id, at)
        return set(found)

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


def _goes_before(turn: Turn, lane: Lane) -> bool:
    """Tell whether the holder of a turn comes before a lane's first job."""
    if turn.seq == lane.head or turn.priority < lane.priority:
        return False
    # A lane-mate in front of the holder (one that was rescued) would wait for it, and it for that one.
    return turn.lane != lane.id or lane.rank >= turn.rank


def _is_closed(gate: Gate, stand: Stand, cost: int, now: int) -> bool:
    """Tell whether rules shut a gate: neither the end of an attempt nor the age of a start opens it."""
    numbers = gate.numbers(stand.own, now)
    shut = gate.rules is not None and gate.rules.shut_until > now
    paused = numbers.slots == 0 or (numbers.throttle is not None and not numbers.throttle.limit)
    return shut or paused or (numbers.rate is not None and numbers.rate.limit < cost)


def _worth_waiting(gate: Gate, stand: Stand, cost: int, now: int) -> bool:
    """Tell whether a shut gate is busy with attempts that will end, or has budget that will suffice."""
    if isinstance(gate, Group):
        today = [member.gate for member in gate.members if member.has_day(now)]
        return any(_worth_waiting(each, stand, cost, now) for each in today)
    if _is_closed(gate, stand, cost, now):
        return False
    numbers = gate.numbers(stand.own, now)
    if numbers.throttle is not None and gate.throttle_opens_at(numbers.throttle, 1) > now:
        return False
    if numbers.rate is None:
        return True
    used = gate.starts.since(now - numbers.rate.period) if gate.starts else 0
    return used < numbers.rate.limit
