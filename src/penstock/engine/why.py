"""Why a job waits: the gates that are shut, its place in line, its earliest start."""

import heapq
from collections.abc import Collection
from dataclasses import replace
from typing import Final

from penstock.clock import SECOND
from penstock.engine.admission.board import Board
from penstock.engine.admission.lane import Stand
from penstock.engine.admission.rows import line_of
from penstock.engine.in_use import in_use
from penstock.engine.settings import maintenance
from penstock.engine.uniqueness import pause_of
from penstock.engine.wording import floating_value, scheduled, shut_rule, unasked
from penstock.job import INSTANCES, JobView, Reason, Why
from penstock.lifecycle.knowledge import part_of
from penstock.lifecycle.states import State
from penstock.limits.costs import cost_at
from penstock.limits.durations import format_duration
from penstock.limits.gate import ON_RELEASE, Gate
from penstock.limits.groups import Group
from penstock.limits.rules import UNLIMITED, Numbers, Window
from penstock.store import floating as floating_rows
from penstock.store import gates as gate_rows
from penstock.store import parts as part_rows
from penstock.store import queues as queue_rows
from penstock.store import successors as successor_rows
from penstock.store import uniqueness as unique_rows
from penstock.store import views as view_rows

FARTHEST: Final = 10_000  # places are counted up to here
UNASKED: Final = 60 * SECOND  # a task that no claim has asked for so long is told of


def why(board: Board, view: JobView, state: State) -> Why:
    """Say why a job waits, given how it is stored and its *state* now.

    A job that is due is stored as scheduled, and one that is rescheduled as waiting.
    """
    if (by_key := _by_its_key(board, view)) is not None:
        return by_key
    if view.state is State.SCHEDULED:
        return Why(view.id, state, (), None, view.due, scheduled(view, board.now))
    if view.state is not State.WAITING:
        words = f"is {view.state}" + (f": {view.reason}" if view.reason else "")
        return Why(view.id, view.state, (), None, None, words)
    stand = view_rows.standing(board.db, view.seq)
    if stand is None:
        reasons = _outside(board, view)
        place = view_rows.ahead_in_queue(board.db, view.queue, view.seq)
        words = _open(view)
        return Why(view.id, view.state, reasons, place, _latest(reasons, board.now), _words(words, reasons))
    return _why_in_lane(board, view, state, stand)


def _open(view: JobView) -> str:
    return (
        "is about to be admitted"
        if view.queue == INSTANCES
        else f"waits for a worker of queue {view.queue!r}"
    )


def _by_its_key(board: Board, view: JobView) -> Why | None:
    """Say why a job waits if it does so for its unique key: an earlier job runs, or calls still come."""
    if view.state not in (State.SCHEDULED, State.WAITING) or view.attempt:
        return None
    earlier = successor_rows.waits_for(board.db, view.seq) if view.state is State.WAITING else None
    pause = pause_of(board, view.seq) if earlier is not None or view.state is State.SCHEDULED else None
    parts = [] if earlier is None else [f"waits for job {earlier[0]} to end"]
    due = view.due if earlier is None else earlier[1] or None
    if pause is not None and due is not None and due > board.now:
        parts.append(_pause_in_words(board, view.seq, *pause))
    return Why(view.id, view.state, (), None, due, "; ".join(parts)) if parts else None


def _pause_in_words(board: Board, seq: int, quiet: int, max_wait: int | None) -> str:
    words = f"waits until no call has come for {format_duration(quiet)}"
    since = unique_rows.since(board.db, seq)
    if max_wait is None or since is None:
        return words
    left = -(-max(since + max_wait - board.now, 0) // SECOND) * SECOND
    most = format_duration(max_wait)
    return f"{words}, at the latest {format_duration(left)} from now: {most} after the first call"


def _why_in_lane(
    board: Board, view: JobView, state: State, place_: tuple[int, int, int, int, str | None]
) -> Why:
    lane_id, priority, ord_, cost, costs = place_
    lane = board.lane(lane_id)
    in_lane = view_rows.ahead_in_lane(board.db, lane_id, priority, ord_, FARTHEST)
    passed = {stand.gate for stand in lane.stands}
    outside = _outside(board, view, passed)
    reasons, place = list(outside), in_lane
    starts = [reason.opens_at for reason in outside]
    for stand in lane.stands:
        ahead = in_lane + sum(
            view_rows.ahead_in_line(board.db, line_of(each, stand).name, lane_id, priority, ord_, FARTHEST)
            for each in (replace(lane, part=part) for part in ("", part_of(view.task)))
        )
        reason, start = _at_gate(board, stand, ahead, cost_at(stand.place, cost, costs))
        if reason is not None:
            reasons.append(reason)
            starts.append(start)
            place = max(place, ahead)
    known = [at for at in starts if at is not None]
    earliest = None if None in starts else max([board.now, *known])
    words = f"is number {place + 1} in line" if reasons else _open(view)
    return Why(view.id, state, tuple(reasons), place, earliest, _words(words, reasons))


def _at_gate(board: Board, stand: Stand, ahead: int, cost: int) -> tuple[Reason | None, int | None]:
    """Return why one gate keeps a job with *ahead* others before it, and when it might let it through."""
    gate_ = board.posts[stand.gate].gate
    numbers = gate_.numbers(stand.own, board.now)
    opens = gate_.opens_at(stand.own, cost, board.now)
    start = start_behind(gate_, numbers, ahead, cost, board.now)
    if start is not None and opens != ON_RELEASE:
        start = max(start, opens)
    if opens <= board.now and (ahead == 0 or (start is not None and start <= board.now)):
        return None, None
    scope, _, name = gate_rows.name(board.db, stand.gate)
    opening = opens if board.now < opens < ON_RELEASE else None
    if not isinstance(gate_, Group):
        gate_ = replace(gate_, running=in_use(board.db, gate_, numbers))
    rule = shut_rule(gate_, numbers, cost, board.now) + _floating(board, gate_, numbers)
    return Reason(_title(scope, name), rule, opening), start


def _floating(board: Board, gate_: Gate, numbers: Numbers) -> str:
    """Say that the number of slots that keeps a job floats, and how old it is."""
    rules, now, slots = gate_.rules, board.now, numbers.slots
    if rules is None or slots is None or rules.floating != slots or gate_.running < slots:
        return ""
    decided = [each for each in (rules.configured, rules.live_override(now)) if each is not None]
    row = None if any(each.slots is not None for each in decided) else floating_rows.of(board.db, gate_.id)
    return "" if row is None else f"; {floating_value(slots, row.refreshed, row.failures, now)}"


def start_behind(gate_: Gate, numbers: Numbers, ahead: int, cost: int, now: int) -> int | None:
    """Return the earliest start behind *ahead* others as far as the clock alone decides it."""
    if isinstance(gate_, Group):
        # Those ahead may take other resources.
        opens = gate_.opens_at(UNLIMITED, cost, now)
        return None if opens == ON_RELEASE else max(opens, now)
    at = max(now, gate_.rules.shut_until if gate_.rules else now)
    rate, throttle = numbers.rate, numbers.throttle
    if numbers.slots is not None and gate_.running + ahead >= numbers.slots:
        return None
    if (rate is not None and rate.limit < cost) or (throttle is not None and not throttle.limit):
        return None
    due = now if throttle is None else gate_.throttle_due(throttle)
    openings = [] if rate is None else _openings(gate_, rate, ahead + 1, now)
    for _ in range(ahead):
        # Each of those ahead starts as soon as rate and throttle both let it, and counts for the next.
        at = max([at, *openings[:1]])
        if throttle is not None:
            at = max(at, due - throttle.lead(1))
            due = max(due, at) + throttle.gap
        if rate is not None:
            heapq.heapreplace(openings, at + rate.period)
    return max([at, *openings[:1], now if throttle is None else due - throttle.lead(cost)])


def _openings(gate_: Gate, rate: Window, most: int, now: int) -> list[int]:
    """Return, earliest first, when a rate lets the next *most* starts through, as far as it knows of them now."""
    starts = gate_.starts.since_pairs(now - rate.period) if gate_.starts else []
    used = sum(weight for _, weight in starts)
    openings = [now] * min(max(rate.limit - used, 0), most)
    beyond = max(used - rate.limit, 0)
    for at, weight in starts:
        openings += [at + rate.period] * min(max(weight - beyond, 0), most - len(openings))
        beyond = max(beyond - weight, 0)
    return openings


def _outside(board: Board, view: JobView, passed: Collection[int] = ()) -> tuple[Reason, ...]:
    """Say what keeps a job besides the gates that its lane *passed*: its queue, and a type limited since it came."""
    reasons = []
    if maintenance(board.db) is not None:
        reasons.append(Reason("maintenance", "nothing starts until it ends", None))
    if queue_rows.is_paused(board.db, (view.tenant, view.queue)):
        reasons.append(Reason(_title("queue", view.queue), "paused; opens when it is resumed", None))
    known_at = part_rows.known_at(board.db, view.queue, view.task)
    if known_at is not None and known_at <= board.now - UNASKED:
        reasons.append(Reason(f"task {view.task}", unasked(known_at), None))
    rules = {("queue", "", view.queue), ("queue", view.tenant, view.queue), ("type", "", view.task)}
    for scope, tenant, name in sorted(rules):
        found = gate_rows.find(board.db, scope, tenant, [name]).get(name)
        if found is None or found in passed:
            continue
        board.load_gates([found])
        gate_ = board.posts[found].gate
        at = gate_.opens_at(UNLIMITED, view.cost, board.now)
        if at > board.now:
            rule = shut_rule(gate_, gate_.numbers(UNLIMITED, board.now), view.cost, board.now)
            reasons.append(Reason(_title(scope, name), rule, None if at == ON_RELEASE else at))
    return tuple(reasons)


def _title(scope: str, name: str) -> str:
    return {"queue": f"queue {name}", "tenant": "tenant", "group": f"group {name}"}.get(scope, name)


def _latest(reasons: tuple[Reason, ...], now: int) -> int | None:
    known = [r.opens_at for r in reasons if r.opens_at is not None]
    return None if len(known) < len(reasons) else max([now, *known])


def _words(words: str, reasons: "list[Reason] | tuple[Reason, ...]") -> str:
    return words + "".join(f"; {reason.gate}: {reason.rule}" for reason in reasons)
