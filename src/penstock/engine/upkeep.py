"""What the clock brings: gates that open, leases that ran out, jobs that are due or expired, old rows.

`bring_up_to_date` runs before each claim, in this order: wakes come first, or jobs would be judged
against lines that should have been called already.
"""

from functools import partial
from typing import Final

from penstock.engine import audit, uniqueness
from penstock.engine.admission.arrivals import PART_LASTS, rejoin
from penstock.engine.admission.board import Board
from penstock.engine.admission.rows import stands_from_text
from penstock.engine.gates import forget_past
from penstock.engine.removal import remove_all
from penstock.engine.schedules import fire
from penstock.engine.settle import Settling
from penstock.engine.transactions import Transactions
from penstock.engine.workers import forget_silent
from penstock.lifecycle.states import State
from penstock.store import attempts as attempt_rows
from penstock.store import gates as gate_rows
from penstock.store import instances as instance_rows
from penstock.store import jobs as job_rows
from penstock.store import lanes as lane_rows
from penstock.store import lending as lending_rows
from penstock.store import parts as part_rows
from penstock.store import prune as prune_rows
from penstock.store import queues as queue_rows
from penstock.store import successors as successor_rows
from penstock.store import waiting as waiting_rows
from penstock.store import workflows as workflow_rows
from penstock.store.session import Locks

BATCH: Final = 500  # rows of each kind in one transaction, so that it stays short
EXPIRED: Final = "not started before its time to live ran out"


class UpkeepVerbs(Transactions):
    def upkeep(self) -> dict[str, int]:
        """Rescue, expire, wake and sweep what is due, a bounded amount; claims do the first three too."""

        def work(board: Board) -> dict[str, int]:
            board.now += self._time.follow(board.db)
            board.to_follow.unadmitted = instance_rows.is_any_ready(board.db)
            board.to_follow.fired += instance_rows.due_timers(board.db, board.now, BATCH)
            return bring_up_to_date(board)

        done = self._write(work, keep=False)
        self._swept, swept = self._write(lambda board: _sweep(board, self._swept), keep=False)
        if self._read(lambda board: part_rows.are_unused(board.db, board.now - PART_LASTS)):
            # No claim moves a job to a part meanwhile.
            self._write(
                lambda board: part_rows.forget_unused(board.db, board.now - PART_LASTS),
                Locks.RULES,
                keep=False,
            )
        return done | swept

    def prune(self, older_than: int, most: int | None = None) -> int:
        """Delete jobs that ended before then, in small batches; return how many."""
        total, number = 0, 0
        while True:
            # Workers, which ask for a number of jobs, prune by themselves.
            by_hand = most is None
            step, number = self._write(partial(_pruned, older_than, number, by_hand=by_hand), Locks.NONE)
            total += step
            if step < BATCH or (most is not None and total >= most):
                return total

    def reset(self) -> None:
        """Delete everything: for tests."""
        self._write(lambda board: prune_rows.everything(board.db), Locks.RULES)
        self._gated = self._swept = 0


def bring_up_to_date(board: Board) -> dict[str, int]:
    """Do what is due; each count that equals BATCH means that there is more."""
    done = {"woken": 0, "gone": 0, "rescued": 0, "due": 0, "fired": 0, "let_in": 0, "expired": 0}
    woken = gate_rows.due_wakes(board.db, board.now, BATCH)
    if woken:
        done["woken"] = len(woken)
        board.ring(woken, woken=True)
        forget_past(board, woken)
    gone = lending_rows.overdue(board.db, board.now, BATCH)
    if gone:
        done["gone"] = len(gone)
        board.db.need_gates()
        board.ring(set().union(*(board.loans.forget(holder) for holder in gone)), released=True)
    overdue = attempt_rows.overdue(board.db, board.now, BATCH)
    if overdue:
        done["rescued"] = len(overdue)
        Settling(board).rescue(overdue)
    due = waiting_rows.due(board.db, board.now, BATCH)
    if due:
        done["due"] = len(due)
        rejoin(board, [(seq, None, attempt, lost) for seq, attempt, lost in due])
    done["fired"] = fire(board, BATCH)
    let_in = waiting_rows.at_door(board.db, BATCH) if board.db.gated else []
    if let_in:
        done["let_in"] = len(let_in)
        uniqueness.let_in(board, let_in)
    expired = job_rows.expired(board.db, board.now, BATCH)
    if expired:
        done["expired"] = len(expired)
        remove_all(board, expired, State.EXPIRED, EXPIRED)
        job_rows.forget_expiry(board.db, expired)
    board.follow()
    return done


def _sweep(board: Board, after: int) -> tuple[int, dict[str, int]]:
    """Delete empty lanes and unused gates; return the gate after which to go on, and counts."""
    successor_rows.to_door(board.db)
    rows = lane_rows.empty(board.db, BATCH)
    stands = [(lane, stand) for lane, gates in rows for stand in stands_from_text(gates)[0]]
    own = {stand.gate: stand.own.text for _, stand in stands}  # of the newest lane
    gate_rows.keep_own(board.db, [(text, gate) for gate, text in own.items()])
    lane_rows.delete(board.db, [lane for lane, _ in rows], [(stand.gate, lane) for lane, stand in stands])
    last, gates = gate_rows.sweep(board.db, after, board.now, BATCH)
    if not last:
        audit.prune(board, BATCH)
        forget_silent(board)
        prune_rows.receipts(board.db, board.now)
        queue_rows.forget_served(board.db)
    return last, {"lanes": len(rows), "gates": gates}


def _pruned(before: int, number: int, board: Board, *, by_hand: bool) -> tuple[int, int]:
    """Delete a batch of jobs that ended before then; return how many, and the number of the audit's entry."""
    step = _prune(board, before, BATCH)
    if by_hand and step and number:
        audit.count(board, number, step)
    elif by_hand and step:
        number = audit.note(board, "jobs.prune", "jobs", "", after={"ended_before": before}, touched=step)
    return step, number


def _prune(board: Board, before: int, most: int) -> int:
    """Delete up to *most* jobs that ended before then, and all that is known of them."""
    workflow_rows.prune(board.db, before, most)
    return prune_rows.prune(board.db, before, board.now, most)
