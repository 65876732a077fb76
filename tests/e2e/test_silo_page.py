"""The page about concurrency limits, played by clients and workers of Silo over gRPC, counted in handlers."""

import time
from contextlib import ExitStack
from itertools import pairwise

import pytest

from penstock.dialects.silo import silo_pb2 as pb
from tests.support.provider import most_in_window
from tests.support.silo import Overlaps, SiloWorker, concurrency, floating, pack, payloads, rate, unpack
from tests.support.timing import until

JITTER = (
    0.1  # seconds that the way from an answer to its handler may take longer for one job than for another
)


def run(lasting, count, *, workers=3, **how):
    """Let workers run so many jobs; return what their handlers counted."""
    overlaps = how.pop("overlaps", None) or Overlaps()
    with ExitStack() as stack:
        crew = [
            stack.enter_context(SiloWorker(lasting.silo, f"worker-{n}", overlaps, **how))
            for n in range(workers)
        ]
        until(lambda: len(overlaps.order) == count and not sum(overlaps.now.values()), 60, lambda: overlaps)
    assert [] == [failure for worker in crew for failure in worker.failures]
    return overlaps


def leased(silo, most=50):
    """Return the payloads of the tasks that may start now."""
    return [unpack(task.payload) for task in silo.lease(most=most).tasks]


def test_five_slots_of_a_user_are_all_used_and_never_six(silo, lasting):
    for n in range(25):
        silo.enqueue({"task": "process-upload", "n": n}, concurrency("user:123", 5))
    overlaps = Overlaps()

    run(
        lasting,
        25,
        overlaps=overlaps,
        handler=lambda _: until(lambda: overlaps.most["user:123"] >= 5, 30),
    )

    assert {"user:123": 5} == overlaps.most


def test_jobs_that_wait_go_by_priority_and_then_by_start_time(silo):
    one = concurrency("one", 1)
    silo.enqueue("first", one)
    (running,) = silo.lease().tasks
    soon = int(time.time() * 1_000) + 300
    silo.enqueue("soon", one, start_at_ms=soon)
    for n, priority in enumerate((50, 99, 50, 0, 10)):
        silo.enqueue(f"{priority}, number {n}", one, priority=priority, start_at_ms=soon - 1_000)
    until(lambda: time.time() * 1_000 > soon + 50)
    order = []

    for _ in range(6):
        silo.done(running)
        (running,) = silo.lease().tasks
        order.append(unpack(running.payload))

    assert ["0, number 3", "10, number 4", "50, number 0", "50, number 2", "soon", "99, number 1"] == order


def test_each_job_is_judged_by_its_own_maximum(silo):
    for n in range(3):
        silo.enqueue(f"A{n}", concurrency("queue-1", 2))
    silo.enqueue("B", concurrency("queue-1", 4))

    first = silo.lease().tasks

    assert ["A0", "A1", "B"] == [unpack(task.payload) for task in first]
    silo.done(first[2])
    assert [] == leased(silo)
    silo.done(first[0])
    assert ["A2"] == leased(silo)


class Poller:
    """Leases tasks, and keeps the floating limits that it is given to compute."""

    def __init__(self, silo):
        self.silo, self.refreshes = silo, []

    def started(self):
        found = self.silo.lease("w")
        self.refreshes += found.refresh_tasks
        return [unpack(task.payload) for task in found.tasks]

    def refresh(self):
        """Return the next limit to compute, and how many seconds it took to come; no job starts meanwhile."""
        began = time.monotonic()
        until(lambda: self.refreshes or self.started() or self.refreshes)
        return self.refreshes.pop(0), time.monotonic() - began


def test_a_floating_limit_goes_from_its_default_to_a_refresh_to_a_failure_to_a_reset(silo):
    for n in range(6):
        silo.enqueue(
            n, floating("external-api", 2, 1, apiEndpoint="https://api.example.com", apiKey="key-123")
        )
    poller = Poller(silo)

    assert [0, 1] == poller.started()
    refresh, _ = poller.refresh()
    found = (refresh.queue_key, refresh.current_max_concurrency, refresh.last_refreshed_at_ms)
    assert ("external-api", 2, 0) == found
    assert {"apiEndpoint": "https://api.example.com", "apiKey": "key-123"} == dict(refresh.metadata)
    assert ("default", 10_000) == (refresh.task_group, refresh.lease_ms)

    silo.refresh(refresh, 4)
    assert [2, 3] == poller.started()

    waits = []
    for outcome in ("fails", "fails", 3, "fails", 5):
        refresh, waited = poller.refresh()
        waits.append(waited)
        if outcome == "fails":
            failure = pb.RefreshFailure(code="REFRESH_HANDLER_ERROR", message="no answer")
            silo.ReportRefreshOutcome(task_id=refresh.id, failure=failure)
        else:
            silo.refresh(refresh, outcome)
            before = refresh

    assert [4] == poller.started()
    assert 3 == before.current_max_concurrency
    assert before.last_refreshed_at_ms > 0
    # The first at once; a second after one failure, two after the next; a second again after a success.
    at_least = [next(least for least in (1.9, 0.9, 0.0) if waited >= least) for waited in waits]
    assert [0.0, 0.9, 1.9, 0.0, 0.9] == at_least


def test_a_later_default_interval_and_metadata_are_ignored(silo):
    silo.enqueue("A", floating("dynamic-queue", 1, 60_000, who="first"))
    silo.enqueue("B", floating("dynamic-queue", 10, 1, who="second"))

    found = silo.lease()

    assert ["A"] == [unpack(task.payload) for task in found.tasks]
    (refresh,) = found.refresh_tasks
    assert (1, {"who": "first"}) == (refresh.current_max_concurrency, dict(refresh.metadata))
    silo.refresh(refresh, 1)
    assert not silo.lease().refresh_tasks


def test_three_limits_are_taken_together_or_not_at_all(silo):
    hour = rate("tenant-hourly", "tenant:abc", 1000, 3_600_000)
    for n in range(7):
        silo.enqueue(n, concurrency("tenant:abc", 10), floating("external-api", 5, 30_000), hour)
    for n in range(7):
        silo.enqueue(f"other {n}", concurrency("tenant:abc", 10))

    started = payloads(silo.leased(10))

    assert [0, 1, 2, 3, 4] == sorted(each for each in started if isinstance(each, int))
    assert [] == leased(silo)
    assert 10 == len(started), "a job that waits for the API holds no slot of its tenant"
    job = silo.GetJob(id=silo.enqueue("shown", concurrency("b", 1), hour, concurrency("a", 1)))
    assert ["concurrency", "rate_limit", "concurrency"] == [limit.WhichOneof("limit") for limit in job.limits]


def test_opposite_orders_cannot_deadlock(silo, lasting):
    x, y = concurrency("x", 1), concurrency("y", 1)
    for n in range(20):
        silo.enqueue(n, *((x, y) if n % 2 else (y, x)))

    overlaps = run(lasting, 20)

    assert {"x": 1, "y": 1} == overlaps.most


def test_no_window_holds_more_starts_than_the_rate(silo, lasting):
    for n in range(12):
        silo.enqueue(n, rate("api", "user:1", 5, 1_000))

    overlaps = run(lasting, 12)

    assert most_in_window(overlaps.begun["api/user:1"], 1 - JITTER) <= 5


def test_a_leaky_bucket_spaces_starts_evenly(silo, lasting):
    for n in range(6):
        silo.enqueue(n, rate("api", "leaky", 5, 1_000, algorithm=pb.LEAKY_BUCKET))

    begun = run(lasting, 6).begun["api/leaky"]

    assert begun[-1] - begun[0] >= 1.0 - JITTER
    assert min(later - sooner for sooner, later in pairwise(begun)) >= 0.2 - JITTER


def test_a_rate_counts_hits_and_is_shared_by_tenants(silo):
    for tenant, hits in (("a", 3), ("b", 2), ("c", 1)):
        silo.enqueue(f"{tenant}: {hits}", rate("api", "all", 4, 3_600_000, hits), tenant=tenant)

    started = payloads(silo.leased(2)) + leased(silo)

    assert 3 <= sum(int(each[-1]) for each in started) <= 4, started


def test_concurrency_keys_are_a_tenants_own(silo):
    for tenant in ("a", "b", "a"):
        silo.enqueue(tenant, concurrency("key", 1), tenant=tenant)

    assert ["a", "b"] == sorted(leased(silo))


def test_several_workers_compute_and_obey_a_floating_limit(silo, lasting):
    for n in range(30):
        silo.enqueue(n, floating("shared", 1, 60_000))
    overlaps = Overlaps()

    def handler(_):
        until(lambda: overlaps.most["shared"] >= 4, 30)

    run(lasting, 30, overlaps=overlaps, handler=handler, refresh=lambda _: 4)

    assert {"shared": 4} == overlaps.most


@pytest.mark.parametrize("content", [b"", b"\xc0", b"\xc4\x02\x00\xff", b"\xcf" + b"\xff" * 8])
def test_bytes_come_back_as_they_came(silo, content):
    sent = pb.SerializedBytes(msgpack=content)
    jobs = [silo.Enqueue(payload=sent, priority=n).id for n in range(2)]

    done, failed = silo.lease().tasks
    assert [content, content] == [done.payload.msgpack, failed.payload.msgpack]
    silo.ReportOutcome(task_id=done.id, success=sent)
    silo.ReportOutcome(task_id=failed.id, failure=pb.Failure(code="BAD", data=sent))

    assert content == silo.GetJob(id=jobs[0]).payload.msgpack
    assert content == silo.GetJob(id=jobs[0]).result.msgpack
    assert content == silo.GetJobResult(id=jobs[0]).success_data.msgpack
    failure = silo.GetJobResult(id=jobs[1]).failure
    assert ("BAD", content) == (failure.error_code, failure.error_data.msgpack)
    assert not silo.GetJob(id=jobs[1]).HasField("result")


def test_five_megabytes_pass_both_ways(silo):
    big = bytes(range(256)) * 20_000
    job = silo.Enqueue(payload=pack(big)).id

    (task,) = silo.lease().tasks
    silo.done(task, big)

    assert big == unpack(task.payload) == unpack(silo.GetJob(id=job).result)
