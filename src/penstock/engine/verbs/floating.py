"""Floating limits: numbers of slots that workers compute anew every so often."""

from collections.abc import Collection

from penstock.engine import floating
from penstock.engine.transactions import Transactions
from penstock.job import LEASE, FloatingView, Refresh
from penstock.lifecycle.checks import check_whole
from penstock.limits.rules import MAX_NUMBER


class FloatingVerbs(Transactions):
    def refreshes(
        self, handlers: Collection[str], count: int, *, worker: str, lease: int = LEASE
    ) -> list[Refresh]:
        """Lend due refreshes to a worker that has one of these handlers."""
        if not handlers:
            return []
        return self._write(lambda board: floating.refreshes(board, handlers, count, worker, lease))

    def refreshed(self, refresh: Refresh, *, value: int | None = None, error: str = "") -> bool:
        """Take a refreshed value, or an error; False if another worker was given the refresh meanwhile."""
        return self._write(lambda board: floating.refreshed(board, refresh, value, error))

    def floating(self, key: str, tenant: str = "") -> FloatingView:
        """Return the floating limit of a key."""
        return self._read(lambda board: floating.view(board, key, tenant))

    def set_floating(
        self,
        key: str,
        *,
        value: int | None = None,
        every: int | None = None,
        metadata: str | None = None,
        tenant: str = "",
    ) -> None:
        """Change the value, the interval or the metadata of a floating limit."""
        for name, number in (("value", value), ("every", every)):
            if number is not None:
                check_whole(name, number, 0, MAX_NUMBER)
        self._write(lambda board: floating.edit(board, key, tenant, value, every, metadata))

    def delete_floating(self, key: str, *, tenant: str = "") -> None:
        """Let a key float no longer."""
        self._write(lambda board: floating.delete(board, key, tenant))
