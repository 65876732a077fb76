"""Where the guide and Silo's code part ways, the guide holds here: each row by a test of its name.

So do the gaps that a client of Silo would meet in an engine without them.
"""

import time

import pytest

from penstock.dialects.silo import silo_pb2 as pb
from tests.support.silo import concurrency, floating, pack, payloads, rate, refused, retries, unpack
from tests.support.timing import until


def test_row_1_priority_goes_before_start_time(silo):
    one, now = concurrency("one", 1), int(time.time() * 1_000)
    silo.enqueue("runs", one)
    (running,) = silo.lease().tasks
    silo.enqueue("early", one, priority=50, start_at_ms=now - 60_000)
    silo.enqueue("late but urgent", one, priority=1, start_at_ms=now)

    silo.done(running)

    assert ["late but urgent"] == payloads(silo.lease().tasks)


def test_row_2_a_job_that_waited_is_judged_by_its_own_maximum_not_by_the_oldest_ones(silo):
    for n in range(2):
        silo.enqueue(n, concurrency("key", 2))
    first = silo.lease().tasks
    silo.enqueue("small", concurrency("key", 1))
    silo.enqueue("large", concurrency("key", 3))

    assert ["large"] == payloads(silo.lease().tasks)

    silo.enqueue("large too", concurrency("key", 3))
    for task in first:
        silo.done(task)
    assert ["large too"] == payloads(silo.lease().tasks)


def test_row_2_a_job_with_a_small_maximum_is_not_starved_by_a_stream_of_large_ones(silo):
    for n in range(3):
        silo.enqueue(n, concurrency("key", 3))
    running = list(silo.lease(most=3).tasks)
    silo.enqueue("small", concurrency("key", 1))
    started = []

    for n in range(30):
        silo.enqueue(f"large {n}", concurrency("key", 3))
        silo.done(running.pop(0))
        running += silo.lease(most=3).tasks
        started = payloads(running)
        if "small" in started or not running:
            break

    assert "small" in started


def test_row_3_a_floating_value_below_one_is_refused_and_counts_as_a_failed_refresh(silo):
    for n in range(3):
        silo.enqueue(n, floating("api", 1, 1))
    (refresh,) = silo.lease().refresh_tasks

    refused("INVALID_ARGUMENT", lambda: silo.refresh(refresh, 0), "new_max_concurrency", "at least 1")

    refused("NOT_FOUND", lambda: silo.refresh(refresh, 3), "lease not found")
    began = time.monotonic()
    (again,) = until(lambda: silo.lease().refresh_tasks)
    assert time.monotonic() - began > 0.8, "it is tried again after a second"
    assert (1, 0) == (again.current_max_concurrency, again.last_refreshed_at_ms)


def test_row_4_a_backlog_is_refreshed_though_nothing_is_enqueued(silo):
    for n in range(4):
        silo.enqueue(n, floating("api", 1, 50))
    (refresh,) = silo.lease().refresh_tasks
    silo.refresh(refresh, 1)

    (again,) = until(lambda: silo.lease().refresh_tasks)
    silo.refresh(again, 3)

    assert [1, 2] == payloads(silo.lease().tasks)


def test_row_5_a_job_over_its_rate_waits_its_turn_and_is_never_left_behind(silo):
    policy = pb.RateLimitRetryPolicy(
        initial_backoff_ms=1, max_backoff_ms=2, backoff_multiplier=2, max_retries=1
    )
    jobs = [silo.enqueue(n, rate("api", "k", 1, 200, retry_policy=policy)) for n in range(3)]

    for _ in jobs:
        (task,) = until(lambda: silo.lease().tasks)
        silo.done(task)

    assert ["SUCCEEDED"] * 3 == [silo.status(job) for job in jobs]
    assert policy == silo.GetJob(id=jobs[0]).limits[0].rate_limit.retry_policy


@pytest.mark.parametrize(
    "limit", [concurrency("key", 1), rate("api", "key", 1, 3_600_000)], ids=["slots", "rate"]
)
def test_row_6_a_restarted_job_passes_its_limits(silo, limit):
    job = silo.enqueue("again", limit)
    silo.CancelJob(id=job)
    silo.enqueue("runs", limit)
    (running,) = silo.leased(1)

    silo.RestartJob(id=job)

    assert not silo.lease().tasks
    silo.done(running)
    if limit.WhichOneof("limit") == "concurrency":
        assert ["again"] == payloads(silo.lease().tasks)
    else:
        assert not silo.lease().tasks


def test_row_7_limits_may_be_in_any_order(silo):
    x, y = concurrency("x", 1), concurrency("y", 1)
    silo.enqueue("xy", x, y)
    silo.enqueue("yx", y, x)
    silo.enqueue("y", y)

    (first,) = silo.lease().tasks
    silo.done(first)
    (second,) = silo.lease().tasks
    silo.done(second)

    assert ["xy", "yx", "y"] == payloads([first, second, *silo.lease().tasks])


def test_a_slot_is_held_from_lease_to_report_and_not_before(silo):
    key = concurrency("key", 1)
    silo.enqueue("no worker polls this group", key, task_group="idle")
    silo.enqueue("free to go", key)

    assert ["free to go"] == payloads(silo.lease().tasks)


def test_a_job_between_two_attempts_holds_no_slot(silo):
    key = concurrency("key", 1)
    job = silo.enqueue("fails", key, retry_policy=retries(3, 60_000, 60_000))
    (task,) = silo.lease().tasks
    silo.enqueue("next", key)

    silo.fail(task)

    assert ["next"] == payloads(silo.lease().tasks)
    assert silo.GetJob(id=job).next_attempt_starts_after_ms > time.time() * 1_000 + 30_000


def test_a_failure_of_a_cancelled_job_is_not_tried_again(silo):
    job = silo.enqueue("cancelled", retry_policy=retries(5))
    (task,) = silo.lease().tasks
    silo.CancelJob(id=job)
    beat = silo.Heartbeat(worker_id="w", task_id=task.id)

    silo.fail(task)

    assert beat.cancelled
    assert beat.cancelled_at_ms > 0
    assert "CANCELLED" == silo.status(job)


def test_a_job_that_is_cancelled_while_its_rate_is_spent_and_restarted_runs_once(silo):
    spent = rate("api", "key", 1, 1_000)
    silo.enqueue("first", spent)
    silo.leased(1)
    job = silo.enqueue("second", spent)
    assert not silo.lease().tasks

    silo.CancelJob(id=job)
    silo.RestartJob(id=job)

    (task,) = until(lambda: silo.lease().tasks)
    silo.done(task)
    assert 1 == len(silo.GetJob(id=job, include_attempts=True).attempts)
    assert "SUCCEEDED" == silo.status(job)


def test_numbers_of_attempts_go_on_after_a_restart_and_relative_ones_begin_again(silo):
    job = silo.enqueue("fails", retry_policy=retries(1))
    seen = []
    for ending in ("fail", "fail", "restart", "fail", "done"):
        if ending == "restart":
            assert "FAILED" == silo.status(job)
            silo.RestartJob(id=job)
            continue
        (task,) = until(lambda: silo.lease().tasks)
        seen.append((task.attempt_number, task.relative_attempt_number, task.is_last_attempt))
        (silo.fail if ending == "fail" else silo.done)(task)

    assert [(1, 1, False), (2, 2, True), (3, 1, False), (4, 2, True)] == seen
    attempts = silo.GetJob(id=job, include_attempts=True).attempts
    assert [1, 2, 3, 4] == [attempt.attempt_number for attempt in attempts]
    assert [pb.ATTEMPT_FAILED] * 3 + [pb.ATTEMPT_SUCCEEDED] == [attempt.status for attempt in attempts]


@pytest.mark.parametrize(
    "limit", [concurrency("key", 1), rate("api", "key", 1, 3_600_000)], ids=["slots", "rate"]
)
def test_an_expedited_job_and_one_leased_by_its_id_pass_the_gates(silo, limit):
    later = int(time.time() * 1_000) + 3_600_000
    silo.enqueue("runs", limit)
    silo.leased(1)
    job = silo.enqueue("later", limit, start_at_ms=later)

    silo.ExpediteJob(id=job)

    assert not silo.lease().tasks
    refused(
        "FAILED_PRECONDITION",
        lambda: silo.LeaseTask(id=job, worker_id="w"),
        f"cannot lease job {job}",
    )


def test_an_imported_job_passes_the_gates_and_its_attempts_count(silo):
    silo.enqueue("runs", concurrency("key", 1))
    (running,) = silo.lease().tasks
    failed = pb.ImportAttempt(
        status=pb.ATTEMPT_FAILED,
        started_at_ms=1_000,
        finished_at_ms=2_000,
        error_code="OLD",
        error_data=pack("x"),
    )
    job = pb.ImportJobRequest(
        id="old",
        payload=pack("old"),
        limits=[concurrency("key", 1)],
        attempts=[failed],
        retry_policy=retries(1),
    )

    (result,) = silo.ImportJobs(jobs=[job]).results

    assert (True, pb.SCHEDULED) == (result.success, result.status), result.error
    assert not silo.lease().tasks
    silo.done(running)
    (task,) = silo.lease().tasks
    assert (2, 2, True) == (task.attempt_number, task.relative_attempt_number, task.is_last_attempt)
    (first, _) = silo.GetJob(id="old", include_attempts=True).attempts
    assert ("OLD", "x", 1_000) == (first.error_code, unpack(first.error_data), first.started_at_ms)


def test_any_worker_of_a_group_in_which_the_key_is_in_use_gets_its_refresh(silo):
    silo.enqueue("first", floating("api", 1, 60_000), task_group="one")
    silo.enqueue("second", floating("api", 1, 60_000), task_group="two")

    assert not silo.lease("w", group="three").refresh_tasks
    (refresh,) = silo.lease("w", group="two").refresh_tasks
    assert not silo.lease("v", group="one").refresh_tasks

    assert ("two", "api") == (refresh.task_group, refresh.queue_key)
    assert not silo.Heartbeat(worker_id="w", task_id=refresh.id).cancelled
    silo.refresh(refresh, 2)
    refused("NOT_FOUND", lambda: silo.Heartbeat(worker_id="w", task_id=refresh.id), "lease not found")


def test_ids_are_a_tenants_own_and_names_are_any_text(silo):
    odd = "ключ / with spaces, %2F and 🙂"
    for tenant in ("a", "b", odd):
        silo.enqueue(tenant, concurrency(odd, 1), id=odd, tenant=tenant, task_group=odd)
    refused("ALREADY_EXISTS", lambda: silo.enqueue("again", id=odd, tenant="a"))

    found = silo.lease("рабочий 1", group=odd).tasks

    assert {("a", odd), ("b", odd), (odd, odd)} == {(task.tenant_id, task.job_id) for task in found}
    for task in found:
        assert not silo.Heartbeat(worker_id="рабочий 1", task_id=task.id).cancelled
        silo.done(task)
    assert "b" == unpack(silo.GetJob(id=odd, tenant="b").payload)
