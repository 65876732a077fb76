"""Floating limits: a number of slots that a handler on some worker recomputes every so often.

The refresh is due by the clock, whether or not anything is enqueued.  It is lent to one worker at a
time, under a fence, until its lease runs out; then another may have it.
"""

from collections.abc import Collection
from dataclasses import replace
from typing import Final

from penstock.clock import SECOND
from penstock.engine.admission.board import Board
from penstock.engine.gates import change
from penstock.engine.transactions import Transactions
from penstock.errors import NotFoundError
from penstock.job import LEASE, FloatingView, Refresh
from penstock.lifecycle.checks import check_whole
from penstock.limits.rules import MAX_NUMBER, Limit
from penstock.store import floating as floating_rows
from penstock.store import gates as gate_rows
from penstock.store.floating import FloatingRow

FIRST_RETRY: Final = SECOND
LONGEST_RETRY: Final = 60 * SECOND
MAX_ERROR: Final = 2_000


class FloatingVerbs(Transactions):
    def refreshes(
        self, handlers: Collection[str], count: int, *, worker: str, lease: int = LEASE
    ) -> list[Refresh]:
        """Lend due refreshes to a worker that has one of these handlers."""
        if not handlers:
            return []
        return self._write(lambda board: refreshes(board, handlers, count, worker, lease))

    def refreshed(self, refresh: Refresh, *, value: int | None = None, error: str = "") -> bool:
        """Take a refreshed value, or an error; False if another worker was given the refresh meanwhile."""
        return self._write(lambda board: refreshed(board, refresh, value, error))

    def floating(self, key: str, tenant: str = "") -> FloatingView:
        """Return the floating limit of a key."""

        def work(board: Board) -> FloatingView:
            gate, row = _find(board, key, tenant)
            value = _value(board, gate, row.initial)
            return FloatingView(
                key, tenant, row.handler, value, row.initial, row.every, row.metadata, row.refreshed, row.next_at,
                row.failures, row.error,
            )  # fmt: skip

        return self._read(work)

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

        def work(board: Board) -> None:
            gate, row = _find(board, key, tenant)
            # While a worker has the refresh, the next moment is when its lease runs out.
            next_at = row.next_at if every is None or row.worker else min(row.next_at, board.now + every)
            meta = row.metadata if metadata is None else metadata
            floating_rows.change(board.db, gate, every or row.every, meta, next_at)
            if value is not None:
                _set_value(board, gate, value)

        self._write(work)

    def delete_floating(self, key: str, *, tenant: str = "") -> None:
        """Let a key float no longer; its jobs obey their own numbers again."""

        def work(board: Board) -> None:
            gate, _ = _find(board, key, tenant)
            floating_rows.delete(board.db, gate)
            _set_value(board, gate, None)

        self._write(work)


def begin(board: Board, gate: int, limit: Limit) -> None:
    """Let a key float, if it does not yet: its first job decides how."""
    assert limit.floating is not None  # noqa: S101 - the caller looked
    slots = limit.numbers.slots or 0
    if floating_rows.add(board.db, gate, slots, limit.floating, board.now):
        change(board, gate, lambda rules: replace(rules, floating=slots))


def refreshes(board: Board, handlers: Collection[str], count: int, worker: str, lease: int) -> list[Refresh]:
    """Lend due refreshes to a worker that has one of these handlers."""
    lent = []
    for due in floating_rows.due(board.db, sorted(handlers), board.now, count):
        fence = floating_rows.take(board.db, due.gate, worker, board.now + lease)
        _, tenant, key = gate_rows.name(board.db, due.gate)
        value = _value(board, due.gate, due.initial)
        lent.append(Refresh(due.gate, key, tenant, due.handler, value, due.metadata, fence, due.refreshed))
    return lent


def refreshed(board: Board, refresh: Refresh, value: int | None, error: str) -> bool:
    """Take a worker's new value, or keep the old one after an error; False if another worker has it now."""
    row = floating_rows.of(board.db, refresh.gate)
    if row is None or row.fence != refresh.fence:
        return False
    if not error and not _sound(value):
        error = f"the handler returned {value!r}; it must be a whole number, at least 0"
    if error:
        next_at = board.now + min(FIRST_RETRY << min(row.failures, 10), LONGEST_RETRY)
        floating_rows.keep(
            board.db, refresh.gate, row.refreshed, next_at, row.failures + 1, error[:MAX_ERROR]
        )
        return True
    floating_rows.keep(board.db, refresh.gate, board.now, board.now + row.every, 0, "")
    _set_value(board, refresh.gate, value)
    return True


def _find(board: Board, key: str, tenant: str) -> tuple[int, FloatingRow]:
    gate = gate_rows.find(board.db, "key", tenant, [key]).get(key)
    row = None if gate is None else floating_rows.of(board.db, gate)
    if gate is None or row is None:
        raise NotFoundError("floating limit", key)
    return gate, row


def _value(board: Board, gate: int, initial: int) -> int:
    board.load_gates([gate])
    rules = board.posts[gate].gate.rules
    return initial if rules is None or rules.floating is None else rules.floating


def _set_value(board: Board, gate: int, value: int | None) -> None:
    change(board, gate, lambda rules: replace(rules, floating=value))


def _sound(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_NUMBER
