"""Attempts that run: renew their leases, report when they began, how far they are and what they used."""

from collections.abc import Mapping, Sequence
from typing import Final

from penstock.clock import MILLISECOND
from penstock.engine.admission.board import Board
from penstock.engine.admission.lane import Post
from penstock.engine.transactions import Transactions
from penstock.engine.wording import not_carried
from penstock.errors import InvalidError
from penstock.job import LEASE, Beat, Renewal, Running, Spending
from penstock.lifecycle.checks import MAX_NUMBER, check_whole
from penstock.store import attempts as attempt_rows
from penstock.store import gates as gate_rows
from penstock.store import leases as lease_rows
from penstock.store.attempts import AttemptRow
from penstock.store.session import Locks

GUARD: Final = MILLISECOND // 10  # between a worker's last look at the clock and its handler's first line
LOOSE: Final = 100 * MILLISECOND  # how far a worker may estimate the store's time too late


class LeaseVerbs(Transactions):
    def begun(self, reports: Sequence[tuple[int, int, int]]) -> None:
        """Report how long after its claim each handler began, as (seq, fence, span), so that windows open on time."""
        if reports:
            self._write(lambda board: begun(board, reports), keep=False)

    def spend(self, reports: Sequence[Spending]) -> list[bool]:
        """Report what running attempts used, as (seq, fence, what was used by key); False for one whose lease was lost.

        It takes the place of what was estimated, or reported before.  Less gives budget back at once; more may fill a
        window beyond its limit, and nothing else starts until it fits again.
        """
        for _, _, used in reports:
            check_used(used)
        return self._write(lambda board: spend(board, reports)) if reports else []

    def heartbeat(self, attempts: Sequence[tuple[int, int]], *, lease: int = LEASE) -> list[Beat]:
        """Renew the leases of attempts; tell which are lost and which should stop."""
        return self.heartbeats([Renewal(seq, fence, lease) for seq, fence in attempts])

    def heartbeats(self, renewals: Sequence[Renewal]) -> list[Beat]:
        """Renew leases for several workers in one transaction."""
        if not renewals:
            return []
        return self._write(lambda board: renew(board, renewals), Locks.NONE, keep=self.far)

    def progress(self, seq: int, fence: int, value: str) -> bool:
        """Store the progress of a running attempt, as JSON; False if its lease was lost."""
        return self._write(
            lambda board: lease_rows.progress(board.db, seq, fence, value, board.now), Locks.NONE, keep=False
        )

    def attempts(self, ids: Sequence[str], tenant: str | None = None) -> list[Running]:
        """Return the attempts that run now of the jobs of a tenant, or of all, that have these ids."""
        return self.store.read(lambda db: lease_rows.running(db, ids, tenant)) if ids else []


def renew(board: Board, renewals: Sequence[Renewal]) -> list[Beat]:
    """Lengthen the leases of attempts; tell of each whether it still stands and whether it should stop.

    A job's own lease counts in place of the one named.  None goes beyond the attempt's deadline.
    """
    known = {held.seq: held for held in lease_rows.locked(board.db, sorted({each.seq for each in renewals}))}
    beats, renewed = [], []
    for asked in renewals:
        seq, held = asked.seq, known.get(asked.seq)
        if (
            held is None
            or held.fence != asked.fence
            or (held.deadline is not None and held.deadline <= board.now)
        ):
            beats.append(Beat(seq, alive=False))
            continue
        if asked.worker is not None and asked.worker != held.worker:
            beats.append(Beat(seq, alive=False, holder=held.worker))
            continue
        beats.append(Beat(seq, alive=True, cancel_asked=bool(held.cancel), cancel_at=held.cancel))
        until = board.now + (held.own or asked.lease)
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
            g for g, cost in attempt.weights() if correct(board.posts[g], attempt.begin_by, cost, at)
        ]
        # Where it is not remembered any more, what it used and reports later counts from the true moment too.
        if corrected or any(_forgotten(board, attempt, gate, cost) for gate, cost in attempt.weights()):
            attempt_rows.set_begin_by(board.db, attempt.seq, at + GUARD)
            changed.update(corrected)
    board.ring(changed)


def _forgotten(board: Board, attempt: AttemptRow, gate: int, cost: int) -> bool:
    starts = board.posts[gate].gate.starts
    return not cost or (starts is not None and starts.forgets(attempt.begin_by, cost, board.now))


def spend(board: Board, reports: Sequence[Spending]) -> list[bool]:
    """Have starts weigh what their attempts used, given (seq, fence, what it used by key); False for a lost lease."""
    known = {
        attempt.seq: attempt for attempt in attempt_rows.locked(board.db, [seq for seq, _, _ in reports])
    }
    answers, changed = [], set()
    for seq, fence, used in reports:
        attempt = known.get(seq)
        answers.append(attempt is not None and attempt.fence == fence)
        if attempt is None or attempt.fence != fence:
            continue
        keys = list(gate_rows.keys(board.db, attempt.gate_ids).values())
        for key in used.keys() - set(keys):
            raise InvalidError("used", not_carried(key, sorted(keys), "nothing was settled"))
        if attempt.gates:
            known[seq], gates = spent(board, attempt, used)
            changed |= gates
            attempt_rows.set_costs(board.db, seq, known[seq].costs)
    board.ring(changed)
    return answers


def spent(board: Board, attempt: AttemptRow, used: Mapping[str, int]) -> tuple[AttemptRow, set[int]]:
    """Have the start of an attempt weigh what it *used* of each key in place of what was estimated.

    Returns the attempt as it is then, and the gates that changed, which the caller must ring.
    """
    keys, changed, costs = gate_rows.keys(board.db, attempt.gate_ids), set(), []
    board.load_gates(attempt.gate_ids)
    for gate, cost in attempt.weights():
        amount = used.get(keys.get(gate, ""), cost)
        costs.append(str(amount))
        post = board.posts[gate]
        starts = post.gate.starts
        if (
            starts is not None
            and attempt.begin_by
            and starts.weigh(attempt.begin_by, cost, amount, board.now)
        ):
            post.memory_changed = True
            changed.add(gate)
    board.events.tell("job.spent", job=attempt.seq, used=dict(used))
    return attempt._replace(costs=",".join(costs) or None), changed


def check_used(used: Mapping[str, int]) -> None:
    """Raise unless an attempt can have used that much."""
    for key, amount in used.items():
        check_whole(f"used.{key}", amount, 0, MAX_NUMBER)


def correct(post: Post, begin_by: int, cost: int, began: int) -> bool:
    """Move a start in a gate's memory from the latest moment it could begin to when it did."""
    starts = post.gate.starts
    if starts is None or not begin_by or not cost or began + GUARD == begin_by:
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
