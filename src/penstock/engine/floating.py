"""Floating limits: a number of slots that some worker recomputes every so often, while its key is in use.

A refresh is due when its time has come and a job of the key waits or runs, or has come since.  It is lent to one
worker at a time, under a fence, until its lease runs out; then another may have it.

Whether a key is in use is looked at when its time has come: one that is not rests until a job comes to it.  So keys
that are not in use cost a poll nothing, and jobs that end cost nothing for it at all.

Invariant: a key that is in use does not rest.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Final, TypeGuard

from penstock.clock import SECOND
from penstock.engine import audit
from penstock.engine.admission.board import Board
from penstock.engine.gates import change
from penstock.engine.transactions import Transactions
from penstock.engine.wording import storable
from penstock.errors import InvalidError, NotFoundError
from penstock.job import LEASE, FloatingView, Refresh, RefreshesFor, RefreshReport
from penstock.lifecycle.checks import check_whole
from penstock.limits.rules import MAX_NUMBER, Limit, bounds_text, check_bounds, nearest
from penstock.store import floating as floating_rows
from penstock.store import gates as gate_rows
from penstock.store.floating import FloatingRow
from penstock.store.session import Session

FIRST_RETRY: Final = SECOND
LONGEST_RETRY: Final = 60 * SECOND
MAX_ERROR: Final = 2_000
RESTING: Final = 500  # keys that begin to rest in one transaction, so that it stays short


class FloatingVerbs(Transactions):
    def refreshes(
        self,
        handlers: Collection[str],
        count: int,
        *,
        worker: str,
        lease: int = LEASE,
        queues: Collection[str] = (),
        tenant: str | None = None,
    ) -> list[Refresh]:
        """Lend due refreshes to a worker that has one of these handlers; see `RefreshesFor`."""
        wanted = RefreshesFor(count, worker, tuple(handlers), tuple(queues), lease, tenant)
        return self.refreshes_for([wanted])[0]

    def refreshes_for(self, requests: Sequence[RefreshesFor]) -> list[list[Refresh]]:
        """Lend due refreshes to several workers in one transaction; if none is due, only read."""
        for request in requests:
            check_whole("count", request.count, 1, MAX_NUMBER)
        now = self._time.seen()
        if not self.store.read(lambda db: anything_due(db, requests, now)):
            return [[] for _ in requests]
        # If store and workers share a machine that loses its power, nothing is being computed any more.
        return self._write(lambda board: lend_due(board, requests), keep=self.far)

    def renew_refreshes(
        self, lent: Sequence[tuple[int, int]], *, lease: int = LEASE, tenant: str | None = None
    ) -> list[bool]:
        """Leave refreshes, as (gate, fence), to the worker that has them; False for one that it has no more.

        With a *tenant*, only those of its own keys.
        """
        if not lent:
            return []
        return self._write(
            lambda board: [_renew(board, *each, board.now + lease, tenant) for each in lent], keep=self.far
        )

    def refreshed(self, refresh: Refresh, *, value: int | None = None, error: str = "") -> bool:
        """Take a refreshed value, or an error; False if another worker was given the refresh meanwhile."""
        return self.report_refreshes([RefreshReport(refresh.gate, refresh.fence, value, error)])[0]

    def report_refreshes(self, reports: Sequence[RefreshReport]) -> list[bool]:
        """Take what workers computed; False for a refresh that another worker was given meanwhile."""
        if not reports:
            return []
        return self._write(lambda board: [_take(board, report) for report in reports])

    def floating(self, key: str, tenant: str = "") -> FloatingView:
        """Return the floating limit of a key."""
        return self._read(lambda board: floating_view(board, _find(board, key, tenant), key, tenant))

    def floating_limits(
        self, *, tenant: str | None = None, prefix: str = "", offset: int = 0, limit: int = 50
    ) -> tuple[list[FloatingView], int]:
        """Return a page of floating limits by key, of one tenant or of all, and how many there are."""

        def work(board: Board) -> tuple[list[FloatingView], int]:
            rows = floating_rows.page(board.db, tenant, prefix, offset, limit)
            board.load_gates(row.gate for row, _, _ in rows)
            views = [floating_view(board, row, key, owner) for row, owner, key in rows]
            return views, floating_rows.total(board.db, tenant, prefix)

        return self._read(work)

    def set_floating(
        self,
        key: str,
        *,
        value: int | None = None,
        every: int | None = None,
        metadata: str | None = None,
        least: int | None = None,
        most: int | None = None,
        tenant: str = "",
    ) -> None:
        """Change the value, the interval, the metadata or the bounds of a floating limit.

        A value must be within the bounds; one that is outside of new bounds is moved to the nearest.
        """
        for name, number in (("value", value), ("least", least), ("most", most)):
            if number is not None:
                check_whole(name, number, 0, MAX_NUMBER)
        if every is not None:
            check_whole("every", every, 1, MAX_NUMBER)

        def work(board: Board) -> None:
            found = _find(board, key, tenant)
            told = _told(board, found)
            row = _changed(board, found, every, metadata, least, most)
            if value is not None and nearest(value, row.least, row.most) != value:
                raise InvalidError("value", f"{value} is not {bounds_text(row.least, row.most)}")
            floating_rows.change(board.db, row)
            before = _value(board, row)
            if (after := nearest(before if value is None else value, row.least, row.most)) != before:
                _set_value(board, row.gate, after)
            now = _told(board, row)
            if metadata is not None and metadata != found.metadata:
                now["metadata"] = "changed"
            audit.note(board, "floating.set", "floating", key, tenant, before=told, after=now)

        self._write(work)

    def refresh_floating(self, key: str, *, tenant: str = "") -> None:
        """Have a floating limit refreshed at once, in use or not."""

        def work(board: Board) -> None:
            floating_rows.refresh_now(board.db, _find(board, key, tenant).gate, board.now)
            audit.note(board, "floating.refresh", "floating", key, tenant)

        self._write(work)

    def delete_floating(self, key: str, *, tenant: str = "") -> None:
        """Let a key float no longer; its jobs obey their own numbers again."""

        def work(board: Board) -> None:
            found = _find(board, key, tenant)
            audit.note(board, "floating.delete", "floating", key, tenant, before=_told(board, found))
            floating_rows.delete(board.db, found.gate)
            _set_value(board, found.gate, None)

        self._write(work)


def begin(board: Board, gate: int, limit: Limit) -> None:
    """Let a key float that does not yet: its first job decides how."""
    assert limit.floating is not None  # noqa: S101 - the caller looked
    slots = limit.numbers.slots or 0
    floating_rows.add(board.db, gate, slots, limit.floating, board.now)
    _set_value(board, gate, slots)


def floats(board: Board, gate: int) -> bool:
    """Tell whether the key of a gate on the board floats."""
    rules = board.posts[gate].gate.rules
    return rules is not None and rules.floating is not None


def wake(board: Board, gates: Iterable[int]) -> None:
    """Refresh those of these keys that float, because they are in use now."""
    found = [gate for gate in gates if floats(board, gate)]
    if found:
        floating_rows.wake(board.db, found, board.now)


def anything_due(db: Session, requests: Sequence[RefreshesFor], now: int) -> bool:
    """Tell whether there is something to lend to one of these workers."""
    able = [each for each in requests if each.handlers or each.queues]
    return bool(able) and floating_rows.anything_due(db, able, now)


def lend_due(board: Board, requests: Sequence[RefreshesFor]) -> list[list[Refresh]]:
    """Lend due refreshes to several workers; nothing is locked if none is due."""
    if not anything_due(board.db, requests, board.now):
        return [[] for _ in requests]
    board.db.need_gates()
    return [lend(board, each) for each in requests]


def lend(board: Board, wanted: RefreshesFor) -> list[Refresh]:
    """Lend due refreshes to a worker; what is due and not in use rests from now on."""
    lent = []
    for due in floating_rows.due(board.db, wanted, board.now):
        fence = floating_rows.take(board.db, due.gate, wanted.worker, board.now + wanted.lease)
        _, tenant, key = gate_rows.name(board.db, due.gate)
        handler, queue = _way(board, due, wanted)
        refresh = Refresh(
            due.gate, key, tenant, handler, _value(board, due), due.metadata, fence, due.refreshed,
            due.failures, due.least, due.most, queue,
        )  # fmt: skip
        lent.append(refresh)
    floating_rows.rest(board.db, board.now, RESTING)
    return lent


def _way(board: Board, due: FloatingRow, wanted: RefreshesFor) -> tuple[str, str]:
    """Return by which handler, or in which queue, a worker refreshes a limit."""
    if due.handler and due.handler in wanted.handlers:
        return due.handler, ""
    named = floating_rows.handlers(board.db, due.gate, wanted.handlers)
    if named:
        return named[0], ""
    return "", next(iter(floating_rows.queues(board.db, due.gate, wanted.queues)), "")


def _take(board: Board, report: RefreshReport) -> bool:
    """Take a worker's new value, or keep the old one after an error; False if another worker has it now."""
    row = floating_rows.of(board.db, report.gate)
    if not _has(row, report.fence) or not _may(board, report.gate, report.tenant):
        return False
    value, error = report.value, report.error
    if not error and not _sound(value):
        error = f"the handler returned {value!r}; it must be a whole number, at least 0"
    if error or value is None:
        next_at = board.now + min(FIRST_RETRY << min(row.failures, 10), LONGEST_RETRY)
        floating_rows.keep(
            board.db, row.gate, row.refreshed, next_at, row.failures + 1, storable(error[:MAX_ERROR])
        )
        return True
    floating_rows.keep(board.db, row.gate, board.now, board.now + row.every, 0, "")
    _set_value(board, row.gate, nearest(value, row.least, row.most))
    return True


def _renew(board: Board, gate: int, fence: int, until: int, tenant: str | None) -> bool:
    row = floating_rows.of(board.db, gate)
    if not _has(row, fence) or not _may(board, gate, tenant):
        return False
    floating_rows.renew(board.db, gate, until)
    return True


def _has(row: FloatingRow | None, fence: int) -> TypeGuard[FloatingRow]:
    """Tell whether a refresh is lent under this *fence*; once it was reported it is not."""
    return row is not None and row.fence == fence and bool(row.worker)


def _may(board: Board, gate: int, tenant: str | None) -> bool:
    """Tell whether a worker of one tenant, or of all, may compute the value of a gate."""
    return tenant is None or gate_rows.name(board.db, gate)[1] == tenant


def _find(board: Board, key: str, tenant: str) -> FloatingRow:
    gate = gate_rows.find(board.db, "key", tenant, [key]).get(key)
    row = None if gate is None else floating_rows.of(board.db, gate)
    if row is None:
        raise NotFoundError("floating limit", key)
    return row


def floating_view(board: Board, row: FloatingRow, key: str, tenant: str) -> FloatingView:
    return FloatingView(
        key, tenant, row.handler, _value(board, row), row.initial, row.every, row.metadata, row.refreshed, row.next_at,
        row.failures, row.error, row.least, row.most, floating_rows.is_used(board.db, row.gate), row.worker,
    )  # fmt: skip


def _told(board: Board, row: FloatingRow) -> dict[str, object]:
    """Return what the audit tells of a floating limit."""
    return {"value": _value(board, row), "every": row.every, "least": row.least, "most": row.most}


def _changed(
    board: Board,
    row: FloatingRow,
    every: int | None,
    metadata: str | None,
    least: int | None,
    most: int | None,
) -> FloatingRow:
    """Return a floating limit with what is given changed."""
    if every is not None and not row.worker:
        # While a worker has the refresh, the next moment is when its lease runs out.
        row = row._replace(next_at=min(row.next_at, board.now + every))
    changed = row._replace(
        every=row.every if every is None else every,
        metadata=row.metadata if metadata is None else metadata,
        least=row.least if least is None else least,
        most=row.most if most is None else most,
    )
    check_bounds(changed.least, changed.most)
    return changed


def _value(board: Board, row: FloatingRow) -> int:
    board.load_gates([row.gate])
    rules = board.posts[row.gate].gate.rules
    return row.initial if rules is None or rules.floating is None else rules.floating


def _set_value(board: Board, gate: int, value: int | None) -> None:
    change(board, gate, lambda rules: replace(rules, floating=value))


def _sound(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_NUMBER
