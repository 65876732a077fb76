"""Calls in other processes that wait at a gate to borrow slots.  They are no jobs.

At each gate they form one queue, first come, first served.  `Board.ring` serves it, after it has called the first jobs
in line: so a waiting call is served when its gate opens, and a job that finds the gate shut again counts a refusal.
After a few of these the job has the turn, and what is kept for it is kept from waiting calls too (I5).  The first
waiting call gathers slots if it wants several: jobs are tested as if it had them.

Invariant: if a gate is open for its first waiting call, that one was given its slots, or was called to take them.
"""

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from penstock.engine.admission.lane import Lane, Post
from penstock.job import START_GRACE, Topic
from penstock.limits.gate import ON_RELEASE
from penstock.limits.rules import Numbers, numbers_from_text
from penstock.store import lending as rows

if TYPE_CHECKING:
    from penstock.engine.admission.board import Board

CALLED = -1


class LoanQueue:
    """The calls that wait for slots at the gates on a board."""

    def __init__(self, board: "Board") -> None:
        self._board = board
        self._lent: Counter[tuple[int, int]] = Counter()  # by how many slots (holder, gate) changes
        self.me = 0  # the holder that this transaction serves: it can take a start that must be remembered
        self.mine: set[tuple[int, int]] = set()  # what that holder was given, by gate and place

    def opens_at(self, post: Post, own: Numbers, slots: int) -> int:
        """Return when a gate would lend so many slots."""
        at = post.gate.opens_at(own, 1, self._board.now, self._kept(post), slots)
        if at <= self._board.now and post.turn is not None and self._board.turns.hinders_loans(post, slots):
            return ON_RELEASE
        return at

    def gathered(self, post: Post, lane: Lane) -> int:
        """Return how many slots are kept from a lane for the first waiting call, which wants several of them.

        Not from jobs of higher priority, nor from one that has the turn.
        """
        if lane.priority > 0 or (self._board.turns.present and self._board.turns.has_turn(lane)):
            return 0
        if post.gathering is None:
            post.gathering = self._gathering(post)
        return post.gathering

    def serve(self, gates: Iterable[int]) -> None:
        """Lend to the calls that wait at these gates what there is."""
        for gate in gates:
            post = self._board.posts[gate]
            while post.asking and self._serve_first(post):
                post.gathering = None

    def lend(self, post: Post, holder: int, own: Numbers, slots: int, most: int) -> int:
        """Take slots of an open gate for a holder: *most* if there are so many and no other call or job waits."""
        gate, now = post.gate, self._board.now
        if gate.starts is None and most > slots and not post.lanes and not post.asking:
            free = (gate.numbers(own, now).slots or 0) - gate.running - (1 if self._kept(post) else 0)
            slots = max(slots, min(most, free))
        gate.running += slots
        if gate.starts is not None:
            gate.starts.add(now + START_GRACE, 1)
            post.memory_changed = True
            # A window must not forget its starts, even if the machine loses its power.
            self._board.db.keep()
        self._lent[holder, gate.id] += slots
        self._board.turns.looked_at_again([gate.id])
        return slots

    def take_back(self, post: Post, holder: int, slots: int) -> None:
        """Give slots back to their gate, which the caller must ring."""
        post.gate.running -= slots
        self._lent[holder, post.gate.id] -= slots

    def forget(self, holder: int) -> set[int]:
        """Take everything from a holder, whose lease is over; return the gates to ring."""
        board = self._board
        held = rows.held_by(board.db, holder)
        asked = Counter(gate for _, gate in rows.asked_by(board.db, holder))
        gates = held.keys() | asked.keys()
        board.load_gates(gates)
        for gate in gates:
            post = board.posts[gate]
            post.gate.running -= held.get(gate, 0)
            post.asking -= asked[gate]
            post.gathering = None
        rows.forget_holder(board.db, holder)
        return set(gates)

    def flush(self) -> None:
        """Save how many slots each holder has."""
        changed = [(*whose, slots) for whose, slots in self._lent.items() if slots]
        self._lent.clear()
        if changed:
            rows.change_held(self._board.db, changed)

    def _serve_first(self, post: Post) -> bool:
        """Lend the first waiting call at a gate what it wants; False if it must wait."""
        board, gate = self._board, post.gate.id
        found = rows.first(board.db, gate)
        assert found is not None, f"no call waits at gate {gate}"  # noqa: S101 - a broken store
        ord_, holder, slots = found.ord, found.holder, found.slots
        if found.lease <= board.now:
            # Its process is gone: slots that it got would be unused.
            board.turns.ended_at |= self.forget(holder)
            return True
        own = numbers_from_text(found.own)
        at = self.opens_at(post, own, slots)
        if at > board.now:
            board.lower_wake(gate, at)
            return False
        if post.gate.starts is not None and holder != self.me:
            rows.give(board.db, gate, ord_, CALLED)
            board.db.tell(Topic.SLOTS)
            return False
        post.asking -= 1
        rows.give(board.db, gate, ord_, self.lend(post, holder, own, slots, found.most))
        if holder == self.me:
            self.mine.add((gate, ord_))
        else:
            board.db.tell(Topic.SLOTS)
        return True

    def _gathering(self, post: Post) -> int:
        found = rows.first(self._board.db, post.gate.id)
        if found is None:
            return 0
        most = post.gate.numbers(numbers_from_text(found.own), self._board.now).slots
        return found.slots if 1 < found.slots <= (most or 0) else 0

    def _kept(self, post: Post) -> int:
        return 0 if post.turn is None else self._board.turns.kept_from_loans(post)
