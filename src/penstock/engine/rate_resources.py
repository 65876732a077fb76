"""Rate resources: keys whose rate is set from outside, and which jobs name without numbers of their own.

A resource is a gate with configured numbers, and an id.  To change or delete one rings its gate in the same
transaction, so what waits there starts as soon as the new numbers allow.
"""

from penstock.engine.admission.board import Board
from penstock.engine.gates import GateVerbs, configure, noted, view_of_gate
from penstock.errors import NotFoundError
from penstock.ids import new_id
from penstock.job import RateResourceView
from penstock.limits.rules import Numbers, Window
from penstock.store import rate_resources as rows
from penstock.store.rate_resources import RateResourceRow
from penstock.store.session import Locks


class RateResourceVerbs(GateVerbs):
    def put_rate_resource(self, key: str, rate: Window, *, tenant: str = "") -> RateResourceView:
        """Let so many jobs of a key start in any window, whatever numbers they bring; replaces what was set before."""

        def work(board: Board) -> RateResourceView:
            with noted(board, "rate_resource.put", "key", key, tenant):
                configure(board, "key", key, tenant, Numbers(rate=rate))
            known = rows.of(board.db, tenant, key)
            id_, created = (new_id(), board.now) if known is None else (known.id, known.created)
            row = RateResourceRow(tenant, key, id_, created, board.now)
            rows.put(board.db, row)
            return _view(board, row)

        return self._write(work, Locks.RULES)

    def delete_rate_resource(self, key: str, *, tenant: str = "") -> None:
        """Let jobs of a key start again as they themselves allow."""

        def work(board: Board) -> None:
            if not rows.delete(board.db, tenant, key):
                raise NotFoundError("rate limit", key)
            with noted(board, "rate_resource.delete", "key", key, tenant):
                configure(board, "key", key, tenant, None)

        self._write(work, Locks.RULES)

    def rate_resource(self, key: str, *, tenant: str = "") -> RateResourceView:
        """Return one resource."""

        def work(board: Board) -> RateResourceView:
            row = rows.of(board.db, tenant, key)
            if row is None:
                raise NotFoundError("rate limit", key)
            return _view(board, row)

        return self._read(work)

    def rate_resources(
        self, tenant: str | None = None, offset: int = 0, limit: int = 50
    ) -> list[RateResourceView]:
        """Return a page of resources by key, of one tenant or of all."""
        return self._read(
            lambda board: [_view(board, row) for row in rows.page(board.db, tenant, offset, limit)]
        )


def _view(board: Board, row: RateResourceRow) -> RateResourceView:
    gate = view_of_gate(board, row.key, row.tenant)
    return RateResourceView(row.id, row.tenant, row.key, row.created, row.updated, gate)
