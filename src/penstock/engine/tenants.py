"""What may a tenant have?

So many jobs at once: a gate that every job of the tenant passes.  So many that wait, or are scheduled, and so many
added in a window: counted when jobs are enqueued.  A transaction that adds jobs of a tenant with such a limit keeps
others from doing so until it ends, so that counting and adding are one decision.  Jobs that become due, are tried
again or rescued were counted when they came.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from msgspec import to_builtins

from penstock.engine import audit
from penstock.engine.admission.board import Board
from penstock.engine.gates import change, configured, count_running, gate_of
from penstock.engine.transactions import Transactions
from penstock.errors import InvalidError, TenantLimitError
from penstock.job import TenantLimits
from penstock.lifecycle.checks import MAX_NUMBER, check_tenant, check_whole
from penstock.lifecycle.states import State
from penstock.limits.gate import ON_RELEASE, Gate, Starts
from penstock.limits.rules import Numbers, Window
from penstock.store import tenants as tenant_rows
from penstock.store.session import Row, Session

_FREE: Final = TenantLimits()


class TenantVerbs(Transactions):
    def set_tenant_limits(self, tenant: str, limits: TenantLimits) -> None:
        """Set what a tenant may have; jobs that wait or run already stay, and count."""
        _check(tenant, limits)

        def work(board: Board) -> None:
            board.db.lock([lock_name(tenant)])
            before = _limits(board, tenant)
            _put(board, tenant, limits)
            told = (to_builtins(before), to_builtins(limits))
            audit.note(board, "tenant.limits", "tenant", tenant, tenant, before=told[0], after=told[1])

        self._write(work)

    def tenant_limits(self, tenant: str) -> TenantLimits:
        """Return what a tenant may have."""
        return self._read(lambda board: _limits(board, tenant))


@dataclass(slots=True)
class Coming:
    """What an enqueue brings to one tenant: how many more will wait and be scheduled, and how many are new."""

    waiting: int = 0  # or scheduled
    scheduled: int = 0
    new: int = 0

    def add(self, state: State, jobs: int) -> None:
        """Count jobs that come, or go, in this state."""
        self.waiting += jobs
        self.scheduled += jobs if state is State.SCHEDULED else 0

    def follow(self, jobs: int) -> None:
        """Count jobs that will come by themselves."""
        self.waiting += jobs
        self.new += jobs


def known(db: Session, tenants: Iterable[str]) -> dict[str, TenantLimits]:
    """Return what those of these tenants may have, but for their slots, that have a limit."""
    names = sorted({tenant for tenant in tenants if tenant})
    return {row[0]: _read(row) for row in tenant_rows.of(db, names)} if names else {}


def lock_name(tenant: str) -> str:
    """Return the name of the lock for counting the jobs of a tenant."""
    return f"\x1etenant {tenant}"


def check(board: Board, coming: Mapping[str, Coming]) -> list[tuple[str, Starts]]:
    """Raise if more jobs are *coming* than a tenant may have; the caller keeps others from adding some.

    Returns what `remember` must be given once nothing else refuses the jobs.
    """
    arrived = []
    for tenant, limits in known(board.db, coming).items():
        wanted = coming[tenant]
        if limits.scheduled is not None and wanted.scheduled > 0:
            scheduled = tenant_rows.scheduled(board.db, tenant)
            if scheduled + wanted.scheduled > limits.scheduled:
                raise TenantLimitError(tenant, "scheduled", scheduled, limits.scheduled)
        if limits.waiting is not None and wanted.waiting > 0:
            waiting = tenant_rows.waiting(board.db, tenant) + tenant_rows.scheduled(board.db, tenant)
            if waiting + wanted.waiting > limits.waiting:
                raise TenantLimitError(tenant, "waiting", waiting, limits.waiting)
        if limits.rate is not None and wanted.new:
            arrived.append((tenant, _arrive(board, tenant, limits.rate, wanted.new)))
    return arrived


def remember(board: Board, arrived: Iterable[tuple[str, Starts]]) -> None:
    """Write down when jobs of tenants came."""
    for tenant, arrivals in arrived:
        tenant_rows.save_arrivals(board.db, tenant, arrivals)


def _arrive(board: Board, tenant: str, rate: Window, jobs: int) -> Starts:
    """Return when jobs of a tenant came, with those that come now; raise if its rate refuses them."""
    gate = Gate(0, starts=tenant_rows.arrivals(board.db, tenant))
    # The clock may have been set back, and a transaction that went ahead may have read a later time.
    now = max([board.now, *(gate.starts.times[-1:] if gate.starts is not None else ())])
    gate.remember(Numbers(rate=rate), now)
    assert gate.starts is not None  # noqa: S101 - it remembers
    at = gate.opens_at(Numbers(rate=rate), jobs, now)
    if at > now:
        after = rate.period if at == ON_RELEASE else at - board.now
        used = gate.starts.since(now - rate.period)
        raise TenantLimitError(tenant, "rate", used, rate.limit, after)
    gate.starts.add(now, jobs)
    return gate.starts


def _limits(board: Board, tenant: str) -> TenantLimits:
    """Return what a tenant may have."""
    numbers = configured(board, "tenant", "", tenant)
    found = known(board.db, [tenant]).get(tenant, _FREE)
    return TenantLimits(
        None if numbers is None else numbers.slots, found.waiting, found.scheduled, found.rate
    )


def _put(board: Board, tenant: str, limits: TenantLimits) -> None:
    window = (None, None) if limits.rate is None else (limits.rate.limit, limits.rate.period)
    if limits.waiting is None and limits.scheduled is None and limits.rate is None:
        tenant_rows.remove(board.db, tenant)
    else:
        tenant_rows.put(board.db, (tenant, limits.waiting, limits.scheduled, *window))
    if limits.rate is None:
        tenant_rows.forget_arrivals(board.db, tenant)
    gate = gate_of(board, "tenant", "", tenant)
    count_running(board, "tenant", "", tenant, gate)
    numbers = None if limits.slots is None else Numbers(slots=limits.slots)
    change(board, gate, lambda rules: replace(rules, configured=numbers))


def _check(tenant: str, limits: TenantLimits) -> None:
    if not tenant:
        raise InvalidError("tenant", "must not be empty")
    check_tenant(tenant)
    for name in ("slots", "waiting", "scheduled"):
        if (number := getattr(limits, name)) is not None:
            check_whole(name, number, 0, MAX_NUMBER)


def _read(row: Row) -> TenantLimits:
    _, waiting, scheduled, limit, period = row
    return TenantLimits(None, waiting, scheduled, None if limit is None else Window(limit, period))
