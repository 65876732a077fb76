"""When a job that is rescheduled is expected to start: predicted afresh at each look, and binding nothing.

What the clock alone decides (a rate, a throttle, the end of an override) is reckoned; when slots are given back is
estimated from how long attempts took lately.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from penstock.clock import SECOND
from penstock.engine.admission.board import Board
from penstock.engine.admission.lane import Lane, Stand
from penstock.engine.admission.rows import line_of
from penstock.engine.why import FARTHEST, start_behind
from penstock.limits.costs import cost_at
from penstock.limits.gate import ON_RELEASE, Gate
from penstock.store import gates as gate_rows
from penstock.store import views as view_rows

RECKONED: Final = 1_000  # places in line that are reckoned one by one; for those behind them the pace goes on
LEAST: Final = SECOND  # how long an attempt takes at least, as long as none has ended


class Expected:
    """When jobs are expected to start, as far as one look at the store can tell."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._pace: dict[int, tuple[list[int], int]] = {}

    def start(self, seq: int) -> int | None:
        """Return when a job that stands in line will start; None if nothing but a person lets it."""
        found = view_rows.standing(self._board.db, seq)
        if found is None:
            return None
        lane_id, priority, ord_, cost, costs = found
        lane = self._board.lane(lane_id)
        in_lane = view_rows.ahead_in_lane(self._board.db, lane_id, priority, ord_, FARTHEST)
        starts = [self._board.now]
        for stand in lane.stands:
            ahead = in_lane + self._elsewhere(lane, stand, priority, ord_)
            at = self.at(stand, ahead, cost_at(stand.place, cost, costs))
            if at is None:
                return None
            starts.append(at)
        return max(starts)

    def _elsewhere(self, lane: Lane, stand: Stand, priority: int, ord_: int) -> int:
        line = line_of(lane, stand).name
        return view_rows.ahead_in_line(self._board.db, line, lane.id, priority, ord_, FARTHEST)

    def at(self, stand: Stand, ahead: int, cost: int) -> int | None:
        """Return when one gate lets a job through that has *ahead* others before it."""
        board, rules = self._board, self._board.posts[stand.gate].gate.rules
        at = self._paced(stand, ahead, cost, board.now)
        change = ON_RELEASE if rules is None else rules.next_change(board.now)
        if change != ON_RELEASE and (at is None or at > change):
            # Other numbers are in force from then on.
            later = self._paced(stand, ahead, cost, change)
            at = at if later is None else max(later, change)
        return at

    def _paced(self, stand: Stand, ahead: int, cost: int, now: int) -> int | None:
        near = min(ahead, RECKONED)
        at = self._reckoned(stand, near, cost, now)
        if at is None or ahead == near:
            return at
        first = self._reckoned(stand, 0, cost, now)
        return at if first is None else at + (at - first) * (ahead - near) // near

    def _reckoned(self, stand: Stand, ahead: int, cost: int, now: int) -> int | None:
        gate = self._board.posts[stand.gate].gate
        numbers = gate.numbers(stand.own, now)
        by_clock = start_behind(gate, replace(numbers, slots=None), ahead, cost, now)
        if by_clock is None or numbers.slots is None or gate.running + ahead < numbers.slots:
            return by_clock
        if not numbers.slots:
            return None
        return max(by_clock, self._slot(gate, numbers.slots, ahead, now))

    def _slot(self, gate: Gate, slots: int, ahead: int, now: int) -> int:
        """Return when one of *slots* is expected to be free for a job with *ahead* others before it."""
        started, took = self._pace_at(gate)
        soon = self._board.now + took // 2  # for one that takes longer than others did
        ends = sorted(max(each + took, soon) for each in started)
        # Of more than there may be, the first to end free no slot.
        free = [now] * min(slots - gate.running, ahead + 1) + ends[max(gate.running - slots, 0) :]
        rounds, place = divmod(ahead, slots)
        return free[min(place, len(free) - 1)] + rounds * took

    def _pace_at(self, gate: Gate) -> tuple[list[int], int]:
        """Return when the attempts began that hold slots of a gate, and how long one takes."""
        found = self._pace.get(gate.id)
        if found is None:
            db, now = self._board.db, self._board.now
            started = view_rows.begun_at(db, gate.id)
            # Slots that are lent to calls of another process have no attempt.
            started += [now] * (gate.running - len(started))
            took = _mean(view_rows.durations(db, *gate_rows.name(db, gate.id)))
            if took is None:
                # Nothing has ended yet: take those that run for half done.
                took = max(2 * (now - min(started, default=now)), LEAST)
            found = self._pace[gate.id] = started, took
        return found


def _mean(spans: Sequence[int]) -> int | None:
    return sum(spans) // len(spans) if spans else None
