"""Who waits hears of what others commit: soon, of nothing else, and not of every single thing."""

import logging
import statistics
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from penstock.clock import SECOND
from penstock.engine import open_engine
from penstock.errors import StoreDownError
from penstock.job import NewJob, Settlement, Topic
from penstock.lifecycle.outcomes import Done
from penstock.limits.rules import Numbers
from penstock.store.postgres import signals
from penstock.worker import pump
from tests.postgres.race import QUIET, quiet
from tests.support.desk import slots
from tests.support.postgres import drop_schema, fresh_schema, shared_url, split_schema
from tests.support.timing import at_once, until
from tests.support.working import working

ROOT = Path(__file__).parents[2]
SOON = 5.0
# One without limits tells of itself, if its process was quiet; of others the notifier tells.
JOBS = pytest.mark.parametrize("job", [NewJob("task"), NewJob("task", due=2**60)], ids=["free", "due"])


@pytest.fixture
def waiter(url, opened):
    """An engine that hears well."""
    engine = opened(f"{url}&application_name={split_schema(url)[1]}.waiter")
    quiet(engine)
    return engine


@pytest.fixture
def teller(url, opened):
    return opened(f"{url}&application_name={split_schema(url)[1]}.teller")


def hears(engine, action, topic=Topic.WORK, timeout=QUIET):
    """Tell whether *action* ends a wait."""
    revision = engine.revision(topic)
    action()
    return engine.wait(revision, timeout, topic) != revision


def cut(url, name):
    """End all connections of that name; return how many there were."""
    plain, schema = split_schema(url)
    with psycopg.connect(plain, autocommit=True) as connection:
        rows = connection.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = %s",
            (f"{schema}.{name}",),
        ).fetchall()
    return len(rows)


def connections(url, name):
    plain, schema = split_schema(url)
    with psycopg.connect(plain, autocommit=True) as connection:
        return connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s", (f"{schema}.{name}",)
        ).fetchone()[0]


class TestWhat:
    def test_each_commit_of_another_process_ends_a_wait_at_once(self, waiter, nodes):
        (producer,) = nodes(0)
        spans = []
        for _ in range(20):
            revision = waiter.revision()
            producer.begin("node.produce(1, 1)")
            assert waiter.wait(revision, SOON) != revision
            woken = time.monotonic()
            spans.append(woken - producer.answer())
            time.sleep(0.05)

        assert statistics.median(spans) < 0.05
        assert max(spans) < 1

    def test_nothing_ends_a_wait_when_nothing_happens(self, waiter, teller):
        assert not hears(waiter, teller.count)

    def test_what_was_committed_before_the_wait_ends_it_too(self, waiter, teller):
        revision = waiter.revision()
        teller.enqueue([NewJob("task")])
        time.sleep(0.2)

        assert waiter.wait(revision, 0) != revision

    @pytest.mark.parametrize(
        "job",
        [
            NewJob("task"),
            NewJob("task", id="mine"),
            NewJob("task", limits=(slots("X", 1),)),
            NewJob("task", due=2**60),
        ],
        ids=["free", "named", "limited", "due"],
    )
    def test_a_job_that_is_enqueued_is_heard_of(self, waiter, teller, job):
        assert hears(waiter, lambda: teller.enqueue([job]), timeout=SOON)

    @pytest.mark.parametrize("limits", [(), (slots("X", 1),)], ids=["free", "limited"])
    def test_the_end_of_a_job_wakes_callers_that_want_its_result_and_no_worker(self, waiter, teller, limits):
        teller.enqueue([NewJob("task", limits=limits)])
        (job,) = teller.claim(["default"], 1, worker="worker").jobs
        quiet(waiter)
        before = waiter.revision()

        assert hears(
            waiter, lambda: teller.settle([Settlement(job.seq, job.fence, Done())]), Topic.ENDS, SOON
        )
        assert waiter.wait(before, QUIET) == before

    def test_the_end_of_a_job_wakes_workers_if_it_lets_another_start(self, waiter, teller):
        teller.enqueue([NewJob("task", limits=(slots("X", 1),))] * 2)
        (job,) = teller.claim(["default"], 2, worker="worker").jobs
        quiet(waiter)

        assert hears(waiter, lambda: teller.settle([Settlement(job.seq, job.fence, Done())]), timeout=SOON)

    def test_claims_heartbeats_and_upkeep_wake_nobody(self, waiter, teller):
        teller.enqueue([NewJob("task")])
        quiet(waiter)

        def work():
            (job,) = teller.claim(["default"], 1, worker="worker").jobs
            teller.heartbeat([(job.seq, job.fence)])
            teller.progress(job.seq, job.fence, "1")
            teller.upkeep()

        assert not hears(waiter, work)

    def test_a_request_to_stop_wakes_the_workers(self, waiter, teller):
        (made,) = teller.enqueue([NewJob("task")])
        teller.claim(["default"], 1, worker="worker")
        quiet(waiter)

        assert hears(waiter, lambda: teller.cancel(made.id), timeout=SOON)

    def test_a_limit_that_is_raised_wakes_the_workers(self, waiter, teller):
        teller.enqueue([NewJob("task", limits=(slots("X", 0),))])
        quiet(waiter)

        assert hears(waiter, lambda: teller.override("X", Numbers(slots=1)), timeout=SOON)


class TestConnections:
    def test_threads_that_wait_share_one_connection(self, url, opened):
        engine = opened(f"{url}&application_name={split_schema(url)[1]}.crowd")
        begun = []

        def wait(number):
            begun.append(number)
            return engine.wait(engine.revision(), 60)

        with ThreadPoolExecutor(1) as thread:
            thread.submit(at_once, 30, wait)
            until(lambda: len(begun) == 30 and connections(url, "crowd") > 1)
            time.sleep(0.2)
            found = connections(url, "crowd")
            engine.enqueue([NewJob("task")])

        assert found == 2  # one to listen, and the one with which the store was opened

    def test_a_store_that_never_waits_does_not_listen(self, url, teller):
        assert connections(url, "teller") == 1

    def test_a_store_that_lost_its_connection_listens_again_and_misses_nothing(self, url, waiter, teller):
        revision = waiter.revision()
        assert cut(url, "waiter") >= 1
        teller.enqueue([NewJob("task")])

        assert waiter.wait(revision, SOON) != revision
        time.sleep(0.6)
        quiet(waiter)
        assert hears(waiter, lambda: teller.enqueue([NewJob("task")]), timeout=SOON)
        quiet(waiter)

    @JOBS
    def test_a_store_that_lost_its_connection_still_tells(self, url, waiter, teller, job):
        teller.enqueue([job])
        quiet(waiter)
        assert cut(url, "teller") >= 1

        assert hears(waiter, lambda: teller.enqueue([job]), timeout=SOON)

    def test_a_store_that_lost_its_connection_goes_on_though_that_cannot_be_logged(
        self, url, waiter, teller, caplog, monkeypatch
    ):
        def refuse(record):
            raise AttributeError("job_id")

        job = NewJob("task", due=2**60)
        teller.enqueue([job])
        quiet(waiter)
        caplog.set_level(logging.INFO)
        monkeypatch.setattr(signals.log, "filters", [refuse])
        for name in ("waiter", "teller"):
            assert cut(url, name) >= 1

        assert hears(waiter, lambda: teller.enqueue([job]), timeout=SOON)
        quiet(waiter)
        assert hears(waiter, lambda: teller.enqueue([job]), timeout=SOON)

    @JOBS
    def test_what_is_told_at_the_very_end_is_heard(self, url, waiter, job):
        last = open_engine(url)

        def act():
            last.enqueue([job])
            last.close()

        assert hears(waiter, act, timeout=SOON)

    @JOBS
    def test_what_is_told_between_two_messages_at_the_very_end_is_heard(self, url, waiter, monkeypatch, job):
        monkeypatch.setattr(signals, "LEAST_GAP", 0.5)
        last = open_engine(url)
        assert hears(waiter, lambda: last.enqueue([job]), timeout=SOON)

        def act():
            last.enqueue([job])
            last.close()

        assert hears(waiter, act, timeout=SOON)

    def test_a_script_that_ends_after_an_enqueue_is_heard(self, url, waiter):
        script = """
import sys
from penstock.engine import open_engine
from penstock.job import NewJob
from penstock.limits.rules import Limit, Numbers

open_engine(sys.argv[1]).enqueue([NewJob("task", limits=(Limit("X", Numbers(slots=1)),))])
"""

        def act():
            subprocess.run([sys.executable, "-c", script, url], cwd=ROOT / "src", timeout=120, check=True)

        assert hears(waiter, act, timeout=SOON)

    def test_a_schema_with_the_longest_name_is_heard(self, opened, caplog):
        caplog.set_level(logging.INFO, "penstock.store")
        url = fresh_schema(shared_url())
        url = f"{url}{'x' * (63 - len(split_schema(url)[1]))}"
        try:
            waiter, teller = opened(url), opened(url)
            quiet(waiter)

            assert hears(waiter, lambda: teller.enqueue([NewJob("task")]), timeout=SOON)
            assert caplog.messages == []
        finally:
            drop_schema(url)


@contextmanager
def counting(engines):
    """Count how often each engine is woken while the block lasts."""
    over = threading.Event()
    wakes = [0] * len(engines)

    def wait(number, engine):
        revision = engine.revision()
        while not over.is_set():
            after = engine.wait(revision, 0.1)
            wakes[number] += after != revision
            revision = after

    with ThreadPoolExecutor(len(engines)) as threads:
        waiting = threads.map(wait, range(len(engines)), engines)
        time.sleep(0.5)
        try:
            yield wakes
            time.sleep(0.2)
        finally:
            over.set()
        assert [None] * len(engines) == list(waiting)


def test_a_storm_of_jobs_does_not_wake_a_worker_for_every_one(url, opened, nodes):
    producers = nodes(0, 0)
    engines = [opened(url) for _ in range(20)]
    with counting(engines) as wakes:
        began = time.monotonic()
        for producer in producers:
            producer.begin("node.produce(4, 400)")
        for producer in producers:
            producer.answer()
        span = time.monotonic() - began

    assert engines[0].count() == {"waiting": 3_200}
    assert min(wakes) > 5  # while it lasted
    # Two processes tell of it, each at most thirty times a second.
    assert max(wakes) < 2 * signals.STORM + 100 * span


def test_many_stores_that_are_each_quiet_make_no_storm_together(url, opened):
    tellers = [opened(url) for _ in range(20)]
    rounds = 100

    def produce(number):
        for _ in range(rounds):
            tellers[number].enqueue([NewJob("task")])
            time.sleep(0.02)

    with counting([opened(url) for _ in range(5)]) as wakes:
        began = time.monotonic()
        at_once(len(tellers), produce)
        span = time.monotonic() - began

    assert min(wakes) > 5
    # A busy machine may be slower than a storm; then every notification wakes.
    pace = 70 if len(tellers) * rounds / span > 2 * signals.STORM else signals.STORM
    assert max(wakes) < signals.STORM + pace * span


def test_the_more_processes_notify_in_a_storm_the_more_seldom_each_does():
    crowd = signals.Crowd()

    assert signals.LONGEST_GAP == crowd.longest_gap(0)
    gaps = []
    for number in range(40):
        crowd.heard(f"process {number}", number)
        crowd.heard(f"process {number}", number)
        gaps.append(crowd.longest_gap(number))
    assert signals.LONGEST_GAP == gaps[0]
    assert 4 * signals.LONGEST_GAP == gaps[6]
    assert signals.RAREST_GAP == gaps[-1]
    crowd.heard("process 39", 2 * SECOND)
    assert signals.LONGEST_GAP == crowd.longest_gap(2 * SECOND)
    assert 1 == len(crowd._senders)


class TestWorker:
    """A worker that looks by itself only once in ten minutes hears of every job."""

    @pytest.fixture(autouse=True)
    def _no_timed_look(self, monkeypatch):
        monkeypatch.setattr(pump, "FALLBACK", 600 * SECOND)

    @pytest.fixture
    def begun(self):
        return []

    @pytest.fixture
    def task(self, begun):
        def task():
            begun.append(1)

        return task

    def test_a_job_that_arrives_while_a_claim_finds_nothing_is_begun(
        self, url, opened, teller, task, begun, monkeypatch
    ):
        take = pump.Pump._take

        engine = opened(url)

        def late(self, queues, count):
            claim = take(self, queues, count)
            if len(begun) < 5 and not claim.jobs:
                # Committed and heard of when the claim has looked already, before the worker says that it waits.
                revision = engine.revision()
                teller.enqueue([NewJob("task")])
                assert engine.wait(revision, SOON) != revision
            return claim

        monkeypatch.setattr(pump.Pump, "_take", late)
        with working(engine, task):
            until(lambda: len(begun) >= 5)

    def test_a_job_that_another_thread_of_the_process_enqueues_is_begun(self, url, opened, task, begun):
        engine = opened(url)
        with working(engine, task):
            for count in range(1, 6):
                engine.enqueue([NewJob("task")])
                until(lambda count=count: len(begun) == count)

    def test_a_job_that_arrives_in_a_storm_of_others_is_begun(self, url, opened, nodes, task, begun):
        producers = nodes(0, 0)
        for producer in producers:
            producer.begin("node.produce(4, 50)")
        with working(opened(url), task):
            for producer in producers:
                producer.answer()
            until(lambda: len(begun) == 400)


@pytest.mark.parametrize("topic", Topic)
def test_a_store_that_is_closed_keeps_no_thread_waiting(url, topic):
    engine = open_engine(url)
    quiet(engine)
    ended = threading.Event()

    def wait():
        with suppress(StoreDownError):
            engine.wait(engine.revision(topic), 600, topic)
        ended.set()

    thread = threading.Thread(target=wait)
    thread.start()
    until(lambda: engine.store._signals._waiting[topic])
    engine.close()

    assert ended.wait(SOON)
    thread.join()
