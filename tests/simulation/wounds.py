"""Faults that are put into the engine one at a time, to see that the simulation finds them.

A wound is what to read in the source of a function and what to put in its place.
"""

import importlib
import inspect
import textwrap
from collections.abc import Iterator, Mapping
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
        "engine.admission.starting:Starting._remember",
        ("post.gate.start(begin_by if", "post.gate.start(self._board.now if"),
    ),
    "a start too early by what it is reported": (
        "engine.leases:correct",
        ("starts.add(began + GUARD, cost)", "starts.add(began - GUARD, cost)"),
    ),
    "a relay whose jobs take no slots": (
        "engine.admission.starting:Starting.admit_after",
        ("post.gate.start(0, job.cost)", "pass"),
    ),
    "a relay while others wait for hands": (
        "engine.admission.relays:hand_on",
        ("claiming.is_short or", ""),
    ),
    "a relay at a gate of several lanes": (
        "engine.admission.relays:_alone",
        ("if not found or not board.db.gated:", "if True:"),
    ),
    "a relay at a gate of several slots": (
        "engine.admission.relays:_has_one_slot",
        ("post.gate.running == 1 and", ""),
    ),
    "a relay that begins with the last": (
        "engine.admission.relays:hand_on",
        ("_followers(leader, line, spans)", "_followers(leader, line[::-1], spans)"),
    ),
    "a relay with jobs that lost their worker": (
        "engine.admission.relays:must_be_alone",
        ("job.lost > 0 or", ""),
    ),
    "a relay in a share": (
        "engine.claim_batch:ClaimBatch._take",
        ("self._asked.order is Order.PRIORITY and", ""),
    ),
    "a relay of jobs whose lost attempts count": (
        "engine.admission.relays:must_be_alone",
        ("or policy_from_json(job.retry).lost_counts", ""),
    ),
    "a job that stands by though one without limits waits": (
        "engine.admission.claiming:Claiming.first_lanes",
        ("self._snapshot.with_free or", ""),
    ),
    "a job that stands by at a gate of several slots": (
        "engine.admission.standby:_may",
        ("lane.stands[0].own.slots == 1 and", ""),
    ),
    "a job that stands by though it lost its worker": (
        "engine.admission.relays:must_be_alone",
        ("job.lost > 0 or", ""),
    ),
    "a job that stands by though its lost attempts count": (
        "engine.admission.relays:must_be_alone",
        ("or policy_from_json(job.retry).lost_counts", ""),
    ),
    "jobs that stand by after one that must not": (
        "engine.admission.standby:stand_by",
        (
            "must_be_alone(first) or not claiming.start_next()",
            "not must_be_alone(first) and not claiming.start_next()",
        ),
    ),
    "more that stand by than were asked for": (
        "engine.admission.claiming:Claiming.first_lanes",
        (" or len(found) >= most", ""),
    ),
    "a release forgotten on cancel": (
        "engine.settle:Settling._stop",
        ("if not attempt.gates:", "if not attempt.gates or attempt.cancel:"),
    ),
    "a release that rings nothing": (
        "engine.settle:Settling._save",
        ("self.board.ring(self._rung, released=True)", "pass"),
    ),
    "a change of rules that rings nothing": ("engine.gates:change", ("board.ring([gate])", "pass")),
    "an override whose end wakes nothing": (
        "limits.gate:Rules.next_change",
        ("(self.override_until, self.shut_until)", "(self.shut_until,)"),
    ),
    "promotion skipped for the second queue": (
        "engine.admission.board:Board.ring",
        ("self.dormant_firsts(crowded)", "self.dormant_firsts(crowded)[:1]"),
    ),
    "no call after a move": (
        "engine.admission.board:Board.park",
        ("if left is not None and left != line:\n        self.call", "if False:\n        self.call"),
    ),
    "no call after a start": (
        "engine.admission.claiming:Claiming._start",
        ("    if left is not None:\n        board.call", "    if False:\n        board.call"),
    ),
    "no call after a cancel": (
        "engine.removal:leave_line",
        ("    if left is not None:", "    if False:"),
        ("place(board, lane, Budget(1_000))", "lane.ready = 0"),
    ),
    "a queue's own bars taken for separators": (
        "engine.admission.rows:line_of",
        ('lane.queue.replace("|", "\\x1f")', "lane.queue"),
    ),
    "one line for all numbers": ("engine.admission.rows:line_of", ("{stand.own.text}{apart}", "{apart}")),
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
        "engine.settle:Settling._lose",
        ("attempt, None, attempt.ord, attempt.attempt, times", "attempt, None, None, attempt.attempt, times"),
    ),
    "a fence with a hole": (
        "engine.settle:Settling.settle",
        (
            "taken(self.board.db, settlements)",
            (
                "attempt_rows.take(self.board.db,"
                " {a[:2] for a in attempt_rows.locked(self.board.db, [s.seq for s in settlements])})"
            ),
        ),
        ("attempt.fence != s.fence", "False"),
    ),
    "a refresh lent to two workers": (
        "engine.floating:lend",
        ("board.now + wanted.lease)", "board.now)"),
    ),
    "an old refresh that counts": ("engine.floating:_has", ("row.fence == fence and", "")),
    "a value refreshed and forgotten": (
        "engine.floating:_take",
        ("_set_value(board, row.gate, nearest(value, row.least, row.most))", "pass"),
    ),
    "an idle key that is refreshed": ("store.floating:due", (" AND {_LENDABLE} ORDER", " ORDER")),
    "a key that comes into use again and rests": ("engine.floating:wake", ("if found:", "if False:")),
    "a job that comes when its key is due and is forgotten": (
        "store.floating:wake",
        ("CASE WHEN next_at <= ? THEN 1 ELSE asked END", "CASE WHEN next_at <= ? THEN asked ELSE asked END"),
    ),
    "a renewed refresh lent to another": (
        "engine.floating:FloatingVerbs.renew_refreshes",
        ("_renew(board, *each, board.now + lease, tenant)", "True"),
    ),
    "a job's own number ignored beside a floating one": (
        "limits.gate:Rules.effective",
        ("if slots is None or own.floats else min(slots, self.floating)", "if True else 0"),
    ),
    "a floating limit's default taken for a maximum": (
        "limits.gate:Rules.effective",
        ("if slots is None or own.floats else", "if slots is None else"),
    ),
    "turns that are never given": ("engine.admission.turns:Turns.refused", (">= REFUSALS", ">= 10**9")),
    "a job with a smaller number that is never called": (
        "engine.admission.turns:Turns.is_passed_over",
        ("if not self._enabled", "if True"),
    ),
    "a turn that leaves no room for a smaller number": (
        "engine.admission.turns:Turns.is_hindered",
        ("return turn is not None and", "return False and"),
    ),
    "a turn that ends where the clock shuts its gate": (
        "engine.admission.turns:Turns._is_in_the_way",
        (
            "not self._stands(turn) and post.gate.id not in self._shut_by_clock(turn)",
            "not self._stands(turn)",
        ),
    ),
    "a turn that keeps nothing": (
        "engine.admission.turns:_goes_before",
        ("if turn.seq == lane.head or turn", "if True or turn"),
    ),
    "a crash that commits half": (
        "store.sqlite.writer:Writer._leave_to_others",
        ('self._connection.execute("ROLLBACK")', 'self._connection.execute("COMMIT")'),
    ),
    "leases that do not move with the clock": (
        "store.clock:move_anchor",
        ("SET lease = lease + ? WHERE queue", "SET lease = lease + 0 * ? WHERE queue"),
    ),
    "starts that do not move with the clock": (
        "store.clock:move_anchor",
        ("[at + by for at in starts.times]", "[at for at in starts.times]"),
    ),
    "begins that do not move with the clock": (
        "store.clock:move_anchor",
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
                "    from penstock.store import lanes\n"
                "    found = self.board.db.all(\"SELECT id FROM lane WHERE gates LIKE '%drop%'\")\n"
                "    for lane in self.board.adopt(lanes.load(self.board.db, [id_ for (id_,) in found])):\n"
                "        placement.place(self.board, lane, placement.Budget(9))"
            ),
        ),
    ),
    "a prediction that adds rate and throttle": (
        "engine.why:start_behind",
        (
            "due - throttle.lead(cost)])",
            "due - throttle.lead(cost)]) + (ahead * throttle.gap if rate and throttle else 0)",
        ),
    ),
    "a replaced job that stays": (
        "engine.uniqueness:take_place",
        ("remove(board, old, State.CANCELLED, _reason(new.id))", "True"),
    ),
    "a latest call that goes to the back": (
        "engine.uniqueness:take_place",
        ("new.arrival.ord if found.ord is None else found.ord", "new.arrival.ord"),
        ("found.lane is not None and placed.due", "found.lane is not None and 0 and placed.due"),
    ),
    "a latest call that does not wait for the end": (
        "engine.uniqueness:take_place",
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
        "engine.uniqueness:take_place",
        ('table == "running" or found.attempt', "False"),
    ),
    "a schedule that overlaps": (
        "engine.schedules:_without_overlap",
        ("schedule.overlap is Overlap.SKIP:", "False:"),
    ),
    "a why that forgets the queue": (
        "engine.why:_outside",
        ('{("queue", "", view.queue), ("queue", view.tenant, view.queue), ', "{"),
    ),
    "a why that forgets the type": ("engine.why:_outside", (', ("type", "", view.task)}', "}")),
    "a place that counts none ahead": (
        "engine.why:_why_in_lane",
        ("reasons, place = list(outside), in_lane", "reasons, place = list(outside), 0"),
        ("place = max(place, ahead)", "pass"),
    ),
    "a prediction that counts none ahead": (
        "engine.why:_at_gate",
        (
            "start_behind(gate_, numbers, ahead, cost, board.now)",
            "start_behind(gate_, numbers, 0, cost, board.now)",
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
        ("not self.forgets(t, w, now)", "t + self.span > now"),
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
        ('("progress", "expiry")', '("progress",)'),
    ),
    "a retry by hand that forgets attempts": (
        "store.jobs:revive",
        ('("progress", "expiry")', '("attempt", "progress", "expiry")'),
    ),
    "a claim by id past one of its gates": (
        "engine.claim_one:Picking.pick",
        ("self.board.test(candidate)", "self.board.test(candidate)[1:]"),
    ),
    "a claim by id past the gate of its queue": (
        "engine.claim_one:Picking._refusals_of_queue",
        ("if at > now:", "if False:"),
    ),
    "a claim by id that does not see that its type was limited": (
        "engine.claim_one:Picking._candidate",
        ("if type_gate is not None and", "if False and"),
    ),
    "an expedited job that forgets its attempts": (
        "engine.jobs:JobVerbs.expedite",
        ("(seq, None, *made)", "(seq, None, 0, 0)"),
    ),
    "a lost attempt that is kept twice": (
        "engine.settle:Settling._lose",
        ("times = attempt.lost + 1", "times = attempt.lost + 1; self._history *= 2"),
    ),
    "a lost attempt that leaves nothing": (
        "engine.settle:Settling._lose",
        ("self._note(attempt, Ending.LOST, None, error=error_text(lost))", "pass"),
    ),
    "an attempt that is kept though it never began": (
        "engine.settle:Settling._hand_back",
        ("if outcome.begun:", "if True:"),
        ("else:", "if not outcome.begun:"),
    ),
    "a lost worker that costs no attempt though it should": (
        "engine.settle:Settling._lose",
        ("if policy.lost_counts:", "if False:"),
    ),
    "an attempt that was told of too many and is not kept": (
        "engine.settle:Settling._one",
        ("self._note(attempt, Ending.LIMITED, began, reason)", "pass"),
    ),
    "a dropped job that expires too": ("engine.removal:remove", ("board.flush_lanes()", "pass")),
    "a job of a type limited since that goes to the back": (
        "engine.admission.free_jobs:FreeJobs._to_lane",
        (
            "rejoin(self._board, [(seq, ord_, attempt, lost)])",
            "rejoin(self._board, [(seq, None, attempt, lost)])",
        ),
    ),
    "a first newcomer that is not dropped": (
        "engine.admission.placement:join",
        ("if drops and judged:", "if False:"),
    ),
    "a parked job too heavy for its key that blocks its line": (
        "engine.admission.heavy:Heavy.is_too_heavy",
        ("if cost == 1 or lane.heavy:", "if True:"),
    ),
    "a job too heavy for its queue that blocks its lane": (
        "engine.admission.claiming:Claiming._consider_lane",
        ("if heavy_for is not None and", "if False and"),
    ),
    "a job set apart from its key that blocks its queue": (
        "engine.admission.claiming:Claiming._consider_lane",
        ("if heavy_for is not None and", "if not lane.heavy and heavy_for is not None and"),
    ),
    "a heavy start that a queue takes for a light one": (
        "engine.admission.free_jobs:FreeJobs.consider",
        ("if claiming.queues.is_open(queue, cost):", "if claiming.queues.is_open(queue, 1):"),
    ),
    "a turn for a job that started after it was refused": (
        "engine.admission.claiming:Claiming._first_refused",
        ("if lane.head == head and not lane.unread:", "if True:"),
    ),
    "a last lane that moved up and ends the reading": (
        "engine.admission.claiming:Claiming._read_on",
        ("if not tenant.heap or tenant", "if tenant.heap and tenant.heap[0][2] in self._in_heap and tenant"),
    ),
    "a rotation of tenants that begins again in each queue": (
        "engine.claim_batch:ClaimBatch._again",
        ("if self._board.lanes or self._rotates", "if False"),
    ),
    "a shared gate that does not count jobs at the door": (
        "engine.gates:_at_door",
        ("limit.owner(owner) == tenant", "owner == tenant"),
    ),
    "a rescheduled job that is shown as waiting": (
        "engine.jobs:views_of",
        ("if row.rescheduled:", "if row.rescheduled and row.cost > 10**9:"),
    ),
    "a job that stays scheduled though it is called": (
        "engine.jobs:views_of",
        (
            "if row.rescheduled:",
            "if row.rescheduled or (row.lane_attempt is not None and 'resch' in row.limits):",
        ),
    ),
    "a blocked job that is told of twice": (
        "engine.admission.blocked:Blocked._tell_refused",
        ("elif not told[head]:", "else:"),
        ("if not at]", "]"),
    ),
    "a refused job that is not told of": (
        "engine.admission.placement:set_aside",
        ("board.blocked.refused(lane)", "pass"),
    ),
    "a newcomer to a parked lane that is not told of": (
        "engine.admission.blocked:Blocked.joined",
        ("self._tell(seqs, self._board.events.refusal(self._board, lane, gate))", "pass"),
    ),
    "a start after waiting of which no release is told": (
        "engine.admission.blocked:Blocked.started",
        ("if job.seq in self._told:", "if False:"),
    ),
    "rescheduled jobs that count as waiting": (
        "store.views:count",
        ("if row and row[0]:", "if False:"),
    ),
    "a bucket that forgets what leaves the list": (
        "limits.gate:Starts.prune",
        ("self.bucket.fold(at, weight)", "pass"),
    ),
    "a bucket that later starts reach first": (
        "limits.gate:Starts.prune",
        (
            "kept = list(dropwhile(",
            "pairs.sort(key=lambda pair: not self.forgets(*pair, now)); kept = list(dropwhile(",
        ),
    ),
    "a bucket one larger than it is": (
        "limits.rules:Window.lead",
        ("(self.burst - min(cost, self.burst))", "(self.burst + (self.burst > 1) - min(cost, self.burst))"),
    ),
    "a bucket that is not written down": (
        "engine.admission.rows:memory_row",
        ("if starts.bucket is None else astuple(starts.bucket)", "if True else ()"),
    ),
    "a bucket that does not move with the clock": (
        "store.clock:move_anchor",
        ("folded_at = folded_at + ?, due = due + ?", "folded_at = folded_at + 0 * ?, due = due + 0 * ?"),
    ),
    "a bucket that takes heavy starts for light ones": (
        "limits.bucket:Bucket.fold",
        ("weight * self.gap", "self.gap"),
    ),
    "one cost at all gates": (
        "engine.admission.starting:Starting._remember",
        ("cost_at(n, lane.cost, lane.costs)", "lane.cost"),
    ),
    "a job tested by the costs of the one before it": (
        "engine.admission.lane:Lane.begin_with",
        ("self.cost, self.costs, self.task = job", "self.cost, _, self.task = job"),
    ),
    "a hand-back at the cost of another gate": (
        "engine.settle:Settling._hand_back",
        ("remove(attempt.begin_by, cost)", "remove(attempt.begin_by, attempt.cost)"),
    ),
    "an estimate that is lost with its worker": (
        "engine.settle:Settling.rescue",
        (
            "    self._stop(attempt)\n",
            (
                "    self._stop(attempt)\n"
                "        for gate, cost in attempt.weights():\n"
                "            post = self.board.posts[gate]\n"
                "            if post.gate.starts is not None and post.gate.starts.remove(attempt.begin_by, cost):\n"
                "                post.memory_changed = True\n"
            ),
        ),
    ),
    "what was used that calls no next job": (
        "engine.leases:spend",
        ("board.ring(changed)", "pass"),
    ),
    "what was used added to the estimate": (
        "limits.gate:Starts.weigh",
        ("found = self.remove(at, weight)", "found = True"),
    ),
    "what was used reported by a former attempt": (
        "engine.leases:spend",
        ("attempt is not None and attempt.fence == fence", "attempt is not None"),
        ("if attempt is None or attempt.fence != fence:", "if attempt is None:"),
    ),
    "what was used forgotten when the attempt ends": (
        "engine.settle:Settling.settle",
        ("if s.used:", "if False:"),
    ),
    "what was used and moved at the cost that was estimated": (
        "engine.leases:spend",
        ("attempt_rows.set_costs(board.db, seq, known[seq].costs)", "pass"),
    ),
    "a job that is told to be blocked where it starts": (
        "engine.admission.blocked:Blocked._tell_refused",
        ("if head not in self._told:", "if True:"),
    ),
    "a job that moves to a parked lane untold": (
        "engine.admission.placement:join",
        ("board.blocked.refused(lane)", "pass"),
    ),
    "a job that is told to be blocked after its end": (
        "engine.removal:leave_line",
        ("board.blocked.removed(seq)", "pass"),
    ),
    "a turn that stands whatever shuts its gates": (
        "engine.admission.turns:Turns._stands",
        ("return all(_worth_waiting(_gate(board, s), s, turn.cost_at(s), now) for s in shut)", "return True"),
    ),
    "one line for all parts of a queue": (
        "engine.admission.rows:line_of",
        ("if lane.part:", "if False:"),
    ),
    "a claim that forgets the parts it knows": (
        "engine.admission.claim_queues:ClaimQueues._open",
        ("for tenant, name, task in apart", "for tenant, name, task in ()"),
    ),
    "a claim that takes jobs without limits of tasks it does not know": (
        "engine.admission.known_tasks:KnownTasks.send_free_away",
        ("if not strange:", "if True:"),
    ),
    "a claim that takes jobs with limits of tasks it does not know": (
        "engine.admission.known_tasks:KnownTasks.send_away",
        ("if self._known.is_all or", "if True or"),
    ),
    "a part that is made and not noted": (
        "engine.admission.known_tasks:KnownTasks.note",
        ("part_rows.note(self._board.db, self._strangers, self._board.now)", "pass"),
    ),
    "jobs of other tasks that move along to a part": (
        "store.parts:change_lane",
        ("WHERE j.task = ?)", "WHERE j.task <> ?)"),
    ),
    "a lane called in a part that its claim does not see": (
        "engine.admission.claiming:Claiming._push_newly_ready",
        ("self.queues.of(lane)", "self.queues.by_place.get(lane.where)"),
        ("self.unseen = self.unseen or self._is_wanted(lane)", "pass"),
    ),
    "starts granted ahead that others do not see in time": (
        "engine.admission.ahead:GrantsAhead.close",
        ("starts.add(begin_by, cost)", "starts.add(at, cost)"),
    ),
    "a start granted before its gate opens": (
        "engine.admission.ahead:GrantsAhead._grant",
        ("claiming.start_later(lane, at)", "claiming.start_later(lane, at - 5_000)"),
    ),
    "a start granted too far ahead": (
        "engine.admission.ahead:GrantsAhead._moment",
        ("if at > self._last or", "if at > self._last + 1_000_000 or"),
    ),
    "a gate that is not woken after what was granted there": (
        "engine.admission.ahead:GrantsAhead.close",
        ("if gate in put_off:\n                board", "if False:\n                board"),
    ),
    "a claim ahead that forgets the lanes a turn kept back": (
        "engine.admission.ahead:GrantsAhead.close",
        ("board.ring_pending()", "pass"),
    ),
    "a heavy start that is remembered for longer though no throttle asks for it": (
        "limits.gate:Starts._seen_for",
        ("if self.paced:", "if True:"),
    ),
    "a start granted while a rule is about to change": (
        "engine.admission.ahead:GrantsAhead._moment",
        ("next_change(board.now) <= self._last", "next_change(board.now) <= 0"),
    ),
    "a begin that is not kept where its start is forgotten": (
        "engine.leases:_forgotten",
        ("return not cost or (", "return not cost or False and ("),
    ),
    "a turn that is not looked at again when the clock has opened its gate": (
        "engine.admission.turns:Turns._shut_by_clock",
        ("gate.refills_at(stand.own, board.now)", "gate.opens_at(stand.own, cost, board.now)"),
    ),
    "a turn that stands before a gate shut by the clock": (
        "engine.admission.turns:_worth_waiting",
        ("if numbers.throttle is not None and", "if False and"),
    ),
}


@contextmanager
def wounded(name: str, among: Mapping[str, tuple[Any, ...]] = WOUNDS) -> Iterator[None]:
    """Have the engine wounded for a while."""
    where, *texts = among[name]
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
