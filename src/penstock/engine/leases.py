"""Attempts that run: renew their leases, report when they began and how far they are."""

from collections.abc import Sequence
from typing import Final

from penstock.clock import MILLISECOND
from penstock.engine.admission.board import Board
from penstock.engine.admission.lane import Post
from penstock.engine.transactions import Transactions
from penstock.job import LEASE, Beat, Running
from penstock.store import attempts as attempt_rows
from penstock.store import leases as lease_rows
from penstock.store.attempts import AttemptRow
from penstock.store.session import Locks

GUARD: Final = MILLISECOND  # between a worker's look at the clock and its handler's first line
LOOSE: Final = 100 * MILLISECOND  # how far a worker may estimate the store's time too late


class LeaseVerbs(Transactions):
    def begun(self, reports: Sequence[tuple[int, int, int]]) -> None:
        """Report how long after its claim each handler began, as (seq, fence, span), so that windows open on time."""
        if reports:
            self._write(lambda board: begun(board, reports), keep=False)

    def heartbeat(self, attempts: Sequence[tuple[int, int]], *, lease: int = LEASE) -> list[Beat]:
        """Renew the leases of attempts; tell which are lost and which should stop."""
        if not attempts:
            return []
        return self._write(
            lambda board: renew(board, attempts, lease),
            Locks.NONE,
            keep=self.far,
        )

    def progress(self, seq: int, fence: int, value: str) -> bool:
        """Store the progress of a running attempt, as JSON; False if its lease was lost."""
        return self._write(
            lambda board: lease_rows.progress(board.db, seq, fence, value, board.now),
            Locks.NONE,
            keep=False,
        )

    def attempts(self, ids: Sequence[str]) -> dict[str, Running]:
        """Return the attempts of these jobs that run now."""
        if not ids:
            return {}
        found = self.store.read(lambda db: lease_rows.running(db, ids))
        return {attempt.id: attempt for attempt in found}


def renew(board: Board, attempts: Sequence[tuple[int, int]], lease: int) -> list[Beat]:
    """Lengthen the leases of (seq, fence); tell of each whether it still stands and whether it should stop.

    A job's own lease counts in place of *lease*.  None goes beyond the attempt's deadline.
    """
    known = {held.seq: held for held in lease_rows.locked(board.db, [seq for seq, _ in attempts])}
    beats, renewed = [], []
    for seq, fence in attempts:
        held = known.get(seq)
        if held is None or held.fence != fence or (held.deadline is not None and held.deadline <= board.now):
            beats.append(Beat(seq, alive=False))
            continue
        beats.append(Beat(seq, alive=True, cancel_asked=bool(held.cancel)))
        until = board.now + (held.own or lease)
        renewed.append((until if held.deadline is None else min(until, held.deadline), seq))
    lease_rows.renew(board.db, renewed)
    return beats


def begun(board: Board, reports: Sequence[tuple[int, int, int]]) -> None:
    """Correct the gates' memory to when handlers really began, given (seq, fence, how long after the claim)."""
    spans = {(seq, fence): after for seq, fence, after in reports}
    changed: set[int] = set()
    for attempt in attempt_rows.locked(board.db, [seq for seq, _, _ in reports]):
        at = began_at(attempt, spans.get((attempt.seq, attempt.fence)), board.now)
        if at is None or not attempt.begin_by:
            continue
        board.load_gates(attempt.gate_ids)
        corrected = [
            g for g in attempt.gate_ids if correct(board.posts[g], attempt.begin_by, attempt.cost, at)
        ]
        if corrected:
            attempt_rows.set_begin_by(board.db, attempt.seq, at + GUARD)
            changed.update(corrected)
    board.ring(changed)


def correct(post: Post, begin_by: int, cost: int, began: int) -> bool:
    """Move a start in a gate's memory from the latest moment it could begin to when it did."""
    starts = post.gate.starts
    if starts is None or not begin_by or began + GUARD == begin_by:
        return False
    # A start that was merged or forgotten is left alone, unless it began later than it is remembered.
    if not starts.remove(begin_by, cost) and began + GUARD < begin_by:
        return False
    starts.add(began + GUARD, cost)
    post.memory_changed = True
    return True


def began_at(attempt: AttemptRow, after: int | None, now: int) -> int | None:
    """Return when a handler began, so long *after* its claim; None if that is unknown or impossible.

    `started` moves with the clock when that is set, so the answer is by the clock as it is now.
    """
    if after is None or after < 0 or attempt.started + after > now + LOOSE:
        return None
    return min(attempt.started + after, now)
