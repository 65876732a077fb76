"""Views of jobs and gates, and why a job waits.  Changes nothing."""

import heapq
import json
from collections.abc import Collection
from dataclasses import replace
from typing import Any, Final

from penstock.engine.board import Board
from penstock.engine.lane import Stand, line_of, stands_from_text
from penstock.engine.sameness import by_its_key
from penstock.engine.wording import scheduled, shut_rule
from penstock.errors import NotFoundError
from penstock.job import Failure, GateView, JobView, Reason, Why
from penstock.lifecycle.retry import policy_from_json
from penstock.lifecycle.states import State
from penstock.limits.gate import ON_RELEASE, Gate
from penstock.limits.rules import UNLIMITED, Numbers, OnLimit, Window, numbers_from_text
from penstock.limits.spec import limits_from_json
from penstock.store import gates as gate_rows
from penstock.store import lending as lending_rows
from penstock.store import queues as queue_rows
from penstock.store import views
from penstock.store.session import Row, Session

FARTHEST: Final = 10_000  # places are counted up to here


def job(board: Board, id_: str) -> JobView:
    """Return one job; one that is rescheduled by a limit shows the predicted opening as its due time."""
    view = _job(board, id_)
    if view.state is State.WAITING and any(limit.on_limit is OnLimit.RESCHEDULE for limit in view.limits):
        opens = why(board, id_).earliest
        return replace(view, due=opens if opens is not None and opens > board.now else None)
    return view


def failures(db: Session, id_: str) -> list[Failure]:
    """Return the failed attempts of a job."""
    rows = views.failures(db, _row(db, id_)[0])
    return [_failure(attempt, at, json.loads(error)) for attempt, at, error in rows]


def _failure(attempt: int, at: int, error: dict[str, Any]) -> Failure:
    kind, message, traceback, details = (
        error.get(n, "") for n in ("kind", "message", "traceback", "details")
    )
    return Failure(attempt, at, kind, message, traceback, details, error.get("delay"))


def _job(board: Board, id_: str) -> JobView:
    return job_view(_row(board.db, id_), board.now)


def _row(db: Session, id_: str) -> Row:
    row = views.job(db, id_)
    if row is None:
        raise NotFoundError("job", id_)
    return row


def job_view(row: Row, now: int) -> JobView:
    """Turn a row of `views.jobs` into a view; one whose moment has come waits, whoever lets it stand in line."""
    (seq, id_, tenant, queue, task, args, priority, cost, limits, retry, expires, meta, enqueued,
     due, s_attempt, w_attempt, l_attempt, r_attempt, r_started, worker, lease, cancel,
     state, finished, d_started, d_attempt, result, error, reason, progress, timeout,
     fence, own_lease, put_off, lost, workflow) = row  # fmt: skip
    due = None if due is not None and due <= now else due
    if state is None:
        state = (
            State.SCHEDULED if due is not None else State.RUNNING if r_attempt is not None else State.WAITING
        )
    attempts = (s_attempt, w_attempt, l_attempt, r_attempt, d_attempt)
    policy = policy_from_json(retry)
    return JobView(
        id=id_, seq=seq, task=task, queue=queue, tenant=tenant, state=State(state), priority=priority, cost=cost,
        attempt=next((a for a in attempts if a is not None), 0), max_attempts=policy.attempts,
        args=args, meta=meta, limits=limits_from_json(limits) if limits else (), enqueued=enqueued, due=due,
        started=r_started or d_started, finished=finished, worker=worker, lease=lease, result=result,
        error=json.loads(error) if error else None, reason=reason or put_off or "", progress=progress,
        cancel_asked=bool(cancel), expires=expires, cancel_at=cancel or None, timeout=timeout,
        retry=policy, own_lease=own_lease, fence=fence, lost=lost, workflow=workflow,
    )  # fmt: skip


def configured(board: Board, scope: str, name: str) -> Numbers | None:
    """Return the numbers that were set for a queue or a type."""
    gate_ = gate_rows.find(board.db, scope, "", [name]).get(name)
    if gate_ is None:
        return None
    board.load_gates([gate_])
    rules = board.posts[gate_].gate.rules
    return None if rules is None else rules.configured


def gate_view(board: Board, id_: int, key: str, tenant: str) -> GateView:
    """Return one gate by its id."""
    board.load_gates([id_])
    gate_ = board.posts[id_].gate
    own = _own_numbers(board.db, id_)
    numbers = gate_.numbers(own, board.now)
    rules = gate_.rules
    period = numbers.rate.period if numbers.rate else numbers.span
    opens = gate_.opens_at(own, 1, board.now)
    return GateView(
        key=key, tenant=tenant, running=gate_.running,
        recent=gate_.starts.since(board.now - period) if gate_.starts and period else 0,
        waiting=views.waiting(board.db, id_) + views.at_door(board.db, tenant, key) + board.posts[id_].asking,
        numbers=numbers, lent=lending_rows.lent(board.db, id_) if gate_.running else 0,
        configured=rules.configured if rules else None, floating=rules.floating if rules else None,
        override=rules.live_override(board.now) if rules else None,
        override_until=rules.override_until if rules and rules.live_override(board.now) else None,
        shut_until=rules.shut_until if rules and rules.shut_until > board.now else None,
        shut_reason=rules.shut_reason if rules and rules.shut_until > board.now else "",
        opens_at=None if opens == ON_RELEASE else max(opens, board.now),
        next_start=_next_start(gate_, numbers), window_resets_at=_window_resets_at(gate_, numbers.rate, board.now),
    )  # fmt: skip


def why(board: Board, id_: str) -> Why:
    """Say why a job waits: the gates that are shut, its place in line, its earliest start."""
    row = _row(board.db, id_)
    view = job_view(row, 0)  # as it is stored, so that one that is due tells what put it off
    if (kept := by_its_key(board, view)) is not None:
        return kept
    if view.state is State.SCHEDULED:
        state = job_view(row, board.now).state
        return Why(id_, state, (), None, view.due, scheduled(view, board.now))
    if view.state is not State.WAITING:
        words = f"is {view.state}" + (f": {view.reason}" if view.reason else "")
        return Why(id_, view.state, (), None, None, words)
    stand = views.standing(board.db, view.seq)
    if stand is None:
        reasons = _outside(board, view)
        place = views.ahead_in_queue(board.db, view.queue, view.seq)
        words = f"waits for a worker of queue {view.queue!r}"
        return Why(id_, view.state, reasons, place, _latest(reasons, board.now), _words(words, reasons))
    return _why_in_lane(board, view, stand)


def _why_in_lane(board: Board, view: JobView, row: Row) -> Why:
    lane_id, priority, ord_, cost = row
    lane = board.lane(lane_id)
    in_lane = views.ahead_in_lane(board.db, lane_id, priority, ord_, FARTHEST)
    passed = {stand.gate for stand in lane.stands}
    outside = _outside(board, view, passed)
    reasons, place = list(outside), in_lane
    starts = [reason.opens_at for reason in outside]
    for stand in lane.stands:
        ahead = in_lane + views.ahead_in_line(
            board.db, line_of(lane, stand), lane_id, priority, ord_, FARTHEST
        )
        reason, start = _at_gate(board, stand, ahead, cost)
        if reason is not None:
            reasons.append(reason)
            starts.append(start)
            place = max(place, ahead)
    known = [at for at in starts if at is not None]
    earliest = None if None in starts else max([board.now, *known])
    words = f"is number {place + 1} in line" if reasons else f"waits for a worker of queue {view.queue!r}"
    return Why(view.id, view.state, tuple(reasons), place, earliest, _words(words, reasons))


def _at_gate(board: Board, stand: Stand, ahead: int, cost: int) -> tuple[Reason | None, int | None]:
    """Return why one gate keeps a job with *ahead* others before it, and when it might let it through."""
    gate_ = board.posts[stand.gate].gate
    numbers = gate_.numbers(stand.own, board.now)
    opens = gate_.opens_at(stand.own, cost, board.now)
    start = _start_behind(gate_, numbers, ahead, cost, board.now)
    if start is not None and opens != ON_RELEASE:
        start = max(start, opens)
    if opens <= board.now and (ahead == 0 or (start is not None and start <= board.now)):
        return None, None
    scope, _, name = gate_rows.name(board.db, stand.gate)
    opening = opens if board.now < opens < ON_RELEASE else None
    return Reason(_title(scope, name), shut_rule(gate_, numbers, cost, board.now), opening), start


def _start_behind(gate_: Gate, numbers: Numbers, ahead: int, cost: int, now: int) -> int | None:
    """Return the earliest start behind *ahead* others as far as the clock alone decides it."""
    at = max(now, gate_.rules.shut_until if gate_.rules else now)
    rate, throttle = numbers.rate, numbers.throttle
    if numbers.slots is not None and gate_.running + ahead >= numbers.slots:
        return None
    if (rate is not None and rate.limit < cost) or (throttle is not None and not throttle.limit):
        return None
    if throttle is not None:
        at = max(at, gate_.throttle_opens_at(throttle))
    openings = [] if rate is None else _openings(gate_, rate, ahead + 1, now)
    for _ in range(ahead):
        # Each of those ahead starts as soon as rate and throttle both let it, and counts for the next.
        if rate is not None:
            at = max(at, openings[0])
            heapq.heapreplace(openings, at + rate.period)
        if throttle is not None:
            at += throttle.gap
    return max([at, *openings[:1]])


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
    """Say what keeps a job besides its lane's gates, the *passed*: its queue, and a type limited since it came."""
    reasons = []
    if queue_rows.is_paused(board.db, view.queue):
        reasons.append(Reason(_title("queue", view.queue), "paused; opens when it is resumed", None))
    for scope, name in (("queue", view.queue), ("type", view.task)):
        found = gate_rows.find(board.db, scope, "", [name]).get(name)
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
    return f"queue {name}" if scope == "queue" else name


def _latest(reasons: tuple[Reason, ...], now: int) -> int | None:
    known = [r.opens_at for r in reasons if r.opens_at is not None]
    return None if len(known) < len(reasons) else max([now, *known])


def _words(words: str, reasons: "list[Reason] | tuple[Reason, ...]") -> str:
    return words + "".join(f"; {reason.gate}: {reason.rule}" for reason in reasons)


def _own_numbers(db: Session, gate_id: int) -> Numbers:
    text = views.lane_gates(db, gate_id)
    if text is None:
        return numbers_from_text(views.own_numbers(db, gate_id) or "")
    return next((s.own for s in stands_from_text(text) if s.gate == gate_id), UNLIMITED)


def _window_resets_at(gate_: Gate, rate: Window | None, now: int) -> int | None:
    """Return when the oldest start that counts leaves the window; None if none counts."""
    counted = gate_.starts.since_pairs(now - rate.period) if gate_.starts and rate else []
    return counted[0][0] + rate.period if rate and counted else None


def _next_start(gate_: Gate, numbers: Numbers) -> int | None:
    if (
        numbers.throttle is None
        or not numbers.throttle.limit
        or gate_.starts is None
        or not gate_.starts.times
    ):
        return None
    return gate_.throttle_opens_at(numbers.throttle)
