"""Gates: set the numbers of keys, queues and job types, override them, shut a gate; look at them."""

from penstock.engine import foretold, look, rules
from penstock.engine.board import Board
from penstock.engine.transactions import Transactions
from penstock.errors import NotFoundError
from penstock.job import GateView
from penstock.limits.rules import Numbers
from penstock.store import gates as gate_rows
from penstock.store.session import Hold


class GateVerbs(Transactions):
    def configure(self, scope: str, name: str, numbers: Numbers | None, *, tenant: str = "") -> None:
        """Set the numbers of a key, a queue or a job type for everybody; None removes them."""
        self._write(lambda board: rules.configure(board, scope, name, tenant, numbers), Hold.RULES)

    def configured(self, scope: str, name: str) -> Numbers | None:
        """Return the numbers that were set for a queue or a type; None if none were."""
        return self._read(lambda board: look.configured(board, scope, name))

    def override(self, key: str, numbers: Numbers, *, until: int | None = None, tenant: str = "") -> None:
        """Let other numbers rule a key until then, or until cleared."""
        self._write(lambda board: rules.override(board, key, tenant, numbers, until))

    def clear_override(self, key: str, *, tenant: str = "") -> None:
        """End an override and a shut-until of a key."""
        self._write(lambda board: _clear(board, key, tenant))

    def shut(self, key: str, until: int, *, tenant: str = "", reason: str = "") -> None:
        """Let nothing through a gate until then."""

        def work(board: Board) -> None:
            gate = rules.find_or_add(board, "key", key, tenant)
            rules.shut_until(board, [gate], until, key, reason)

        self._write(work)

    def gate(self, key: str, tenant: str = "") -> GateView:
        """Return one gate with its numbers in force; or those that jobs to come will bring."""
        return self._read(lambda board: foretold.gate(board, key, tenant))

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
        return self._read(lambda board: foretold.page(board, tenant, prefix, without, offset, limit))


def _clear(board: Board, key: str, tenant: str) -> None:
    if key not in gate_rows.find(board.db, "key", tenant, [key]):
        raise NotFoundError("gate", key)
    rules.clear(board, key, tenant)
