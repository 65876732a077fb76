"""What clients ask about jobs: add them, look at them, cancel, restart, expedite and delete them."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar

from penstock.dialects.silo import shown
from penstock.dialects.silo import silo_pb2 as pb
from penstock.dialects.silo.call import Call
from penstock.dialects.silo.errors import message_of, refused
from penstock.dialects.silo.new_job import imported_job, new_job
from penstock.engine import Engine
from penstock.errors import NotFoundError, PenstockError, StoreError, WrongStateError
from penstock.http.tenancy import check_shared
from penstock.job import ImportedJob, JobView
from penstock.lifecycle.states import ENDED, State
from penstock.names import name_problem

T = TypeVar("T")
JobRequest = (
    pb.GetJobRequest
    | pb.GetJobResultRequest
    | pb.DeleteJobRequest
    | pb.CancelJobRequest
    | pb.RestartJobRequest
    | pb.ExpediteJobRequest
)


async def enqueue(call: Call, sent: pb.EnqueueRequest) -> pb.EnqueueResponse:
    """Add a job."""
    call.check_shard(sent.shard)
    job = new_job(sent, call.tenant(sent))
    check_shared(call, [job])
    (added,) = await call.service.enqueue([job])
    return pb.EnqueueResponse(id=added.id)


async def import_jobs(call: Call, sent: pb.ImportJobsRequest) -> pb.ImportJobsResponse:
    """Bring in jobs with the attempts they made elsewhere; one that is refused keeps no other from coming."""
    results, good = [], []
    for each in sent.jobs:
        result = pb.ImportJobResult(id=each.id)
        results.append(result)
        try:
            call.check_shard(each.shard)
            job = imported_job(each, call.tenant(each))
            check_shared(call, [job.job])
        except PenstockError as error:
            result.error = message_of(error)
        else:
            good.append((job, result))
    if good:
        outcomes = await call.service.run(lambda engine: _bring_in(engine, [job for job, _ in good]))
        for (_, result), outcome in zip(good, outcomes, strict=True):
            result.success = isinstance(outcome, JobView)
            if isinstance(outcome, JobView):
                result.status = shown.status_of(outcome)  # type: ignore[assignment]
            else:
                result.error = message_of(outcome)
    return pb.ImportJobsResponse(results=results)


def _bring_in(engine: Engine, jobs: Sequence[ImportedJob]) -> list[JobView | PenstockError]:
    """Bring in jobs in one transaction; each by itself if one of them is refused."""
    if len(jobs) > 1:
        try:
            engine.import_jobs(jobs)
        except StoreError:
            raise
        except PenstockError:
            return [_bring_in(engine, [job])[0] for job in jobs]
    else:
        try:
            engine.import_jobs(jobs)
        except StoreError:
            raise
        except PenstockError as error:
            return [error]
    return [engine.job(each.job.id or "", each.job.tenant) for each in jobs]


async def get_job(call: Call, sent: pb.GetJobRequest) -> pb.GetJobResponse:
    """Return a job."""

    def look(engine: Engine, job_id: str, tenant: str) -> pb.GetJobResponse:
        view = engine.job(job_id, tenant)
        history = engine.history(job_id, tenant) if sent.include_attempts or view.attempt else []
        return shown.job(view, history, attempts=sent.include_attempts)

    return await _about(call, sent, look)


async def get_result(call: Call, sent: pb.GetJobResultRequest) -> pb.GetJobResultResponse:
    """Return how a job has ended; refused while it has not."""
    view = await _about(call, sent, lambda engine, job_id, tenant: engine.job(job_id, tenant))
    if view.state not in ENDED:
        status = "Running" if view.state is State.RUNNING else "Scheduled"
        raise refused(f"job is not complete: status is {status}")
    return shown.result(view)


async def delete(call: Call, sent: pb.DeleteJobRequest) -> pb.DeleteJobResponse:
    """Forget a job that has ended; one that does not exist is forgotten already."""

    def work(engine: Engine, job_id: str, tenant: str) -> None:
        try:
            engine.forget(job_id, tenant)
        except WrongStateError as error:
            raise refused(
                f"cannot delete job {job_id}: job is {error.state}, not in a terminal state"
            ) from None

    with suppress(NotFoundError):
        await _about(call, sent, work)
    return pb.DeleteJobResponse()


async def cancel(call: Call, sent: pb.CancelJobRequest) -> pb.CancelJobResponse:
    """Cancel a job: at once if it waits; the worker of one that runs is asked to stop."""

    def work(engine: Engine, job_id: str, tenant: str) -> None:
        try:
            engine.cancel(job_id, tenant=tenant)
        except WrongStateError as error:
            cancelled = error.state == State.CANCELLED
            raise refused(
                "job is already cancelled" if cancelled else "job is already in terminal state"
            ) from None

    await _about(call, sent, work)
    return pb.CancelJobResponse()


async def restart(call: Call, sent: pb.RestartJobRequest) -> pb.RestartJobResponse:
    """Let a job that failed or was cancelled come again, with all its attempts; it passes its limits."""

    def work(engine: Engine, job_id: str, tenant: str) -> None:
        try:
            engine.retry(job_id, tenant)
        except WrongStateError as error:
            why = "job already succeeded" if error.state == State.DONE else "job is still in progress"
            raise refused(f"cannot restart job {job_id}: {why}") from None

    await _about(call, sent, work)
    return pb.RestartJobResponse()


async def expedite(call: Call, sent: pb.ExpediteJobRequest) -> pb.ExpediteJobResponse:
    """Let a job that is scheduled be due now; it stands in line for its limits."""

    def work(engine: Engine, job_id: str, tenant: str) -> None:
        view = engine.job(job_id, tenant)
        if view.state is State.SCHEDULED:
            try:
                engine.expedite(job_id, tenant)
            except WrongStateError:
                view = engine.job(job_id, tenant)
            else:
                return
        raise refused(f"cannot expedite job {job_id}: {_why_not(view)}")

    await _about(call, sent, work)
    return pb.ExpediteJobResponse()


def _why_not(view: JobView) -> str:
    if view.state is State.CANCELLED:
        return "job is cancelled"
    if view.state in ENDED:
        return "job is already in terminal state"
    if view.state is State.RUNNING:
        return "job is currently running"
    return "task is already ready to run (not future-scheduled)"


async def _about(call: Call, sent: JobRequest, work: Callable[[Engine, str, str], T]) -> T:
    """Do something about one job of the call's tenant."""
    call.check_shard(sent.shard)
    tenant = call.tenant(sent)
    if name_problem(sent.id) is not None:
        raise NotFoundError("job", sent.id)
    return await call.service.run(lambda engine: work(engine, sent.id, tenant))
