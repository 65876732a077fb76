"""Grant starts ahead: those that the clock will allow within some tens of milliseconds, each for its moment.

A transaction takes longer than the gap of a fast throttle, so starts that are claimed one by one come late.  A claim
that asks for it gets several: jobs that wait behind a gate for nothing but the clock are started now, and begin when
the gate opens.

While such a claim decides, the gates remember the starts of its caller when they are expected to begin.  The caller
keeps the distances between its own starts: if one begins late, those after it begin by as much later.  When the claim
is over the gates remember all of them as for any other claim: when they will have begun at the latest.
"""

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from penstock.engine.admission.board import Board
from penstock.engine.admission.lane import Lane, Line, Post, Shut, Stand
from penstock.job import Ahead
from penstock.limits.gate import ON_RELEASE
from penstock.limits.rules import UNLIMITED, OnLimit
from penstock.store import attempts as attempt_rows
from penstock.store import gates as gate_rows

if TYPE_CHECKING:
    from penstock.engine.admission.claiming import Claiming

GATES: Final = 32  # that open soon, looked at by one claim
LOOKS: Final = 64  # at the first lanes behind them, besides one for each start


class GrantsAhead:
    """What one claim grants ahead."""

    def __init__(self, board: Board, ahead: Ahead) -> None:
        self._board = board
        self._ahead = ahead
        self._last = board.now + ahead.within
        self._expected: list[tuple[Post, int, int, int]] = []  # gate, expected begin, latest begin, cost
        self.longest_grace = 0  # how late one of the starts that the caller holds may begin
        self._granted: set[int] = set()  # gates at which something starts later
        self._lines: set[Line] = set()  # those behind gates that open soon
        self._moved: set[int] = set()  # lanes that stand behind another gate now

    def open(self) -> None:
        """Have the gates remember the caller's starts when they are expected."""
        board, ahead = self._board, self._ahead
        spans = {(seq, fence): span for seq, fence, span in ahead.held}
        for attempt in attempt_rows.locked(board.db, [seq for seq, _ in spans]) if spans else ():
            span = spans.get((attempt.seq, attempt.fence))
            if span is None or not attempt.started <= attempt.started + span <= attempt.begin_by:
                continue
            if attempt.begin_by <= board.now:
                # The claim was long under way.  It has begun meanwhile, or never will: how late is not known here.
                continue
            self.longest_grace = max(self.longest_grace, attempt.begin_by - attempt.started - span)
            board.load_gates(attempt.gate_ids)
            for gate, cost in attempt.weights():
                starts = board.posts[gate].gate.starts
                if starts is not None and cost and starts.remove(attempt.begin_by, cost):
                    starts.add(attempt.started + span, cost)
                    self.expect(board.posts[gate], attempt.started + span, attempt.begin_by, cost)
        if self._expected:
            board.ring({post.gate.id for post, *_ in self._expected})

    def expect(self, post: Post, at: int, begin_by: int, cost: int) -> None:
        """Note a start that a gate remembers *at* the moment when it is expected."""
        if post.gate.starts is not None and cost:
            self._expected.append((post, at, begin_by, cost))

    def grant(self, claiming: "Claiming", most: int) -> bool:
        """Start up to *most* jobs that wait for nothing but the clock, in the order in which it lets them.

        Tell whether there was one.
        """
        most = min(len(claiming.admitted) + most, claiming.count)
        if len(claiming.admitted) < most:
            self._grant(claiming, most)
        return bool(self._granted)

    def _grant(self, claiming: "Claiming", most: int) -> None:
        board, looks = self._board, LOOKS + most - len(claiming.admitted)
        gates = set(gate_rows.wakes_until(board.db, self._last, GATES))
        gates.update(
            id_ for id_, post in board.posts.items() if post.wake is not None and post.wake <= self._last
        )
        lanes = self._firsts(gates)
        while lanes and looks and len(claiming.admitted) < most:
            looks -= 1
            found = [(at, lane.rank, lane) for lane in lanes if (at := self._moment(claiming, lane))]
            if found:
                at, _, lane = min(found, key=lambda each: each[:2])
                self._granted.update(stand.gate for stand in lane.stands)
                # Another lane of its line may be the first then.
                behind = [each for each in lanes if each.behind == lane.behind]
                alone = lane.behind is not None and board.posts[lane.behind].lanes == len(behind)
                claiming.start_later(lane, at)
                lanes = lanes if alone else self._firsts(gates)
            elif any(self._moved_on(lane) for lane in lanes):
                lanes = self._firsts(gates)
            else:
                return

    def _firsts(self, gates: Collection[int]) -> list[Lane]:
        lanes = self._board.adopt(self._board.dormant_firsts(sorted(gates))) if gates else []
        self._lines.update(lane.line for lane in lanes if lane.line is not None)
        return lanes

    def close(self) -> None:
        """Wake gates when they open after what was granted; remember every start by when it will have begun."""
        board = self._board
        # Lanes that waited for a turn that is over may start in the next claim, by what the caller expects too.
        board.ring_pending()
        # A start that is granted opens no gate, so no lane need be called; a gate not looked at may wake too early.
        if put_off := self._granted & {line.gate for line in self._lines}:
            gate_rows.forget_wakes(board.db, put_off)
            for gate in put_off:
                board.posts[gate].wake = None
                board.lower_wake(gate, ON_RELEASE)
            board.next_wake = ON_RELEASE
            for gate, own, _ in self._lines:
                if gate in put_off:
                    board.lower_wake(gate, board.posts[gate].gate.opens_at(own, 1, board.now))
        for post, at, begin_by, cost in self._expected:
            starts = post.gate.starts
            assert starts is not None  # noqa: S101 - `expect` looked
            starts.remove(at, cost)
            # If it was merged with others meanwhile it counts twice, which only makes a job wait.
            starts.add(begin_by, cost)
        if self._expected and board.turns.present:
            # The clock shuts these gates for longer now.  If it does for a job that has the turn, others need not wait
            # for that one elsewhere.  To its own claims the caller's starts are as expected, so they look no further.
            seen = len(board.newly_ready)
            board.ring({post.gate.id for post, *_ in self._expected})
            del board.newly_ready[seen:]

    def _moment(self, claiming: "Claiming", lane: Lane) -> int:
        """Return when the lane's first job may begin; 0 if that is not soon, or waits for more than the clock."""
        board = self._board
        queue = claiming.queues.of(lane)
        if queue is None or queue.shut or lane.ready or lane.head is None or lane.heavy:
            return 0
        passed = [(board.posts[s.gate], s.own, lane.cost_at(s)) for s in lane.stands]
        passed += [(post, UNLIMITED, lane.cost) for post in queue.posts]
        moment = 0
        for post, own, cost in passed:
            at = post.gate.opens_at(own, cost, board.now)
            # A turn, a heavy start, a loan that waits or a resource is a matter for claims of the moment.
            if at > self._last or post.turn is not None or post.heavy or post.asking or post.group:
                return 0
            if post.gate.rules is not None and post.gate.rules.next_change(board.now) <= self._last:
                return 0
            moment = max(moment, at)
        return moment if moment > board.now and claiming.may_start(lane) else 0

    def _moved_on(self, lane: Lane) -> bool:
        """Move a lane whose first job could not start though its gate were open, so that it hides no other."""
        if lane.ready or lane.head is None or lane.id in self._moved:
            return False
        shut = [Shut(s, ON_RELEASE) for s in lane.stands if self._waits_for_release(s, lane)]
        if not shut or any(s.gate == lane.behind or s.on_limit is OnLimit.DROP for s, _ in shut):
            return False
        self._moved.add(lane.id)
        self._board.park(lane, shut)
        return True

    def _waits_for_release(self, stand: Stand, lane: Lane) -> bool:
        return self._board.opens_at(stand, lane) == ON_RELEASE
