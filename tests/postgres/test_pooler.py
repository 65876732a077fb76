"""Through a pooler that gives every transaction another connection."""

import logging
import statistics
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from urllib.parse import urlsplit

import psycopg
import pytest

from penstock.clock import SECOND
from penstock.job import NewJob, Settlement
from penstock.lifecycle.outcomes import Done
from penstock.lifecycle.states import State
from penstock.limits.rules import Numbers
from tests.postgres.race import quiet
from tests.support.desk import rate, slots
from tests.support.pgbouncer import Bouncer
from tests.support.postgres import shared_url, split_schema
from tests.support.timing import at_once, until
from tests.support.working import working


@pytest.fixture(scope="module")
def bouncer():
    bouncer = Bouncer.begin(shared_url())
    yield bouncer
    bouncer.close()


@pytest.fixture
def pooled(url, bouncer):
    """The address of an empty store behind the pooler."""
    return f"{bouncer.url}?schema={split_schema(url)[1]}"


@pytest.fixture
def engine(pooled, opened):
    return opened(pooled)


@pytest.fixture
def log(caplog):
    caplog.set_level(logging.INFO, "penstock.store")
    return caplog


def claim(engine, count=1):
    return engine.claim(["default"], count, worker="worker").jobs


def settle(engine, *attempts):
    return engine.settle([Settlement(a.seq, a.fence, Done()) for a in attempts])


def test_a_new_schema_is_made(new_url, bouncer, opened):
    engine = opened(f"{bouncer.url}?schema={split_schema(new_url)[1]}")

    assert engine.doctor() == []
    assert left_behind(bouncer) == []


def left_behind(bouncer):
    """Return what is prepared, set or locked on the connections of the pooler, which others use too."""
    with ExitStack() as stack:
        found = []
        for _ in range(15):
            # A transaction keeps its connection, so the next one gets another.
            connection = stack.enter_context(psycopg.connect(bouncer.url, prepare_threshold=None))
            found += connection.execute(
                """
                SELECT 'prepared', statement FROM pg_prepared_statements
                UNION ALL SELECT name, setting FROM pg_settings WHERE source = 'session' AND name NOT IN (
                    'application_name', 'client_encoding', 'DateStyle', 'IntervalStyle', 'TimeZone')
                UNION ALL SELECT 'locked', locktype FROM pg_locks
                    WHERE pid = pg_backend_pid() AND locktype NOT IN ('relation', 'virtualxid')
                UNION ALL SELECT 'listening', channel FROM pg_listening_channels() AS channel
                """
            ).fetchall()
        return found


def test_the_verbs_work_from_many_threads_and_nothing_is_left_behind(engine, bouncer):
    def work(number):
        for _ in range(10):
            engine.enqueue([NewJob("task"), NewJob("task")])
            engine.enqueue([NewJob("task", limits=(slots(f"key{number % 3}", 2),))])
            attempts = claim(engine, 3)
            engine.heartbeat([(a.seq, a.fence) for a in attempts])
            assert all(settle(engine, *attempts))

    at_once(8, work)
    while attempts := claim(engine, 50):
        settle(engine, *attempts)

    assert engine.count() == {State.DONE: 240}
    assert engine.doctor() == []
    # Others prepare by the same names, for one thing, and theirs would be run in place of ours.
    assert left_behind(bouncer) == []


def test_limits_are_kept(engine):
    engine.enqueue([NewJob("task", limits=(slots("X", 2),))] * 20)
    engine.configure("queue", "default", Numbers(slots=5))
    most = []

    def work(number):
        for _ in range(6):
            attempts = claim(engine, 10)
            most.append(engine.gate("X").running)
            settle(engine, *attempts)

    at_once(6, work)
    assert max(most) <= 2
    assert engine.doctor() == []


def test_a_gate_is_held_by_one_at_a_time(engine, pooled, opened):
    inside, go = threading.Event(), threading.Event()

    def hold(db):
        inside.set()
        assert go.wait(30)

    with ThreadPoolExecutor(2) as threads:
        held = threads.submit(opened(pooled).store.write, hold)
        assert inside.wait(30)
        engine.enqueue([NewJob("task", limits=(slots("X", 1),))])
        claimed = threads.submit(claim, engine)
        with pytest.raises(TimeoutError):
            claimed.result(0.3)
        go.set()
        held.result()
        assert len(claimed.result()) == 1


def test_a_worker_does_two_hundred_jobs(engine, pooled, opened):
    begun = []
    running = []
    most = []

    def task():
        running.append(1)
        most.append(len(running))
        running.pop()

    def rated():
        begun.append(time.monotonic())

    with working(opened(pooled), task, rated, concurrency=10):
        engine.enqueue([NewJob("task", limits=(slots("X", 1),))] * 100)
        engine.enqueue([NewJob("task")] * 80)
        engine.enqueue([NewJob("rated", limits=(rate("Y", 10, SECOND // 2),))] * 20)
        until(lambda: engine.count() == {State.DONE: 200})
    begun.sort()
    assert all(later - earlier >= 0.5 for earlier, later in zip(begun, begun[10:], strict=False))
    assert engine.doctor() == []


def warnings(log):
    return [record.getMessage() for record in log.records if record.levelno >= logging.WARNING]


def test_a_store_that_cannot_hear_says_so_and_looks(pooled, opened, log):
    waiter, teller = opened(pooled), opened(pooled)
    waiter.revision()
    (warning,) = until(lambda: warnings(log))
    assert "pooler" in warning
    assert "?listen=host:port" in warning

    for _ in range(3):
        revision = waiter.revision()
        teller.enqueue([NewJob("task")])
        assert waiter.wait(revision, 2) != revision


def test_a_store_that_is_told_where_the_server_is_hears(pooled, url, opened, log):
    direct = urlsplit(split_schema(url)[0]).netloc.rpartition("@")[2]
    waiter, teller = opened(f"{pooled}&listen={direct}"), opened(pooled)
    quiet(waiter)
    spans = []
    for _ in range(20):
        revision = waiter.revision()
        teller.enqueue([NewJob("task")])
        began = time.monotonic()
        assert waiter.wait(revision, 5) != revision
        spans.append(time.monotonic() - began)
        time.sleep(0.05)

    assert statistics.median(spans) < 0.05
    assert warnings(log) == []
