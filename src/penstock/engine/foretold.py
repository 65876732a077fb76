"""Keys that jobs will come to which are at the door or not due yet, and a page of all keys.  Changes nothing."""

from penstock.engine.board import Board
from penstock.engine.look import gate_view
from penstock.errors import NotFoundError
from penstock.job import GateView
from penstock.limits.rules import Numbers
from penstock.limits.spec import limits_from_json
from penstock.store import gates as gate_rows
from penstock.store import views


def gate(board: Board, key: str, tenant: str) -> GateView:
    """Return one gate, or what its jobs will bring if none has come to it yet."""
    found = gate_rows.find(board.db, "key", tenant, [key]).get(key)
    if found is not None:
        return gate_view(board, found, key, tenant)
    numbers = _foretold(board).get((key, tenant))
    if numbers is None:
        raise NotFoundError("gate", key)
    return _view(board, key, tenant, numbers)


def page(
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
    rows = views.gates(board.db, tenant, prefix, without, first, limit + offset - first)
    known = {(name, owner): id_ for id_, owner, name in rows}
    wanted = sorted([*known, *coming])[offset - first : offset - first + limit]
    found = [
        gate_view(board, known[key, owner], key, owner)
        if (key, owner) in known
        else _view(board, key, owner, coming[key, owner])
        for key, owner in wanted
    ]
    return found, views.gates_total(board.db, tenant, prefix, without) + len(coming)


def _foretold(board: Board) -> dict[tuple[str, str], Numbers]:
    """Return the numbers that jobs will bring, the newest's, by (key, tenant)."""
    found: dict[tuple[str, str], Numbers] = {}
    for tenant, limits in views.foretold(board.db):
        for limit in limits_from_json(limits):
            found[limit.key, "" if limit.shared else tenant] = limit.numbers
    return found


def _view(board: Board, key: str, tenant: str, numbers: Numbers) -> GateView:
    waiting = views.at_door(board.db, tenant, key)
    return GateView(key, tenant, 0, 0, waiting, numbers, opens_at=board.now)
