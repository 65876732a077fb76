"""Jobs without limits are claimed in one message; whatever else a claim has to think of, it thinks of as before."""

import threading

import psycopg
import pytest
from msgspec import structs

from penstock.clock import MILLISECOND, SECOND
from penstock.job import Maintenance, NewJob, Pool, Settlement
from penstock.lifecycle.outcomes import Done, Failed, HandedBack
from penstock.lifecycle.retry import RetryPolicy
from penstock.lifecycle.states import State
from penstock.limits.rules import Numbers
from penstock.store.postgres.store import PostgresStore
from penstock.store.session import Locks
from tests.postgres.proxy import COMMITTED, Proxy
from tests.support.desk import slots
from tests.support.postgres import split_schema
from tests.support.timing import at_once, until

BOUND = 10.0
MESSAGE = b"EXECUTE penstock_take"


@pytest.fixture
def engine(url, opened):
    return opened(url)


@pytest.fixture
def long_way(url, opened):
    """An engine of another process that claims by the steps it has for everything."""
    engine = opened(url)
    engine._slow_claims = 1_000_000
    return engine


def claim(engine, count=10, **options):
    return engine.claim(["default"], count, worker="o'worker", **options)


def settle(engine, jobs, outcome=None):
    return engine.settle([Settlement(job.seq, job.fence, outcome or Done()) for job in jobs])


class TestOneMessage:
    @pytest.fixture
    def messages(self, monkeypatch):
        """Every statement that is sent from now on."""
        sent = []
        for kind in (psycopg.Connection, psycopg.RawCursor):

            def execute(self, statement, *args, _execute=kind.execute, **options):
                sent.append(statement)
                return _execute(self, statement, *args, **options)

            monkeypatch.setattr(kind, "execute", execute)
        return sent

    def test_a_job_without_limits_is_claimed_in_one_message(self, engine, messages):
        """P1."""
        engine.enqueue([NewJob("task")] * 2)
        assert len(claim(engine, 1).jobs) == 1
        messages.clear()

        assert len(claim(engine, 1).jobs) == 1
        assert len(messages) == 1

    def test_the_oldest_psycopg_that_is_supported_will_do(self, engine, messages, monkeypatch):
        """P1: 3.2 cannot iterate over several results."""
        monkeypatch.delattr(psycopg.Cursor, "results", raising=False)
        engine.enqueue([NewJob("task")])

        assert len(claim(engine).jobs) == 1
        assert any(MESSAGE.decode() in str(sent) for sent in messages)

    def test_that_there_is_nothing_to_do_is_found_in_one_message_that_writes_nothing(
        self, engine, messages, url
    ):
        """P1."""
        engine.enqueue([NewJob("task")])
        claim(engine)
        before = _receipts(url)
        messages.clear()

        for _ in range(50):
            assert claim(engine).jobs == []
        assert len(messages) == 50
        assert _receipts(url) == before


def _receipts(url):
    """Return the number of the last transaction that each connection wrote something in."""
    plain, schema = split_schema(url)
    with psycopg.connect(plain, autocommit=True) as connection:
        return connection.execute(f"SELECT connection, number FROM {schema}.receipt ORDER BY 1").fetchall()


class TestSame:
    """What is claimed in one message is what would be claimed otherwise."""

    def test_all_that_is_known_of_a_job_is_told(self, engine, long_way):
        again = RetryPolicy(attempts=5, delay=MILLISECOND, jitter=False)
        wanted = NewJob(
            "task", '{"args": ["ü\'\\""]}', tenant="tenant", timeout=5 * SECOND, lease=7 * SECOND,
            meta='{"a":1}', priority=3, retry=again,
        )  # fmt: skip
        engine.enqueue([wanted, wanted])
        (first,) = claim(engine, 1, lease=SECOND).jobs
        (second,) = claim(long_way, 1, lease=SECOND).jobs

        assert first.lease - first.started == second.lease - second.started == 7 * SECOND
        changing = ("seq", "id", "fence", "lease", "started", "enqueued")
        assert _without(first, changing) == _without(second, changing)
        assert {first.seq, second.seq} == {attempt.seq for attempt in engine.attempts([first.id, second.id])}

    def test_attempts_and_lost_workers_are_counted(self, engine, long_way):
        again = RetryPolicy(attempts=5, delay=MILLISECOND, jitter=False)
        engine.enqueue([NewJob("task", retry=again)])
        settle(engine, claim(engine).jobs, Failed("Error", "no"))
        (job,) = until(lambda: claim(engine).jobs)
        assert job.attempt == 2
        settle(engine, [job], HandedBack())

        (job,) = claim(long_way).jobs
        assert job.attempt == 2
        assert settle(engine, [job]) == [True]

    def test_the_best_come_first(self, engine):
        engine.enqueue([NewJob("task", str(n), priority=n % 3) for n in range(12)])
        claimed = [*claim(engine, 5).jobs, *claim(engine, 5).jobs]

        wanted = sorted(range(12), key=lambda n: (-(n % 3), n))[:10]
        assert [int(job.args) for job in claimed] == wanted

    def test_the_next_moment_is_when_the_clock_changes_something(self, engine):
        engine.enqueue([NewJob("task"), NewJob("task", due=2**60)])
        first = claim(engine, lease=30 * SECOND)

        assert first.next_at == first.jobs[0].lease
        assert claim(engine).next_at == first.jobs[0].lease
        settle(engine, first.jobs)
        assert claim(engine).next_at == 2**60

    def test_two_who_claim_at_once_never_get_the_same_job(self, url, opened, engine):
        engine.enqueue([NewJob("task", str(n)) for n in range(200)])
        rivals = [opened(url) for _ in range(4)]
        found = []

        def take(number):
            while jobs := claim(rivals[number], 3).jobs:
                found.extend(job.seq for job in jobs)

        at_once(4, take)

        assert len(found) == len(set(found)) == 200
        assert engine.count() == {State.RUNNING: 200}
        assert engine.doctor() == []


class TestSpecial:
    """Where there is anything else to think of, nothing is taken in one message."""

    @pytest.mark.parametrize(
        ("arrange", "starts"),
        [
            (lambda engine: engine.pause("default"), 0),
            (lambda engine: engine.set_maintenance(Maintenance(0)), 0),
            (lambda engine: engine.configure("queue", "default", Numbers(slots=1)), 1),
            (lambda engine: engine.configure("type", "task", Numbers(slots=1)), 1),
            (lambda engine: engine.set_pool(Pool("pool", ("default",), slots=1)), 1),
            (lambda engine: engine.enqueue([NewJob("best", priority=9, limits=(slots("X", 1),))]), 4),
            (lambda engine: _enqueue_for_now(engine, NewJob("best", priority=9)), 4),
        ],
        ids=["paused", "maintenance", "queue", "type", "pool", "limited", "due"],
    )
    def test_what_rules_a_queue_or_is_due_is_heeded(self, engine, arrange, starts):
        engine.enqueue([NewJob("task")] * 3)
        arrange(engine)

        assert engine.store.take_free("default", 1, "worker", SECOND, None) is None
        jobs = claim(engine).jobs
        assert len(jobs) == starts
        assert engine.count().get(State.RUNNING, 0) == starts
        if starts == 4:
            assert jobs[0].task == "best"
        assert engine.doctor() == []

    def test_a_job_whose_worker_was_lost_comes_first(self, engine):
        engine.enqueue([NewJob("task", "1")])
        claim(engine, lease=1)
        engine.enqueue([NewJob("task", "2")])

        assert [job.args for job in claim(engine).jobs] == ["1", "2"]

    def test_a_queue_that_is_paused_meanwhile_lets_nothing_start(self, url, opened, engine):
        """A claim that waits for a change of rules sees what was changed."""
        engine.enqueue([NewJob("task")])
        assert claim(engine, 1).jobs
        engine.enqueue([NewJob("task")])
        ruler = opened(url)
        reached, go = threading.Event(), threading.Event()

        def pause(db):
            db.run("INSERT INTO queue_pause (tenant, queue, at) VALUES ('', 'default', 1)")
            reached.set()
            assert go.wait(BOUND)

        changing = threading.Thread(target=lambda: ruler.store.write(pause, locks=Locks.RULES))
        answers = []
        claiming = threading.Thread(target=lambda: answers.append(claim(engine)))
        changing.start()
        assert reached.wait(BOUND)
        claiming.start()
        until(lambda: _waits(url))
        go.set()
        changing.join()
        claiming.join()

        assert [answer.jobs for answer in answers] == [[]]

    def test_where_statements_cannot_be_prepared_jobs_are_claimed_all_the_same(self, engine):
        engine.enqueue([NewJob("task")])
        engine.store._prepare = None
        engine.store._drop_idle()

        assert engine.store.take_free("default", 1, "worker", SECOND, None) is None
        assert len(claim(engine).jobs) == 1


class TestLost:
    """The connection breaks while the one message, or its answer, is on its way."""

    @pytest.fixture
    def proxy(self, url):
        proxy = Proxy(url)
        yield proxy
        proxy.close()

    @pytest.fixture
    def far(self, proxy, opened, engine):
        """An engine at the other end of a wire that can be cut, which has claimed once."""
        engine.enqueue([NewJob("task")] * 3)
        far = opened(proxy.url)
        (job,) = claim(far, 1).jobs
        settle(engine, [job])
        return far

    @pytest.mark.parametrize("lost", ["answer", "request"])
    def test_a_claim_is_made_once(self, proxy, far, engine, lost):
        if lost == "answer":
            proxy.lose_answer(COMMITTED)
        else:
            proxy.lose_request(MESSAGE)
        (job,) = claim(far, 1).jobs

        assert proxy.cuts == 1
        (running,) = engine.jobs(state=State.RUNNING)
        assert (running.id, running.attempt) == (job.id, 1)
        assert settle(far, [job]) == [True]
        assert engine.doctor() == []

    def test_a_message_that_the_server_hears_of_late_starts_nothing(self, proxy, far, engine):
        hear = proxy.hold_request(MESSAGE)
        (job,) = claim(far, 1).jobs
        wires = _alive(proxy)
        hear()
        until(lambda: _alive(proxy) < wires)  # once the server has answered

        assert proxy.cuts == 1
        assert [running.id for running in engine.jobs(state=State.RUNNING)] == [job.id]
        assert engine.count()[State.WAITING] == 1


def test_the_store_is_asked_in_one_message_only_now_and_then_where_that_is_in_vain(engine, monkeypatch):
    asked = []
    take = PostgresStore.take_free
    monkeypatch.setattr(
        PostgresStore, "take_free", lambda self, *wanted: asked.append(wanted) or take(self, *wanted)
    )
    engine.pause("default")
    for _ in range(36):
        assert claim(engine).jobs == []

    assert len(asked) == 4


def _enqueue_for_now(engine, job):
    """Enqueue a job that is scheduled, and wait until it is due."""
    due = engine.clock.now() + 50 * MILLISECOND
    engine.enqueue([structs.replace(job, due=due)])
    until(lambda: engine.clock.now() > due)


def _without(job, fields):
    return {name: value for name, value in structs.asdict(job).items() if name not in fields}


def _alive(proxy):
    return sum(thread.is_alive() for thread in proxy._threads)


def _waits(url):
    with psycopg.connect(url.partition("?")[0], autocommit=True) as connection:
        return connection.execute("SELECT 1 FROM pg_locks WHERE NOT granted AND objid = 2").fetchone()


def test_a_claim_walks_along_the_index_before_the_server_knows_the_table(engine):
    """As in the first minute after many jobs came: the server would sort them all in each claim."""
    adding = """
        INSERT INTO ready (seq, queue, priority, ord, cost, attempt, lost)
        SELECT n, 'default', 0, n, 1, 0, 0 FROM generate_series(1, 100000) AS n
        """
    engine.store.write(lambda db: db.run(adding))

    plan = engine.store.read(
        lambda db: db.all(
            "EXPLAIN SELECT seq FROM ready WHERE queue = ? AND part = '' ORDER BY priority DESC, ord LIMIT 100",
            "default",
        )
    )

    assert "ready_order" in str(plan)
    assert "Sort" not in str(plan)
