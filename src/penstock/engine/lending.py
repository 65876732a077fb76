"""Lend slots of gates to other processes, for calls that are no jobs.

Each process is one holder.  All slots of a holder are under one lease: when it ends, they go back to their gates.
"""

from collections import Counter
from collections.abc import Sequence

from penstock.clock import SECOND
from penstock.engine import floating
from penstock.engine.admission.board import Board
from penstock.engine.admission.lane import Post
from penstock.engine.claim_batch import settle_down
from penstock.engine.gates import find_or_add
from penstock.engine.transactions import Transactions
from penstock.engine.upkeep import bring_up_to_date
from penstock.job import START_GRACE, Audit, Lending, Lent, Loan, Topic, Want
from penstock.limits.gate import ON_RELEASE
from penstock.store import gates as gate_rows
from penstock.store import lending as rows


class LendingVerbs(Transactions):
    def lend(self, asked: Lending) -> Lent:
        """Take back slots from a process, and lend it others for calls of its own, under one lease."""
        return self._write(lambda board: _lend(board, asked), keep=self.far)

    def lent_to(self, holder: int) -> bool:
        """Tell whether there may be slots for a process that waits for them."""
        now = self._time.seen()
        return self.store.read(lambda db: rows.anything_for(db, holder, now))

    def await_loan(self, holder: int, timeout: float) -> bool:
        """Wait for that, or for *timeout* seconds; then answer the same as `lent_to`."""
        revision = self.store.revision(Topic.SLOTS)
        if self.lent_to(holder):
            return True
        moment = self.store.read(rows.next_moment)
        if moment is not None:
            timeout = min(timeout, max(moment - self._time.seen(), 0) / SECOND)
        self.store.wait(Topic.SLOTS, revision, timeout)
        return self.lent_to(holder)

    def wanted_by_others(self, holder: int, gates: Sequence[int]) -> list[int]:
        """Return the gates whose slots a process may not keep, because others wait there or starts count."""
        return self.store.read(lambda db: rows.contended(db, holder, gates))

    def leave(self, holder: int) -> None:
        """Take back all slots and wants of a process that ends."""
        self._write(lambda board: board.ring(board.loans.forget(holder), released=True), keep=False)


def _lend(board: Board, asked: Lending) -> Lent:
    """Take back what is returned, serve the calls that wait, and lend what is wanted."""
    if not asked.holder:
        (holder,) = board.db.numbers(1)
        rows.add_holder(board.db, holder, asked.name, board.now + asked.lease)
        return _Borrowing(board, holder, asked).run()
    until = rows.lease(board.db, asked.holder)
    if until is None:
        return Lent(0)
    if asked.renew or until <= board.now:
        rows.renew(board.db, asked.holder, board.now + asked.lease)
    return _Borrowing(board, asked.holder, asked).run()


class _Borrowing:
    """What one holder gives back, withdraws and borrows in one transaction."""

    def __init__(self, board: Board, holder: int, asked: Lending) -> None:
        self._board = board
        self._holder = holder
        self._asked = asked
        self._loans: list[Loan] = []
        self._refused: list[int] = []
        self._waiting: list[int] = []
        self._caught_up = False
        board.loans.me = holder

    def run(self) -> Lent:
        board, asked = self._board, self._asked
        if asked.look:
            self._catch_up()
        if asked.withdrawn:
            self._withdraw(asked.withdrawn)
        if asked.returned:
            self._take_back(asked.returned)
        if asked.look:
            self._come_if_called()
        if asked.wanted:
            self._lend(asked.wanted)
        if asked.look or asked.withdrawn or self._waiting or board.loans.mine:
            settle_down(board)
            self._fetch()
        return Lent(
            self._holder,
            tuple(self._loans),
            tuple(self._refused),
            tuple(self._waiting),
            self._audit() if asked.audit else None,
        )

    def _catch_up(self) -> None:
        """Do what is due, once: it may give back a slot."""
        if self._caught_up:
            return
        self._caught_up = True
        moment = rows.next_moment(self._board.db)
        if moment is not None and moment <= self._board.now:
            bring_up_to_date(self._board)

    def _withdraw(self, wants: Sequence[int]) -> None:
        board = self._board
        gates = Counter(rows.withdraw(board.db, self._holder, wants))
        board.load_gates(gates)
        for gate, count in gates.items():
            board.posts[gate].asking -= count
            board.posts[gate].gathering = None
        # A call behind it may fit where it did not, and what it gathered is free.
        board.ring(gates)

    def _take_back(self, returned: Sequence[tuple[int, int]]) -> None:
        board = self._board
        slots = Counter[int]()
        for gate, count in returned:
            slots[gate] += count
        held = rows.held_at(board.db, self._holder, list(slots))
        board.load_gates(held)
        for gate, has in held.items():
            board.loans.take_back(board.posts[gate], self._holder, min(slots[gate], has))
        board.ring(held, released=True)

    def _come_if_called(self) -> None:
        """Take what this holder was called for."""
        board = self._board
        gates = rows.come(board.db, self._holder)
        board.load_gates(gates)
        board.loans.serve(gates)

    def _fetch(self) -> None:
        """Fetch what was given since the last time."""
        board = self._board
        given = rows.given(board.db, self._holder)
        board.load_gates(gate for _, gate, _, _ in given)
        if any(self._unremembered(gate, ord_) for _, gate, _, ord_ in given):
            self._take_back_unremembered([each for each in given if self._unremembered(each[1], each[3])])
            given = rows.given(board.db, self._holder)
        rows.fetched(board.db, [(gate, ord_) for _, gate, _, ord_ in given])
        self._loans += [self._loan(want, gate, slots) for want, gate, slots, _ in given]

    def _unremembered(self, gate: int, ord_: int) -> bool:
        """Tell whether slots were given before their gate began to remember starts: this one must be remembered."""
        return self._board.posts[gate].gate.starts is not None and (gate, ord_) not in self._board.loans.mine

    def _take_back_unremembered(self, given: Sequence[tuple[int, int, int, int]]) -> None:
        """Take slots back that were given before their gate remembered starts; their calls wait in line again."""
        board = self._board
        for _, gate, slots, ord_ in given:
            post = board.posts[gate]
            rows.give(board.db, gate, ord_, 0)
            board.loans.take_back(post, self._holder, slots)
            post.asking += 1
            post.gathering = None
        board.ring({gate for _, gate, _, _ in given})
        settle_down(board)

    def _lend(self, wanted: Sequence[Want]) -> None:
        board = self._board
        names = {want.key for want in wanted}
        gates = gate_rows.find(board.db, "key", "", sorted(names))
        for want in wanted:
            if want.key not in gates:
                gates[want.key] = find_or_add(board, "key", want.key, "")
                gate_rows.keep_own(board.db, [(want.numbers.text, gates[want.key])])
        board.load_gates(gates.values())
        floating.wake(board, gates.values())
        lined = []
        for want in wanted:
            post = board.posts[gates[want.key]]
            at = self._opens_at(post, want)
            if at > board.now and not self._caught_up:
                # No call stood in line before: it would have been served first.
                self._catch_up()
                at = self._opens_at(post, want)
            if at <= board.now:
                slots = board.loans.lend(post, self._holder, want.numbers, want.slots, want.most)
                self._loans.append(self._loan(want.id, post.gate.id, slots))
            elif want.stay:
                post.asking += 1
                post.gathering = None
                lined.append((post.gate.id, want))
                self._waiting.append(want.id)
                board.lower_wake(post.gate.id, at)
            else:
                self._refused.append(want.id)
        if lined:
            self._line_up(lined)

    def _opens_at(self, post: Post, want: Want) -> int:
        """Return when a gate would lend to a call that comes now: not before the calls in line."""
        if post.asking:
            return ON_RELEASE
        return self._board.loans.opens_at(post, want.numbers, want.slots)

    def _line_up(self, lined: Sequence[tuple[int, Want]]) -> None:
        db = self._board.db
        rows.ask(
            db,
            [
                (gate, ord_, self._holder, want.id, want.numbers.text, want.slots, want.most)
                for ord_, (gate, want) in zip(db.numbers(len(lined)), lined, strict=True)
            ],
        )

    def _loan(self, want: int, gate: int, slots: int) -> Loan:
        remembered = self._board.posts[gate].gate.starts is not None
        return Loan(want, gate, slots, START_GRACE if remembered else 0)

    def _audit(self) -> Audit:
        settle_down(self._board)
        asking = frozenset(want for want, _ in rows.asked_by(self._board.db, self._holder))
        return Audit(rows.held_by(self._board.db, self._holder), asking)
