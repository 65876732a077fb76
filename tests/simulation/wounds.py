"""Faults that are put into the engine one at a time, to see that the simulation finds them.

A wound is what to read in the source of a function and what to put in its place.
"""

import importlib
import inspect
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# By name: a `module:function` of penstock, and what to replace there, as (old, new).
WOUNDS: dict[str, tuple[Any, ...]] = {
    "one slot too many": (
        "limits.gate:Gate.opens_at",
        ("(1 if kept else 0) > numbers.slots", "(1 if kept else 0) > numbers.slots + 1"),
    ),
    "a window one microsecond short": (
        "limits.gate:Gate._rate_opens_at",
        ("now - rate.period)", "now - rate.period + 1)"),
    ),
    "gaps rounded down": (
        "limits.rules:Window.gap",
        ("-(-self.period // self.limit)", "self.period // self.limit"),
    ),
    "starts remembered at the claim": (
        "engine.claim:Claiming._admit",
        ("post.gate.start(begin_by, cost)", "post.gate.start(board.now, cost)"),
    ),
    "a start too early by what it is reported": (
        "engine.leases:correct",
        ("starts.add(began + GUARD, cost)", "starts.add(began - GUARD, cost)"),
    ),
    "a release forgotten on cancel": (
        "engine.settle:Settling._stop",
        ("if not attempt.gates:", "if not attempt.gates or attempt.cancel:"),
    ),
    "a release that rings nothing": (
        "engine.settle:Settling._save",
        ("self.board.ring(self._rung)", "pass"),
    ),
    "a change of rules that rings nothing": ("engine.gates:change", ("board.ring([gate])", "pass")),
    "an override whose end wakes nothing": (
        "limits.gate:Rules.next_change",
        ("(self.override_until, self.shut_until)", "(self.shut_until,)"),
    ),
    "promotion skipped for the second queue": (
        "engine.admission.board:Board.ring",
        ("dormant_firsts(self.db, crowded)", "dormant_firsts(self.db, crowded)[:1]"),
    ),
    "no call after a move": (
        "engine.admission.board:Board.park",
        ("if left is not None and left != line:\n        self.call", "if False:\n        self.call"),
    ),
    "no call after a start": (
        "engine.claim:Claiming._start",
        ("    if left is not None:\n        board.call", "    if False:\n        board.call"),
    ),
    "no call after a cancel": (
        "engine.removal:_leave_line",
        ("    if left is not None:", "    if False:"),
        ("place(board, lane, Budget(1_000))", "lane.ready = 0"),
    ),
    "one line for all numbers": (
        "engine.admission.lane:line_of",
        ("{stand.own.text}{apart}", "{apart}"),
    ),
    "a newcomer that barges": (
        "engine.admission.placement:join",
        ("(-priority, ord_) < lane.rank", "-priority <= -lane.priority"),
    ),
    "a higher newcomer that is not first": (
        "engine.admission.placement:join",
        ("(-priority, ord_) < lane.rank", "False"),
    ),
    "a retry that keeps its place": (
        "engine.settle:Settling._fail",
        (
            "self.board.now + after, None, attempt.attempt",
            "self.board.now + after, attempt.ord, attempt.attempt",
        ),
    ),
    "a rescue that loses its place": (
        "engine.settle:Settling.rescue",
        ("attempt, None, attempt.ord, attempt.attempt, lost", "attempt, None, None, attempt.attempt, lost"),
    ),
    "a fence with a hole": (
        "engine.settle:Settling.settle",
        (
            "{(s.seq, s.fence) for s in settlements}",
            "{a[:2] for a in attempt_rows.locked(self.board.db, [s.seq for s in settlements])}",
        ),
        ("attempt.fence != s.fence", "False"),
    ),
    "a refresh lent to two workers": (
        "engine.floating:refreshes",
        ("board.now + lease)", "board.now)"),
    ),
    "an old refresh that counts": (
        "engine.floating:refreshed",
        ("row.fence != refresh.fence", "False"),
    ),
    "a value refreshed and forgotten": (
        "engine.floating:refreshed",
        ("_set_value(board, refresh.gate, value)", "pass"),
    ),
    "turns that are never given": (
        "engine.admission.turns:Turns.refused",
        (">= REFUSALS", ">= 10**9"),
    ),
    "a turn that keeps nothing": (
        "engine.admission.turns:Turns.kept",
        ("return turn.cost if", "return 0 if"),
    ),
    "a crash that commits half": (
        "store.sqlite.writer:Writer._leave_to_others",
        ('self._connection.execute("ROLLBACK")', 'self._connection.execute("COMMIT")'),
    ),
    "leases that do not move with the clock": (
        "store.anchor:move",
        ("SET lease = lease + ?, started", "SET lease = lease + 0 * ?, started"),
    ),
    "starts that do not move with the clock": (
        "store.anchor:move",
        ("[at + by for at in starts.times]", "[at for at in starts.times]"),
    ),
    "begins that do not move with the clock": (
        "store.anchor:move",
        ("started = started + ?", "started = started + 0 * ?"),
    ),
    "a turn for a job whose type is limited since it came": (
        "engine.admission.turns:Turns._give",
        ("if type_gate is not None and", "if False and"),
    ),
    "a turn that outlives the pause of its holder's type": (
        "engine.gates:configure",
        ("board.turns.end_of_type(name, gate)", "pass"),
    ),
    "an end that drops the next of its lane": (
        "engine.settle:Settling._end",
        (
            "now, reason = self.board.now, storable(reason)",
            (
                "now, reason = self.board.now, storable(reason)\n"
                "    from penstock.engine.admission import placement\n"
                "    rows = self.board.db.all(\"SELECT * FROM lane WHERE gates LIKE '%drop%'\")\n"
                "    for lane in self.board.adopt(rows):\n"
                "        placement.place(self.board, lane, placement.Budget(9))"
            ),
        ),
    ),
    "a prediction that adds rate and throttle": (
        "engine.views.why:_start_behind",
        (
            "return max([at, *openings[:1]])",
            "return max([at, *openings[:1]]) + (ahead * throttle.gap if rate and throttle else 0)",
        ),
    ),
    "a replaced job that stays": (
        "engine.replacing:take_place",
        ("remove(board, old, State.CANCELLED, _reason(new.id))", "True"),
    ),
    "a latest call that goes to the back": (
        "engine.replacing:take_place",
        ("new.arrival.ord if found.ord is None else found.ord", "new.arrival.ord"),
        ("found.lane is not None and placed.due", "found.lane is not None and 0 and placed.due"),
    ),
    "a latest call that does not wait for the end": (
        "engine.replacing:take_place",
        (
            "if _wait_for(board, old, new, placed.due):\n                return placed",
            "return by_itself(new)",
        ),
    ),
    "a latest call that is forgotten at the end": (
        "engine.settle:Settling._end",
        ("if attempt.seq in self._successors:", "if False:"),
    ),
    "a retry beside the latest call": (
        "engine.settle:Settling._wait",
        ("if attempt.seq in self._successors:", "if False:"),
    ),
    "a latest call that a rescue puts last": (
        "engine.settle:Settling._wait",
        ("if ord_ is not None:", "if False:"),
    ),
    "a pause without an end": (
        "lifecycle.unique:pause_ends",
        ("min(called + quiet, since + max_wait)", "called + quiet"),
    ),
    "a pause that no call lengthens": (
        "lifecycle.unique:pause_ends",
        ("min(called + quiet, since + max_wait)", "min(since + quiet, since + max_wait)"),
    ),
    "a pause that counts calls that were served": (
        "engine.replacing:take_place",
        ('table == "running" or attempt', "False"),
    ),
    "a schedule that overlaps": (
        "engine.schedules:_without_overlap",
        ("schedule.overlap is Overlap.SKIP:", "False:"),
    ),
    "a why that forgets the queue": (
        "engine.views.why:_outside",
        ('{("queue", "", view.queue), ("queue", view.tenant, view.queue), ', "{"),
    ),
    "a why that forgets the type": (
        "engine.views.why:_outside",
        (', ("type", "", view.task)}', "}"),
    ),
    "a place that counts none ahead": (
        "engine.views.why:_why_in_lane",
        ("reasons, place = list(outside), in_lane", "reasons, place = list(outside), 0"),
        ("place = max(place, ahead)", "pass"),
    ),
    "a prediction that counts none ahead": (
        "engine.views.why:_at_gate",
        (
            "_start_behind(gate_, numbers, ahead, cost, board.now)",
            "_start_behind(gate_, numbers, 0, cost, board.now)",
        ),
    ),
    "an expiry that is not seen": (
        "engine.upkeep:bring_up_to_date",
        ("remove_all(board, expired, State.EXPIRED, EXPIRED)", "pass"),
    ),
    "starts of one moment taken for a heavy one": (
        "limits.gate:Starts.add",
        (
            "index = bisect_right(self.times, at)",
            "weight += self.since(at - 1) if at in self.times else 0\n    index = bisect_right(self.times, at)",
        ),
    ),
    "a heavy start forgotten after one gap": (
        "limits.gate:Starts.prune",
        ("t + self.span * w > now", "t + self.span > now"),
    ),
    "a begin forgotten when the attempt is handed back": (
        "engine.settle:Settling._hand_back",
        ("began_after if outcome.begun else None", "None"),
    ),
    "a cancel forgotten when the attempt is handed back": (
        "engine.settle:Settling._return_to_line",
        ("if attempt.cancel:", "if False:"),
    ),
    "a retry by hand that keeps its time to live": (
        "store.jobs:revive",
        ('("failure", "progress", "expiry")', '("failure", "progress")'),
    ),
    "a dropped job that expires too": (
        "engine.removal:remove",
        ("board.flush_lanes()", "pass"),
    ),
    "a job of a type limited since that goes to the back": (
        "engine.claim:Claiming._leave_free",
        (
            "rejoin(self.board, [(seq, ord_, attempt, lost)])",
            "rejoin(self.board, [(seq, None, attempt, lost)])",
        ),
    ),
    "a first newcomer that is not dropped": (
        "engine.admission.placement:join",
        ("if any(stand.on_limit is OnLimit.DROP for stand in lane.stands):", "if False:"),
    ),
    "a parked job too heavy for its key that blocks its line": (
        "engine.admission.board:Board._too_heavy",
        ("if lane.cost == 1 or lane.heavy:", "if True:"),
    ),
    "a job too heavy for its queue that blocks its lane": (
        "engine.claim:Claiming._consider_lane",
        ("if heavy_for is not None and", "if False and"),
    ),
    "a job set apart from its key that blocks its queue": (
        "engine.claim:Claiming._consider_lane",
        ("if heavy_for is not None and", "if not lane.heavy and heavy_for is not None and"),
    ),
    "a heavy start that a queue takes for a light one": (
        "engine.claim:Claiming._consider_free",
        ("if self._queue_open(queue, cost):", "if self._queue_open(queue, 1):"),
    ),
    "a turn that stands before a gate shut by the clock": (
        "engine.admission.turns:_worth_waiting",
        ("if numbers.throttle is not None and", "if False and"),
    ),
}


@contextmanager
def wounded(name: str) -> Iterator[None]:
    """Have the engine wounded for a while."""
    where, *texts = WOUNDS[name]
    function = _find(where)
    whole, source = function.__code__, textwrap.dedent(inspect.getsource(function))
    source = source.replace("@property\n", "")
    for old, new in texts:
        assert source.count(old) == 1, f"{name}: {old!r} is not in {where} once"
        source = source.replace(old, new)
    made: dict[str, Any] = {}
    exec(compile(source, where, "exec"), function.__globals__, made)  # our own words
    function.__code__ = made[function.__name__].__code__
    try:
        yield
    finally:
        function.__code__ = whole


def _find(where: str) -> Any:
    module, _, path = where.partition(":")
    found: Any = importlib.import_module(f"penstock.{module}")
    for part in path.split("."):
        found = inspect.getattr_static(found, part) if isinstance(found, type) else getattr(found, part)
    return found.fget if isinstance(found, property) else found
