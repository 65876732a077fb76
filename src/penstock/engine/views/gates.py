"""Gates with their numbers in force, and keys that so far only jobs to come name.

Jobs at the door or not due yet have not come to their gates; their keys are shown with the numbers they bring.
"""

from penstock.engine.admission.board import Board
from penstock.engine.admission.lane import stands_from_text
from penstock.engine.transactions import Transactions
from penstock.errors import NotFoundError
from penstock.job import GateView
from penstock.limits.gate import ON_RELEASE, Gate
from penstock.limits.rules import UNLIMITED, Numbers, Window, numbers_from_text
from penstock.limits.spec import limits_from_json
from penstock.store import gates as gate_rows
from penstock.store import lending as lending_rows
from penstock.store import views as view_rows
from penstock.store.session import Session


class GateViews(Transactions):
    def configured(self, scope: str, name: str, *, tenant: str = "") -> Numbers | None:
        """Return the numbers that were set for a queue or a type; None if none were."""
        return self._read(lambda board: configured(board, scope, name, tenant))

    def gate(self, key: str, tenant: str = "") -> GateView:
        """Return one gate with its numbers in force; or those that jobs to come will bring."""
        return self._read(lambda board: _gate(board, key, tenant))

    def gates(
        self,
        *,
        tenant: str | None = None,
        prefix: str = "",
        without: str = "",
        offset: int = 0,
        limit: int = 50,
    ) -> tuple[list[GateView], int]:
        """Return a page of gates by name, of one tenant or of all, and how many there are.

        Only those whose names begin with *prefix*, and not with *without*.
        """
        return self._read(lambda board: _page(board, tenant, prefix, without, offset, limit))


def configured(board: Board, scope: str, name: str, tenant: str) -> Numbers | None:
    """Return the numbers that were set for a queue, a type or a tenant."""
    gate_ = gate_rows.find(board.db, scope, tenant, [name]).get(name)
    if gate_ is None:
        return None
    board.load_gates([gate_])
    rules = board.posts[gate_].gate.rules
    return None if rules is None else rules.configured


def _gate_view(board: Board, id_: int, key: str, tenant: str) -> GateView:
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
        waiting=view_rows.waiting(board.db, id_) + view_rows.at_door(board.db, tenant, key) + board.posts[id_].asking,
        numbers=numbers, lent=lending_rows.lent(board.db, id_) if gate_.running else 0,
        configured=rules.configured if rules else None, floating=rules.floating if rules else None,
        override=rules.live_override(board.now) if rules else None,
        override_until=rules.override_until if rules and rules.live_override(board.now) else None,
        shut_until=rules.shut_until if rules and rules.shut_until > board.now else None,
        shut_reason=rules.shut_reason if rules and rules.shut_until > board.now else "",
        opens_at=None if opens == ON_RELEASE else max(opens, board.now),
        next_start=_next_start(gate_, numbers), window_resets_at=_window_resets_at(gate_, numbers.rate, board.now),
    )  # fmt: skip


def _gate(board: Board, key: str, tenant: str) -> GateView:
    """Return one gate, or what its jobs will bring if none has come to it yet."""
    found = gate_rows.find(board.db, "key", tenant, [key]).get(key)
    if found is not None:
        return _gate_view(board, found, key, tenant)
    numbers = _foretold(board).get((key, tenant))
    if numbers is None:
        raise NotFoundError("gate", key)
    return _foretold_view(board, key, tenant, numbers)


def _page(
    board: Board, tenant: str | None, prefix: str, without: str, offset: int, limit: int
) -> tuple[list[GateView], int]:
    """Return a page of gates and keys without one yet, by name, and how many there are."""
    coming = {
        (key, owner): numbers
        for (key, owner), numbers in _foretold(board).items()
        if tenant in (None, owner) and key.startswith(prefix) and not (without and key.startswith(without))
    }
    for owner in {owner for _, owner in coming}:
        names = [key for key, whose in coming if whose == owner]
        for key in gate_rows.find(board.db, "key", owner, names):
            del coming[key, owner]
    # Those before this gate, and all that are coming, are no more than *offset*: they cannot be on the page.
    first = max(offset - len(coming), 0)
    rows = view_rows.gates(board.db, tenant, prefix, without, first, limit + offset - first)
    known = {(name, owner): id_ for id_, owner, name in rows}
    wanted = sorted([*known, *coming])[offset - first : offset - first + limit]
    found = [
        _gate_view(board, known[key, owner], key, owner)
        if (key, owner) in known
        else _foretold_view(board, key, owner, coming[key, owner])
        for key, owner in wanted
    ]
    return found, view_rows.gates_total(board.db, tenant, prefix, without) + len(coming)


def _foretold(board: Board) -> dict[tuple[str, str], Numbers]:
    """Return the numbers that jobs will bring, the newest's, by (key, tenant)."""
    found: dict[tuple[str, str], Numbers] = {}
    for tenant, limits in view_rows.foretold(board.db):
        for limit in limits_from_json(limits):
            found[limit.key, "" if limit.shared else tenant] = limit.numbers
    return found


def _foretold_view(board: Board, key: str, tenant: str, numbers: Numbers) -> GateView:
    waiting = view_rows.at_door(board.db, tenant, key)
    return GateView(key, tenant, 0, 0, waiting, numbers, opens_at=board.now)


def _own_numbers(db: Session, gate_id: int) -> Numbers:
    text = view_rows.lane_gates(db, gate_id)
    if text is None:
        return numbers_from_text(view_rows.own_numbers(db, gate_id) or "")
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
