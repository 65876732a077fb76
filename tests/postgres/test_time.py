"""The time is the server's: a machine whose clock is wrong is as good as any other."""

import threading
import time
from itertools import chain

import psycopg
import pytest

from penstock.clock import MILLISECOND, SECOND, since_boot
from penstock.job import NewJob
from penstock.lifecycle.states import State
from penstock.limits.rules import Numbers
from penstock.store.session import Locks
from tests.support.desk import rate
from tests.support.postgres import split_schema
from tests.support.timing import until

WRONG = [300, -300]


@pytest.fixture
def engine(url, opened):
    return opened(url)


@pytest.fixture
def server(url):
    """What time the server thinks it is."""
    with psycopg.connect(split_schema(url)[0], autocommit=True) as connection:

        def now():
            row = connection.execute(
                "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
            ).fetchone()
            return row[0]

        now()
        yield now


def test_a_rate_is_kept_by_machines_that_disagree_about_the_time(engine, nodes):
    crew = nodes(0, *WRONG)
    for node in crew:
        node.do("node.work()")
    engine.enqueue([NewJob("note", limits=(rate("X", 5, SECOND // 4),))] * 40)
    until(lambda: engine.count() == {State.DONE: 40})
    began = [node.do("node.stop()") for node in crew]

    assert all(began)
    starts = sorted(chain.from_iterable(began))
    assert len(starts) == 40
    assert all(later - earlier >= 0.25 for earlier, later in zip(starts, starts[5:], strict=False))
    # Nor was time lost that was there to be used.
    assert starts[-1] - starts[0] < 4 * 7 * 0.25
    assert engine.doctor() == []


def test_an_engine_knows_between_which_moments_the_servers_time_is(engine, server, url, opened):
    held, other = threading.Event(), opened(url)

    def hold(_):
        held.set()
        time.sleep(0.2)

    for _ in range(3):
        held.clear()
        holder = threading.Thread(target=lambda: other.store.write(hold, locks=Locks.GATES))
        holder.start()
        held.wait(10)
        engine.configure("key", "x", Numbers(slots=1))  # waits for the gates, and learns the time
        surely, before = engine.clock.surely(), server()
        after, at_most = server(), engine.clock.now()
        holder.join()

        assert surely <= before
        assert after <= at_most


@pytest.mark.parametrize("wrong", WRONG)
def test_what_a_machine_with_a_wrong_clock_enqueues_is_due_when_it_should_be(engine, nodes, server, wrong):
    (node,) = nodes(wrong)
    before = server()
    due = node.do("engine.clock.now()") + SECOND // 2
    (made,) = node.do(f"[job.id for job in engine.enqueue([NewJob('note', due={due})])]")
    (plain,) = node.do("[job.id for job in engine.enqueue([NewJob('other')])]")

    assert before <= engine.job(made).enqueued <= server() + MILLISECOND
    assert before <= engine.job(plain).enqueued <= server() + MILLISECOND
    claimed = {}
    while made not in claimed:
        long_due = server() > due + SECOND
        claimed |= {job.id: job.started for job in engine.claim(["default"], 2, worker="worker").jobs}
        assert plain in claimed
        assert made in claimed or not long_due
        time.sleep(0.01)
    assert claimed[made] >= due


@pytest.mark.parametrize("wrong", WRONG)
def test_leases_run_out_neither_early_nor_late(engine, nodes, wrong):
    (node,) = nodes(wrong)
    engine.enqueue([NewJob("note"), NewJob("note")])
    began = time.monotonic()
    engine.claim(["default"], 1, worker="here", lease=SECOND)
    node.do(f"len(engine.claim(['default'], 1, worker='there', lease={SECOND}).jobs)")
    rescued = []
    while time.monotonic() < began + 1:
        if engine.upkeep()["rescued"] or node.do("engine.upkeep()['rescued']"):
            rescued.append(time.monotonic())
        time.sleep(0.05)
    assert all(moment > began + 0.95 for moment in rescued)

    # However busy the machine, long before the wrong clock would have it.
    until(lambda: engine.upkeep() and engine.count() == {State.WAITING: 2}, told=engine.count)


@pytest.mark.parametrize("wrong", WRONG)
def test_a_clock_that_is_set_changes_nothing(engine, server, monkeypatch, wrong):
    engine.enqueue([NewJob("task"), NewJob("task")])
    true, true_ns = time.time, time.time_ns
    monkeypatch.setattr(time, "time", lambda: true() + wrong)
    monkeypatch.setattr(time, "time_ns", lambda: true_ns() + wrong * 10**9)
    engine.upkeep()
    (job,) = engine.claim(["default"], 1, worker="worker").jobs

    assert abs(engine.clock.now() - server()) < SECOND
    assert abs(job.lease - 15 * SECOND - server()) < SECOND
    assert engine.upkeep()["rescued"] == 0


def test_the_engines_clock_is_never_early_and_late_by_no_more_than_a_round_trip(engine, server):
    for _ in range(200):
        asked = since_boot()
        engine.heartbeat([(1, 1)])
        trip = since_boot() - asked
        before = engine.clock.now()
        now = server()
        after = engine.clock.now()

        assert after >= now - MILLISECOND
        assert before <= now + trip + MILLISECOND


def test_a_wait_for_the_gates_makes_the_clock_neither_early_nor_late(engine, url, opened, server):
    with holding(opened(url)) as waited:
        engine.override("X", Numbers(slots=1))
    before = engine.clock.now()
    now = server()
    after = engine.clock.now()

    assert after >= now - MILLISECOND
    assert before <= now + waited.span // 2


def test_a_transaction_that_waited_for_the_gates_decides_by_the_time_at_which_it_has_them(
    engine, url, opened, server
):
    engine.enqueue([NewJob("task", limits=(rate("X", 5),))])
    other = opened(url)
    with holding(other) as waited:
        claim = engine.claim(["default"], 1, worker="worker", lease=SECOND)
    (job,) = claim.jobs

    assert job.lease >= waited.until + SECOND
    assert job.begin_by >= waited.until
    assert engine.job(job.id).started >= waited.until


class holding:  # noqa: N801 - reads as what it does
    """Keep the gates from others for a while, from another thread."""

    span = 3 * SECOND // 10

    def __init__(self, engine):
        self._engine = engine
        self._inside = threading.Event()
        self.until = 0

    def __enter__(self):
        self._thread = threading.Thread(target=self._engine.store.write, args=(self._hold,))
        self._thread.start()
        assert self._inside.wait(30)
        return self

    def __exit__(self, *_):
        self._thread.join()

    def _hold(self, db):
        self._inside.set()
        time.sleep(self.span / SECOND)
        (self.until,) = db.one("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")
