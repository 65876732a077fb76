"""Record how attempts ended, give back what they held, and call the next in line.

Invariant: an attempt is settled once.  A report with another fence is refused.
"""

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from penstock.clock import MILLISECOND
from penstock.engine.admission.arrivals import rejoin
from penstock.engine.admission.board import Board
from penstock.engine.admission.to_follow import JobEnd
from penstock.engine.gates import keys, shut_until
from penstock.engine.history import record
from penstock.engine.leases import began_at, correct, spent
from penstock.engine.transactions import Transactions
from penstock.engine.wording import (
    between_attempts,
    error_text,
    in_short,
    not_carried,
    rate_limited,
    storable,
    too_long,
)
from penstock.job import Sequel, Settled, Settlement, Topic
from penstock.lifecycle.outcomes import (
    Again,
    Cancelled,
    Conducted,
    Done,
    Ending,
    Failed,
    HandedBack,
    Limited,
)
from penstock.lifecycle.retry import Exhausted, RetryPolicy, delay_before, policy_from_json, verdict
from penstock.lifecycle.states import State
from penstock.store import attempts as attempt_rows
from penstock.store import jobs as job_rows
from penstock.store import leases as lease_rows
from penstock.store import successors as successor_rows
from penstock.store import uniqueness as unique_rows
from penstock.store import waiting as waiting_rows
from penstock.store import workflows as workflow_rows
from penstock.store.attempts import AttemptRow
from penstock.store.history import EndedAttempt
from penstock.store.jobs import DoneRow, EndedRow
from penstock.store.session import Locks, Session
from penstock.store.successors import Successor

LEAST_PAUSE: Final = 100 * MILLISECOND  # after "too many", whatever moment was named
MAX_LOST: Final = 5  # a job that loses so many workers is likely what kills them


class SettleVerbs(Transactions):
    def settle(self, settlements: Sequence[Settlement]) -> list[Settled]:
        """Record how attempts ended; False for one whose lease was lost, so that its outcome does not count."""
        if not settlements:
            return []
        return self._write_freely(
            lambda board: Settling(board).settle(settlements), Locks.NONE, first=lambda db: taken(db, settlements)
        )  # fmt: skip

    def settled_at(self, settlements: Sequence[Settlement]) -> list[int | None]:
        """Record how attempts ended; return when each did, None for one whose lease was lost."""
        if not settlements:
            return []
        return self._write_freely(
            lambda board: settled_at(board, settlements), Locks.NONE, first=lambda db: taken(db, settlements)
        )  # fmt: skip


class Settling:
    """What becomes of the attempts of one transaction."""

    def __init__(self, board: Board) -> None:
        self.board = board
        self._ended: list[EndedRow] = []
        self._done: list[DoneRow] = []
        self._history: list[EndedAttempt] = []
        self._put_off: list[tuple[int, int, int, int, str | None]] = []
        self._arriving: list[tuple[int, int | None, int, int]] = []
        self._rung: set[int] = set()
        self._successors: dict[int, Successor] = {}  # by the job that ends

    def settle(self, settlements: Sequence[Settlement]) -> list[Settled]:
        """Settle attempts; answer for each whether its fence was good, and what follows if it failed."""
        running = {attempt.seq: attempt for attempt in taken(self.board.db, settlements)}
        self._meet_workflows(running.values())
        self._meet_successors(running.values())
        gates = {gate for attempt in running.values() if attempt.gates for gate in attempt.gate_ids}
        self.board.will_ring(gates)
        self.board.load_gates(gates)
        accepted: list[Settled] = []
        for s in settlements:
            attempt = running.get(s.seq)
            if attempt is None or attempt.fence != s.fence:
                accepted.append(False)
                continue
            del running[s.seq]
            if s.used:
                # The gates are rung when its slots are given back.
                attempt, _ = spent(self.board, attempt, s.used)
            if s.heed_cancel and attempt.cancel:
                accepted.append(False)
                began = self._stop(attempt, s.began_after)
                self._note(attempt, Ending.CANCELLED, began, "cancelled while it ran")
                self._end(attempt, State.CANCELLED, "cancelled while it ran")
                continue
            accepted.append(self._one(attempt, s) or True)
        self._save()
        self.board.follow()
        return accepted

    def finish(self, ends: Mapping[int, JobEnd], reasons: Mapping[int, str]) -> None:
        """End instances that are running, which gives back their slots."""
        taken = attempt_rows.take_all(self.board.db, list(ends))
        self.board.load_gates(gate for attempt in taken if attempt.gates for gate in attempt.gate_ids)
        for attempt in taken:
            end = ends[attempt.seq]
            self._stop(attempt)
            self._end(attempt, end.state, reasons.get(attempt.seq, ""), result=end.result, error=end.error)
        self._save()

    def rescue(self, attempts: Sequence[AttemptRow]) -> None:
        """Settle attempts whose lease ran out: their jobs keep their place, but not if they took too long."""
        self._meet_workflows(attempts)
        self._meet_successors(attempts)
        self.board.load_gates(gate for attempt in attempts for gate in attempt.gate_ids)
        attempt_rows.stop(self.board.db, [attempt.seq for attempt in attempts])
        deadlines = lease_rows.deadlines(self.board.db, [attempt.seq for attempt in attempts])
        policies = job_rows.policies(self.board.db, [attempt.seq for attempt in attempts])
        for attempt in attempts:
            self._stop(attempt)
            deadline = deadlines.get((attempt.seq, attempt.fence))
            # If the lease ended before the deadline its worker was lost, however late that is seen.
            if deadline is not None and attempt.lease >= deadline:
                self._fail(attempt, too_long(deadline - attempt.started), None)
            else:
                self._lose(attempt, policy_from_json(policies[attempt.seq]))
        self._save()

    def _lose(self, attempt: AttemptRow, policy: RetryPolicy) -> None:
        """Settle an attempt whose worker was lost: it is made once more, unless it counts or there were too many."""
        lost = Failed("LeaseLost", f"attempt {attempt.attempt}: its worker was not heard from")
        if policy.lost_counts:
            self._tell_rescued(attempt, again=False)
            self._fail(attempt, lost, None, Ending.LOST)
            return
        self._note(attempt, Ending.LOST, None, error=error_text(lost))
        times = attempt.lost + 1
        attempt = attempt._replace(lost=times)
        returns = not attempt.cancel and times <= MAX_LOST and attempt.seq not in self._successors
        self._tell_rescued(attempt, again=returns)
        if attempt.cancel:
            self._end(attempt, State.CANCELLED, "cancelled; its worker was lost")
        elif times > MAX_LOST:
            told = f"lost its worker {times} times; it may be what kills them"
            self._end(
                attempt, State.FAILED, "its workers were lost", error=error_text(Failed("LeaseLost", told))
            )
        else:
            self._wait(attempt, None, attempt.ord, attempt.attempt, times)

    def _tell_rescued(self, attempt: AttemptRow, *, again: bool) -> None:
        self.board.events.tell("job.rescued", job=attempt.seq, attempt=attempt.attempt, again=again)

    def _meet_workflows(self, attempts: Iterable[AttemptRow]) -> None:
        if any(attempt.workflow is not None or attempt.instance is not None for attempt in attempts):
            # Also for jobs that do not end now: a cancel of their workflow must not miss one between two places.
            self.board.db.need_gates()

    def _meet_successors(self, attempts: Iterable[AttemptRow]) -> None:
        """Load the successors: the jobs that wait for the end of these attempts."""
        followed = [attempt.seq for attempt in attempts if attempt.has_successor]
        if followed:
            taken = successor_rows.take(self.board.db, followed)
            self._successors = {successor.earlier: successor for successor in taken}

    def _one(self, attempt: AttemptRow, s: Settlement) -> Sequel | None:
        outcome = s.outcome
        if isinstance(outcome, Done):
            began = self._stop(attempt, s.began_after)
            self._end(attempt, State.DONE, "", result=outcome.result, began=began)
            return None
        if isinstance(outcome, Conducted):
            began = self._stop(attempt, s.began_after)
            self._end(attempt, State.DONE, "", began=began)
            if attempt.instance is not None:
                self.board.to_follow.ended[attempt.seq] = JobEnd(
                    State.DONE, commands=outcome.commands, seen=outcome.seen
                )
            return None
        if isinstance(outcome, HandedBack):
            self._hand_back(attempt, outcome, s.began_after)
            return None
        began = self._stop(attempt, s.began_after)
        match outcome:
            case Cancelled(reason):
                self._note(attempt, Ending.CANCELLED, began, reason)
                self._end(attempt, State.CANCELLED, reason or "given up by its handler")
            case Limited(until, key, reason):
                # A moment in the past, as by another machine's clock, would let it come back at once, for ever.
                until = max(until, self.board.now + LEAST_PAUSE)
                if shut_until(self.board, attempt.gate_ids, until, key, reason):
                    self._note(attempt, Ending.LIMITED, began, reason)
                    self._return_to_line(attempt)
                else:
                    self._limit_alone(attempt, outcome, until, began)
            case Failed():
                return self._fail(attempt, outcome, began)
            case Again():
                return self._fail(attempt, outcome, began, Ending.AGAIN)
        return None

    def _limit_alone(self, attempt: AttemptRow, outcome: Limited, until: int, began: int | None) -> None:
        """Put off a job that was told "too many" and has no gate to shut."""
        reason, error = outcome.reason, None
        if outcome.key is not None:
            # A mistake of the handler.  The job waits all the same, and uses up no attempt.
            known = keys(self.board, attempt.gate_ids)
            reason = f"{not_carried(outcome.key, known)}; {reason}".removesuffix("; ")
            error = error_text(Failed("InvalidError", reason))
        self._note(attempt, Ending.LIMITED, began, outcome.reason, error)
        self._return_to_line(attempt, until, rate_limited(reason))

    def _note(
        self,
        attempt: AttemptRow,
        outcome: Ending,
        began: int | None,
        reason: str = "",
        error: str | None = None,
    ) -> None:
        """Keep what became of an attempt that did not end done."""
        self._history.append(
            EndedAttempt(
                attempt.seq, 0, attempt.attempt, outcome, attempt.started, began, self.board.now, attempt.worker,
                attempt.gates, attempt.behind, in_short(reason), error,
            )
        )  # fmt: skip

    def _hand_back(self, attempt: AttemptRow, outcome: HandedBack, began_after: int | None) -> None:
        began = self._stop(attempt, began_after if outcome.begun else None)
        if outcome.begun:
            self._note(attempt, Ending.HANDED_BACK, began, outcome.reason)
        else:
            if attempt.workflow is not None and attempt.attempt == 1:
                workflow_rows.not_begun(self.board.db, attempt.seq)
            for gate, cost in attempt.weights():
                post = self.board.posts[gate]
                if post.gate.starts is not None and post.gate.starts.remove(attempt.begin_by, cost):
                    post.memory_changed = True
            if attempt.counted is not None:
                self.board.groups.take_back(attempt)
        returns = not attempt.cancel and attempt.seq not in self._successors
        self.board.events.tell("job.handed_back", job=attempt.seq, again=returns)
        due = self.board.now + outcome.after if outcome.after else None
        self._return_to_line(attempt, due, in_short(outcome.reason) or "handed back by its worker")

    def _return_to_line(self, attempt: AttemptRow, due: int | None = None, reason: str = "") -> None:
        """Put a job back at its place, as if this attempt had not been; unless it was cancelled."""
        if attempt.cancel:
            self._end(attempt, State.CANCELLED, "cancelled")
        else:
            self._wait(attempt, due, attempt.ord, attempt.attempt - 1, attempt.lost, reason)

    def _wait(
        self, attempt: AttemptRow, due: int | None, ord_: int | None, made: int, lost: int, reason: str = ""
    ) -> None:
        """Let a job wait for its next attempt, at this place; or let its successor wait instead."""
        if attempt.instance is not None:
            self.board.to_follow.returned.append(attempt.seq)
        if attempt.seq in self._successors:
            successor = self._successors[attempt.seq]
            if ord_ is not None:
                self._successors[attempt.seq] = successor._replace(ord=ord_)
            self._end(attempt, State.CANCELLED, f"replaced by {successor.id}")
            unique_rows.forget(self.board.db, attempt.seq)
        elif due is not None and due > self.board.now:
            self._put_off.append((attempt.seq, due, made, lost, reason))
        else:
            self._arriving.append((attempt.seq, ord_, made, lost))

    def _fail(
        self,
        attempt: AttemptRow,
        outcome: Failed | Again,
        began: int | None,
        ending: Ending = Ending.FAILED,
    ) -> Sequel:
        if isinstance(outcome, Failed) and outcome.shut_until is not None:
            shut_until(self.board, attempt.gate_ids, outcome.shut_until, outcome.shut_key, outcome.message)
        if attempt.cancel:
            error = error_text(outcome)
            self._note(attempt, ending, began, error=error)
            self._end(attempt, State.CANCELLED, "cancelled", error=error)
            return Sequel(State.CANCELLED)
        policy = self._policy(attempt)
        after = self._after(policy, attempt, outcome)
        error = error_text(outcome, None if isinstance(after, Exhausted) else after)
        self._note(attempt, ending, began, error=error)
        if isinstance(after, Exhausted):
            spent = attempt.attempt - attempt.lost >= policy.attempts
            reason = "attempts used up" if spent else "an error that is not to be retried"
            state = State.FAILED if after is Exhausted.KEEP else State.DISCARDED
            self._end(attempt, state, reason, error=error)
            return Sequel(state, policy.attempts)
        reason = between_attempts(outcome, attempt.attempt - attempt.lost, policy.attempts)
        if attempt.seq in self._successors:
            sequel = Sequel(State.CANCELLED)
        else:
            sequel = Sequel(State.SCHEDULED, policy.attempts, after)
            self.board.events.tell(
                "job.retrying",
                job=attempt.seq,
                after=after,
                attempt=attempt.attempt,
                started=attempt.started,
                error=error,
            )
        self._wait(attempt, self.board.now + after, None, attempt.attempt, attempt.lost, reason)
        return sequel

    def _policy(self, attempt: AttemptRow) -> RetryPolicy:
        return policy_from_json(job_rows.policies(self.board.db, [attempt.seq])[attempt.seq])

    def _after(self, policy: RetryPolicy, attempt: AttemptRow, outcome: Failed | Again) -> int | Exhausted:
        failures = attempt.attempt - attempt.lost
        chance = random.random()  # noqa: S311 - spreads retries, keeps no secret
        if isinstance(outcome, Failed) and outcome.final:
            return policy.exhausted
        if isinstance(outcome, Failed):
            return verdict(policy, failures, (outcome.kind, *outcome.ancestry), chance)
        if failures >= policy.attempts:
            return policy.exhausted
        return delay_before(policy, failures, chance) if outcome.after is None else outcome.after

    def _stop(self, attempt: AttemptRow, began_after: int | None = None) -> int | None:
        """Give back the attempt's slots, and remember when it really began; return that, if it was told."""
        if not attempt.gates:
            return None
        began, gates = began_at(attempt, began_after, self.board.now), attempt.gate_ids
        for gate in gates:
            post = self.board.posts[gate]
            post.gate.release()
            if post.gate.rules is not None and not post.lanes:
                # Jobs of a queue, a type or a pool may wait for it without a lane behind the gate.
                self.board.db.tell(Topic.WORK)
        if began is not None:
            for gate, cost in attempt.weights():
                correct(self.board.posts[gate], attempt.begin_by, cost, began)
        self._rung.update(gates)
        return began

    def _end(
        self,
        attempt: AttemptRow,
        state: State,
        reason: str,
        *,
        result: str | None = None,
        error: str | None = None,
        began: int | None = None,
    ) -> None:
        now, reason = self.board.now, storable(reason)
        if state is State.DONE:
            self._done.append(
                (attempt.seq, now, attempt.started, attempt.attempt, result, attempt.lost, began, attempt.worker,
                 attempt.gates, attempt.behind)
            )  # fmt: skip
        else:
            self._ended.append(
                (
                    attempt.seq,
                    state.value,
                    now,
                    attempt.started,
                    attempt.attempt,
                    result,
                    error,
                    reason,
                    attempt.lost,
                )
            )
        if attempt.workflow is not None or attempt.instance is not None:
            self.board.to_follow.ended[attempt.seq] = JobEnd(state, result, error)
        if attempt.seq in self._successors:
            successor = self._successors.pop(attempt.seq)
            if successor.due > now:
                self._put_off.append((successor.seq, successor.due, 0, 0, None))
            else:
                self._arriving.append((successor.seq, successor.ord, 0, 0))
        if self.board.events.wanted:
            self.board.events.tell(
                f"job.{state.value}",
                job=attempt.seq,
                attempt=attempt.attempt,
                started=attempt.started,
                asked=bool(attempt.cancel),
                reason=reason,
                error=error,
            )

    def _save(self) -> None:
        db = self.board.db
        job_rows.finish(db, self._ended, self._done)
        record(db, self._history)
        if self._put_off:
            waiting_rows.put_off(db, self._put_off)
        self.board.ring(self._rung, released=True)
        rejoin(self.board, self._arriving)


def taken(db: Session, settlements: Sequence[Settlement]) -> list[AttemptRow]:
    """Take the attempts that settlements tell of, as far as they run."""
    return attempt_rows.take(db, {(s.seq, s.fence) for s in settlements})


def settled_at(board: Board, settlements: Sequence[Settlement]) -> list[int | None]:
    """Settle attempts; return when each ended, None for one whose lease was lost."""
    return [board.now if accepted else None for accepted in Settling(board).settle(settlements)]
