"""What each call answers, in the words that Silo's clients know."""

import time

import grpc
import pytest

from penstock.dialects.silo import silo_pb2 as pb
from tests.support.silo import concurrency, floating, pack, payloads, rate, refused, retries, unpack
from tests.support.timing import until

ELSEWHERE = "00000000-0000-4000-8000-000000000000"
LATER = 3_600_000


def soon():
    return int(time.time() * 1_000)


def test_there_is_one_shard_and_the_server_that_is_asked_owns_it(silo, lasting):
    info = silo.GetClusterInfo()

    (owner,) = info.shard_owners
    assert (1, lasting.silo) == (info.num_shards, owner.grpc_addr)
    assert ("", "") == (owner.range_start, owner.range_end)
    silo.enqueue(1)
    assert owner.shard_id == silo.lease().tasks[0].shard
    assert info.this_node_id == owner.node_id == info.members[0].node_id


def test_a_call_for_another_shard_is_sent_to_its_owner(silo, lasting):
    with pytest.raises(Exception, match="shard not found") as caught:
        silo.GetJob(id="x", shard=ELSEWHERE)

    assert ("x-silo-shard-owner-addr", lasting.silo) in caught.value.trailing_metadata()
    refused("INVALID_ARGUMENT", lambda: silo.GetJob(id="x", shard="zz"), "invalid shard ID")


def test_a_job_is_shown_as_it_was_sent(silo):
    sent = {
        "limits": [
            concurrency("b", 5),
            floating("a", 7, 60_000, env="test"),
            rate("api", "user", 100, 60_000, 2, algorithm=pb.LEAKY_BUCKET, behavior=pb.GLOBAL),
        ],
        "retry_policy": retries(3, 1_000, 30_000, 2.5),
        "metadata": {"source": "test"},
        "task_group": "mail",
    }
    job = silo.Enqueue(payload=pack({"n": 1}), priority=25, start_at_ms=soon() + LATER, **sent).id

    shown = silo.GetJob(id=job)

    assert (job, 25, "mail", pb.SCHEDULED) == (shown.id, shown.priority, shown.task_group, shown.status)
    assert sent["limits"] == list(shown.limits)
    assert sent["retry_policy"] == shown.retry_policy
    assert sent["metadata"] == dict(shown.metadata)
    assert {"n": 1} == unpack(shown.payload)
    assert shown.next_attempt_starts_after_ms > soon() + LATER - 60_000
    assert not shown.HasField("result")


def test_a_task_tells_its_worker_all_there_is_to_know(silo):
    job = silo.enqueue("x", concurrency("k", 2), priority=7, metadata={"a": "b"}, tenant="acme")

    (task,) = silo.lease().tasks

    assert (job, "acme", 7, "default", 10_000) == (
        task.job_id, task.tenant_id, task.priority, task.task_group, task.lease_ms,
    )  # fmt: skip
    assert (1, 1, True) == (task.attempt_number, task.relative_attempt_number, task.is_last_attempt)
    assert ([concurrency("k", 2)], {"a": "b"}) == (list(task.limits), dict(task.metadata))
    assert "RUNNING" == silo.status(job, "acme")


def test_a_result_is_told_when_there_is_one(silo):
    jobs = {name: silo.enqueue(name) for name in ("done", "failed", "cancelled", "waits", "runs")}
    tasks = {unpack(task.payload): task for task in silo.lease(most=3).tasks}
    silo.done(tasks["done"], 42)
    silo.fail(tasks["failed"], "TEST_ERROR", {"reason": "x"})
    silo.ReportOutcome(task_id=tasks["cancelled"].id, cancelled=pb.Cancelled())

    done, failed, cancelled = (silo.GetJobResult(id=jobs[name]) for name in ("done", "failed", "cancelled"))

    assert (pb.SUCCEEDED, 42) == (done.status, unpack(done.success_data))
    assert (pb.FAILED, "TEST_ERROR") == (failed.status, failed.failure.error_code)
    assert {"reason": "x"} == unpack(failed.failure.error_data)
    assert pb.CANCELLED == cancelled.status
    assert cancelled.cancelled.cancelled_at_ms == cancelled.finished_at_ms > 0
    incomplete = "job is not complete: status is Scheduled"
    refused("FAILED_PRECONDITION", lambda: silo.GetJobResult(id=jobs["waits"]), incomplete)
    refused("NOT_FOUND", lambda: silo.GetJobResult(id="none"), "job not found")


def test_cancel_delete_restart_and_expedite_say_why_they_cannot(silo):
    waits, later = silo.enqueue("waits"), silo.enqueue("later", start_at_ms=soon() + LATER)
    done = silo.enqueue("done", priority=1)
    silo.done(silo.lease(most=1).tasks[0])
    cannot = "FAILED_PRECONDITION"

    refused(cannot, lambda: silo.CancelJob(id=done), "job is already in terminal state")
    refused(cannot, lambda: silo.RestartJob(id=done), f"cannot restart job {done}: job already succeeded")
    refused(cannot, lambda: silo.RestartJob(id=waits), "job is still in progress")
    refused(cannot, lambda: silo.ExpediteJob(id=done), "job is already in terminal state")
    refused(cannot, lambda: silo.ExpediteJob(id=waits), "task is already ready to run (not future-scheduled)")
    refused(cannot, lambda: silo.DeleteJob(id=waits), "terminal")
    (task,) = silo.lease().tasks
    refused(cannot, lambda: silo.ExpediteJob(id=waits), "job is currently running")
    refused(cannot, lambda: silo.LeaseTask(id=waits, worker_id="w"), f"cannot lease job {waits}")
    silo.CancelJob(id=later)
    refused(cannot, lambda: silo.CancelJob(id=later), "job is already cancelled")
    refused(cannot, lambda: silo.ExpediteJob(id=later), "job is cancelled")
    for call in (silo.CancelJob, silo.RestartJob, silo.ExpediteJob, silo.GetJob):
        refused("NOT_FOUND", lambda call=call: call(id="none"), "job not found")
    silo.DeleteJob(id="none")
    silo.DeleteJob(id=done)
    refused("NOT_FOUND", lambda: silo.GetJob(id=done), "job not found")
    silo.done(task)


def test_an_expedited_job_starts_and_one_leased_by_its_id_passes_the_line(silo):
    for n in range(3):
        silo.enqueue(n)
    job = silo.enqueue("later", start_at_ms=soon() + LATER)

    silo.ExpediteJob(id=job)
    task = silo.LeaseTask(id=job, worker_id="w").task

    assert ("later", 1) == (unpack(task.payload), task.attempt_number)
    silo.done(task)
    assert "SUCCEEDED" == silo.status(job)
    refused("INVALID_ARGUMENT", lambda: silo.LeaseTask(id=job), "worker_id is required")


def test_a_heartbeat_counts_for_the_worker_that_has_the_task(silo):
    silo.enqueue("x")
    (task,) = silo.lease("w").tasks

    assert not silo.Heartbeat(worker_id="w", task_id=task.id).cancelled

    mismatch = "lease owner mismatch"
    refused("FAILED_PRECONDITION", lambda: silo.Heartbeat(worker_id="v", task_id=task.id), mismatch)
    silo.done(task)
    refused("NOT_FOUND", lambda: silo.Heartbeat(worker_id="w", task_id=task.id), "lease not found")
    refused("NOT_FOUND", lambda: silo.done(task), "lease not found")
    refused("NOT_FOUND", lambda: silo.Heartbeat(worker_id="w", task_id="no task"), "lease not found")


def test_imported_jobs_end_as_their_last_attempt_did(silo):
    def attempt(status):
        return pb.ImportAttempt(
            status=status, started_at_ms=1, finished_at_ms=2, result=pack(7), error_code="E"
        )

    done, failed, cancelled = map(attempt, (pb.ATTEMPT_SUCCEEDED, pb.ATTEMPT_FAILED, pb.ATTEMPT_CANCELLED))
    jobs = {
        "done": {"attempts": [failed, done], "retry_policy": retries(3)},
        "failed": {"attempts": [failed]},
        "used up": {"attempts": [failed, failed], "retry_policy": retries(1)},
        "cancelled": {"attempts": [cancelled]},
        "goes on": {"attempts": [failed, failed], "retry_policy": retries(2)},
        "new": {},
        "running": {"attempts": [attempt(pb.ATTEMPT_RUNNING)]},
        "": {},
    }
    silo.enqueue("taken", id="taken", tenant="t")

    results = silo.ImportJobs(
        jobs=[
            pb.ImportJobRequest(id=id_, tenant="t", payload=pack(id_), **more) for id_, more in jobs.items()
        ]
        + [pb.ImportJobRequest(id="taken", tenant="t", payload=pack("x"))]
    ).results

    assert [*jobs, "taken"] == [result.id for result in results]
    good = {result.id: pb.JobStatus.Name(result.status) for result in results if result.success}
    assert {
        "done": "SUCCEEDED", "failed": "FAILED", "used up": "FAILED", "cancelled": "CANCELLED",
        "goes on": "SCHEDULED", "new": "SCHEDULED",
    } == good  # fmt: skip
    assert ["must be terminal", "job id is required", "already"] == [
        next(word for word in ("must be terminal", "job id is required", "already") if word in result.error)
        for result in results
        if not result.success
    ]
    assert 7 == unpack(silo.GetJobResult(id="done", tenant="t").success_data)
    tasks = {unpack(task.payload): task for task in silo.lease().tasks}
    assert {"goes on": (3, True), "new": (1, True), "taken": (1, True)} == {
        name: (task.attempt_number, task.is_last_attempt) for name, task in tasks.items()
    }


def test_a_job_of_another_client_is_shown_and_left_to_its_workers(silo, lasting):
    job = lasting.enqueue({"type": "mail", "args": [1, "two"]})
    silo.enqueue("mine")

    assert ["mine"] == payloads(silo.lease().tasks)

    shown = silo.GetJob(id=job["id"])
    assert (pb.SCHEDULED, {"args": [1, "two"]}) == (shown.status, unpack(shown.payload))
    assert [job["id"]] == [each["id"] for each in lasting.fetch("default")]


@pytest.mark.parametrize(
    "kept",
    [
        {"limits": [{"nonsense": {}}]},
        {"limits": [{"concurrency": {"key": 5}}]},
        {"limits": [{"concurrency": {"key": "k", "max_concurrency": -1}}]},
        {"limits": [5]},
        {"priority": 2**40},
        {"retry_policy": {}},
        {"retry_policy": {"retry_count": "x"}},
        {"metadata": 5},
    ],
    ids=str,
)
def test_a_job_with_which_another_client_poses_as_ours_is_no_trouble_to_workers(silo, lasting, kept):
    job = lasting.enqueue({"type": "silo", "args": [10**30], "meta": {"silo": kept}})
    silo.enqueue("mine")

    tasks = silo.lease().tasks

    assert [{"args": [1e30]}, "mine"] == payloads(tasks)
    assert ({}, []) == (dict(tasks[0].metadata), list(tasks[0].limits))
    assert (pb.RUNNING, {"args": [1e30]}) == (
        silo.GetJob(id=job["id"]).status, unpack(silo.GetJob(id=job["id"]).payload),
    )  # fmt: skip


def test_calls_are_counted_among_the_requests(silo, lasting):
    silo.enqueue("x")

    page = lasting.get("/penstock/v1/metrics").body.decode()

    assert 'route="/silo.v1.Silo/Enqueue",status="OK"' in page.replace(" ", "")


def gives_up_on_a_held_answer(silo, key):
    """Let a worker give up while its answer is held for the moment of its task; return the next task."""
    spaced = rate("api", key, 1, 300, algorithm=pb.LEAKY_BUCKET)
    for n in range(2):
        silo.enqueue(n, spaced)
    until(lambda: silo.lease().tasks)
    given_up = False
    while not given_up:
        try:
            found = silo.send(
                "LeaseTasks", pb.LeaseTasksRequest(worker_id="hasty", max_tasks=1), timeout=0.03
            )
        except grpc.RpcError:
            given_up = True
        else:
            assert not found.tasks, "its answer came before the moment of its task"
    (task,) = until(lambda: silo.lease("patient").tasks, 5)
    return task


def test_a_task_whose_worker_gave_up_before_the_answer_goes_to_the_next(silo):
    seen = []

    # An answer that was sent as its worker gave up may have been read: then the task is its worker's.
    for key in ("a", "b", "c", "d"):
        try:
            seen.append(gives_up_on_a_held_answer(silo, key).attempt_number)
        except AssertionError:
            continue
        break

    assert [1] == seen
