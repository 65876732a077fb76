"""What workers ask: claim, settle, and renew leases."""

from collections.abc import Iterator, Sequence

import msgspec
from msgspec.structs import asdict, replace

from penstock.client import verbs, wire
from penstock.dialects.native.endpoint import endpoint
from penstock.dialects.native.idempotency import KeptAnswer
from penstock.dialects.native.json_checks import check_settlement, check_value
from penstock.dialects.native.tenancy import Owners, own_arguments, own_attempts, tenant_or_all
from penstock.engine import Engine
from penstock.http.routes import Request, invalid
from penstock.http.tenancy import check_shared
from penstock.job import (
    Ahead,
    Beat,
    Child,
    Claim,
    ClaimFor,
    NewJob,
    Refresh,
    RefreshesFor,
    RefreshReport,
    Settled,
    Settlement,
    Start,
)
from penstock.lifecycle.checks import check_whole
from penstock.lifecycle.outcomes import Again, Conducted, HandedBack, Limited

MOST = 2**63 - 1


async def claim(request: Request, take: wire.ClaimRequest) -> KeptAnswer:
    """Start jobs for a worker."""
    tenant = tenant_or_all(request, take.tenant)
    tasks = None if take.tasks is None else tuple(take.tasks)
    wanted = ClaimFor(
        tuple(take.queues), take.count, take.worker, take.lease, take.grace, tenant=tenant, tasks=tasks,
        ahead=await _own_ahead(request, take.ahead), relay=tuple(take.relay), standby=take.standby,
    )  # fmt: skip
    found = _known(request, await request.service.take(wanted, request.claims))
    return KeptAnswer(wire.encode(found), found.jobs, wire.encode(_without(found)))


async def claim_one(request: Request, body: wire.ClaimOneRequest) -> KeptAnswer:
    """Start one job by its id."""
    arguments = own_arguments(request, body)

    def work(engine: Engine) -> tuple[None, Claim]:
        return None, Claim([engine.claim_one(**arguments)], more=False, next_at=None)

    _, claim = await request.service.run_claiming(work, request.claims)
    found = _known(request, claim)
    return KeptAnswer(wire.encode(found), found.jobs, wire.encode(_without(found)))


async def settle(request: Request, body: wire.SettleRequest) -> list[Settled]:
    """Record how attempts ended."""
    settlements = _settlements(request, body.reports)
    own = await own_attempts(request, (each.seq for each in settlements))
    if not settlements or not own:
        return [False] * len(settlements)
    mine = [each for each in settlements if each.seq in own]
    answers = iter(await request.service.run(lambda engine: engine.settle(mine)))
    told = [each.seq in own and next(answers) for each in settlements]
    return told if body.sequels else _accepted(told)


async def exchange(request: Request, body: wire.ExchangeRequest) -> KeptAnswer:
    """Settle, then claim, in one transaction."""
    settlements, take = _settlements(request, body.reports), body.take
    tenant = tenant_or_all(request, take.tenant)
    own = await own_attempts(request, (each.seq for each in settlements))
    mine = [each for each in settlements if each.seq in own]
    wanted = {**asdict(take), "tenant": tenant, "ahead": await _own_ahead(request, take.ahead)}
    answers, claim = await request.service.run_claiming(
        lambda engine: engine.exchange(mine, **wanted), request.claims
    )
    found = _known(request, claim)
    accepted = iter(answers)
    told = [each.seq in own and next(accepted) for each in settlements]
    told = told if body.sequels else _accepted(told)
    without = wire.encode(wire.Exchanged(told, _without(found)))
    return KeptAnswer(wire.encode(wire.Exchanged(told, found)), found.jobs, without)


async def _own_ahead(request: Request, ahead: Ahead | None) -> Ahead | None:
    """Return what a claim asks for ahead, as far as it speaks of attempts of the tenant of its token."""
    if ahead is None:
        return None
    told = (*ahead.held, *ahead.begun)
    own = await own_attempts(request, (seq for seq, _, _ in told))
    held, begun_ = (tuple(each for each in some if each[0] in own) for some in (ahead.held, ahead.begun))
    return replace(ahead, held=held, begun=begun_)


async def begun(request: Request, body: wire.BegunRequest) -> None:
    """Take note of when handlers began."""
    own = await own_attempts(request, (seq for seq, _, _ in body.reports))
    mine = [report for report in body.reports if report[0] in own]
    await request.service.run(lambda engine: engine.begun(mine))


async def heartbeat(request: Request, body: wire.HeartbeatRequest) -> list[Beat]:
    """Renew leases."""
    own = await own_attempts(request, (seq for seq, _ in body.attempts))
    mine = [attempt for attempt in body.attempts if attempt[0] in own]
    beats = iter(await request.service.run(lambda engine: engine.heartbeat(mine, lease=body.lease)))
    return [next(beats) if seq in own else Beat(seq, alive=False) for seq, _ in body.attempts]


async def progress(request: Request, body: wire.ProgressRequest) -> bool:
    """Keep how far an attempt is."""
    check_value("progress", body.value)
    if not await own_attempts(request, [body.seq]):
        return False
    return await request.service.run(lambda engine: engine.progress(body.seq, body.fence, body.value))


async def spend(request: Request, body: wire.SpendRequest) -> list[bool]:
    """Keep what attempts used."""
    own = await own_attempts(request, (seq for seq, _, _ in body.reports))
    mine = [report for report in body.reports if report[0] in own]
    answers = iter(await request.service.run(lambda engine: engine.spend(mine)))
    return [seq in own and next(answers) for seq, _, _ in body.reports]


async def refreshes(request: Request, body: wire.RefreshesRequest) -> list[Refresh]:
    """Lend floating limits that are due; to a token of one tenant only its own, not those that all tenants share."""
    tenant = tenant_or_all(request, body.tenant)
    return await request.service.refreshes(
        RefreshesFor(body.count, body.worker, tuple(body.handlers), tuple(body.queues), body.lease, tenant)
    )


async def renew_refreshes(request: Request, body: wire.RenewRefreshesRequest) -> list[bool]:
    """Leave floating limits to the worker that computes them."""
    return await request.service.run(
        lambda engine: engine.renew_refreshes(body.lent, lease=body.lease, tenant=request.tenant)
    )


async def refreshed(request: Request, body: wire.RefreshedRequest) -> bool:
    """Take the new value of a floating limit."""
    gate, fence = body.refresh.gate, body.refresh.fence
    check_whole("refresh.gate", gate, 0, MOST)
    return await request.service.refreshed(RefreshReport(gate, fence, body.value, body.error, request.tenant))


def _settlements(request: Request, reports: Sequence[wire.AttemptReport]) -> list[Settlement]:
    try:
        settlements = wire.settlements_of(reports)
    except msgspec.ValidationError as error:
        raise invalid(error) from None
    for each in settlements:
        check_settlement(each)
        match each.outcome:
            case Again(after=int() as moment) | HandedBack(after=moment) | Limited(until=moment):
                check_whole("outcome", moment, 0, MOST)
            case Conducted(commands=commands):
                check_shared(request, [*_asked_for(commands)])
            case _:
                pass
    return settlements


def _asked_for(commands: Sequence[object]) -> Iterator[NewJob]:
    """Return the jobs that a pass asks for, and its children as jobs with the same limits."""
    for command in commands:
        match command:
            case Start(job=job):
                yield job
            case Child(instance=new):
                yield NewJob(new.workflow, limits=new.limits)
            case _:
                pass


def _accepted(told: Sequence[Settled]) -> list[Settled]:
    """Return answers for a client that knows yes and no only."""
    return [bool(each) for each in told]


def _known(request: Request, claim: Claim) -> Claim:
    """Return a claim; the jobs of a tenant are remembered as its own."""
    if request.tenant is not None:
        owners = request.service.part(Owners)
        for job in claim.jobs:
            owners.note(job.seq, job.tenant)
    return claim


def _without(claim: Claim) -> Claim:
    """Return what is left of a claim whose jobs were given back."""
    return Claim([], more=True, next_at=claim.next_at)


ROUTES = (
    endpoint(verbs.CLAIM, claim),
    endpoint(verbs.CLAIM_ONE, claim_one),
    endpoint(verbs.SETTLE, settle),
    endpoint(verbs.EXCHANGE, exchange),
    endpoint(verbs.BEGUN, begun),
    endpoint(verbs.HEARTBEAT, heartbeat),
    endpoint(verbs.PROGRESS, progress),
    endpoint(verbs.SPEND, spend),
    endpoint(verbs.REFRESHES, refreshes),
    endpoint(verbs.RENEW_REFRESHES, renew_refreshes),
    endpoint(verbs.REFRESHED, refreshed),
)
