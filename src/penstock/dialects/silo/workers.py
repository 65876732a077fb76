"""What workers ask: tasks to run, limits to compute, more time, and how it ended."""

from typing import Final

from penstock.clock import MILLISECOND
from penstock.dialects.silo import shown
from penstock.dialects.silo import silo_pb2 as pb
from penstock.dialects.silo.call import Call
from penstock.dialects.silo.errors import LeaseGoneError, invalid, refused
from penstock.dialects.silo.limits import check_name
from penstock.dialects.silo.new_job import failed_with, task_group
from penstock.dialects.silo.stored import LEASE, TASK, refresh_numbers, task_numbers, text_of
from penstock.errors import ConflictError, InvalidError, NotFoundError
from penstock.http.tenancy import check_unbound
from penstock.job import Claimed, ClaimFor, RefreshesFor, RefreshReport, Renewal, Settlement
from penstock.lifecycle.outcomes import Cancelled, Done, Failed, Outcome
from penstock.names import name_problem

MOST_TASKS: Final = 1_000  # of one answer
LONGEST_CODE: Final = 1_024  # characters
TRIES: Final = 3  # if all that was claimed comes too late to begin
NO_NAME: Final = "-"  # of a worker


async def lease_tasks(call: Call, sent: pb.LeaseTasksRequest) -> pb.LeaseTasksResponse:
    """Hand out jobs that may start now, of all tenants, and floating limits to compute.

    The jobs start when the answer is sent.
    """
    check_unbound(call)
    call.check_shard(sent.shard)
    group, worker = task_group(sent.task_group), _worker(sent.worker_id)
    count = min(sent.max_tasks, MOST_TASKS)
    if not count:
        return pb.LeaseTasksResponse()
    service = call.service
    wanted = ClaimFor((group,), count, worker, LEASE, tasks=(TASK,), numbered=True)
    refreshing = RefreshesFor(count, worker, queues=(group,), lease=LEASE)
    for _ in range(TRIES):
        claimed, refreshes = await service.lease(wanted, refreshing, call.claims)
        tasks = await _in_time(call, claimed)
        if tasks or not claimed or refreshes:
            break
    return pb.LeaseTasksResponse(tasks=tasks, refresh_tasks=map(shown.refresh_task, refreshes))


async def lease_task(call: Call, sent: pb.LeaseTaskRequest) -> pb.LeaseTaskResponse:
    """Hand out this job, before others of its line, if all its limits let it start."""
    check_unbound(call)
    call.check_shard(sent.shard)
    if not sent.worker_id:
        raise invalid("worker_id is required")
    worker, tenant = _worker(sent.worker_id), call.tenant(sent)
    if name_problem(sent.id) is not None:
        raise NotFoundError("job", sent.id)
    try:
        job = await call.service.claim_one(sent.id, worker, LEASE, tenant, call.claims)
    except ConflictError as error:
        raise refused(f"cannot lease job {sent.id}: {error}") from None
    tasks = await _in_time(call, [job])
    if not tasks:
        raise refused(f"cannot lease job {sent.id}: the answer would come too late")
    return pb.LeaseTaskResponse(task=tasks[0])


async def _in_time(call: Call, claimed: list[Claimed]) -> list[pb.Task]:
    """Wait for the moment of jobs that were claimed, and return those that may start still."""
    tasks = {job.seq: shown.task(job) for job in claimed}
    return [tasks[job.seq] for job in await call.service.in_time(claimed)]


async def report(call: Call, sent: pb.ReportOutcomeRequest) -> pb.ReportOutcomeResponse:
    """Record how an attempt ended."""
    check_unbound(call)
    call.check_shard(sent.shard)
    outcome, numbers = _outcome(sent), task_numbers(sent.task_id)
    if numbers is None or await call.service.settle(Settlement(*numbers, outcome)) is None:
        raise LeaseGoneError
    return pb.ReportOutcomeResponse()


def _outcome(sent: pb.ReportOutcomeRequest) -> Outcome:
    match sent.WhichOneof("outcome"):
        case "success":
            return Done(text_of(sent.success.msgpack, "success"))
        case "failure":
            code = sent.failure.code
            if len(code) > LONGEST_CODE:
                raise InvalidError(
                    "failure.code", f"has {len(code)} characters; at most {LONGEST_CODE} are kept"
                )
            return Failed(code, failed_with(code), details=text_of(sent.failure.data.msgpack, "failure.data"))
        case "cancelled":
            return Cancelled("cancelled by its worker")
        case _:
            raise invalid("missing outcome")


async def report_refresh(call: Call, sent: pb.ReportRefreshOutcomeRequest) -> pb.ReportRefreshOutcomeResponse:
    """Take what a worker computed, or why it could not; a value below 1 counts as a failure."""
    check_unbound(call)
    call.check_shard(sent.shard)
    value, problem = None, ""
    match sent.WhichOneof("outcome"):
        case "success" if sent.success.new_max_concurrency:
            value, error = sent.success.new_max_concurrency, ""
        case "success":
            problem = error = "0 must be at least 1; the value stays, and this counts as a failed refresh"
        case "failure":
            error = f"{sent.failure.code}: {sent.failure.message}"
        case _:
            raise invalid("missing outcome")
    numbers = refresh_numbers(sent.task_id)
    if numbers is None or not await call.service.refreshed(RefreshReport(*numbers, value, error)):
        raise LeaseGoneError
    if problem:
        raise InvalidError("success.new_max_concurrency", problem)
    return pb.ReportRefreshOutcomeResponse()


async def heartbeat(call: Call, sent: pb.HeartbeatRequest) -> pb.HeartbeatResponse:
    """Leave a task, or a limit to compute, to its worker; tell whether its job is cancelled."""
    check_unbound(call)
    call.check_shard(sent.shard)
    refresh = refresh_numbers(sent.task_id)
    if refresh is not None:
        if not await call.service.renew_refresh(*refresh, LEASE):
            raise LeaseGoneError
        return pb.HeartbeatResponse()
    numbers = task_numbers(sent.task_id)
    if numbers is None:
        raise LeaseGoneError
    beat = await call.service.beat(Renewal(*numbers, LEASE, _worker(sent.worker_id)))
    if beat.holder is not None:
        raise refused("lease owner mismatch")
    if not beat.alive:
        raise LeaseGoneError
    at = beat.cancel_at // MILLISECOND if beat.cancel_asked else None
    return pb.HeartbeatResponse(cancelled=beat.cancel_asked, cancelled_at_ms=at)


def _worker(name: str) -> str:
    return check_name("worker_id", name) if name else NO_NAME
