"""The server goes away, a connection breaks, a disk is full: nothing is lost, nothing is done twice."""

import gc
import json
import subprocess
import sys
import threading
import time
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg import errors

from penstock.clock import MILLISECOND
from penstock.engine import open_engine
from penstock.errors import PenstockError, SchemaError, StoreBusyError, StoreDownError, StoreError
from penstock.job import NewJob, Settlement, Topic
from penstock.lifecycle.outcomes import Done, Failed
from penstock.lifecycle.retry import RetryPolicy
from penstock.lifecycle.states import State
from penstock.store.postgres import session as session_module
from penstock.store.postgres import store as store_module
from penstock.store.postgres.errors import Patience
from penstock.store.postgres.session import PostgresSession
from tests.postgres.proxy import ADDED, COMMITTED, Proxy
from tests.postgres.race import FREE_OR_LIMITED, LIMITED, Race, do
from tests.support.desk import slots
from tests.support.postgres import Server, free_port, fresh_schema, need_package, split_schema
from tests.support.timing import at_once, until
from tests.support.working import working

ROOT = Path(__file__).parents[2]
HOWS = ["fast", "immediate"]


@pytest.fixture(scope="module")
def server():
    need_package()
    server = Server.begin(settings={"deadlock_timeout": "50ms"})
    yield server
    server.close()


@pytest.fixture
def home(server):
    """The address of a new store on a server of our own."""
    return fresh_schema(server.url)


@pytest.fixture
def engine(home, opened):
    return opened(home)


@pytest.fixture
def own_race(home, clock):
    """Transactions at once on a server of our own."""
    with Race(home, clock) as race:
        yield race


@pytest.fixture
def proxy(home):
    proxy = Proxy(home)
    yield proxy
    proxy.close()


@pytest.fixture
def far(proxy, opened):
    """An engine at the other end of a wire that can be cut."""
    return opened(proxy.url)


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(store_module, "Patience", lambda: Patience(300 * MILLISECOND))


def claim(engine, count=1, **options):
    return engine.claim(["default"], count, worker="worker", **options).jobs


def settle(engine, *attempts):
    return engine.settle([Settlement(a.seq, a.fence, Done()) for a in attempts])


def uses(engine):
    """Return four uses of an engine, each of which takes another way to the server."""
    return (
        lambda: engine.enqueue([NewJob("task")]),
        lambda: engine.enqueue([NewJob("task", limits=LIMITED)]),
        lambda: claim(engine),
        engine.count,
    )


def backends(server, schema, *, busy=False):
    """Return the process numbers of a store's connections."""
    with psycopg.connect(server.url, autocommit=True) as connection:
        rows = connection.execute(
            """
            SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND application_name LIKE %s
            AND (NOT %s OR state LIKE '%%transaction%%' OR wait_event_type = 'Lock')
            """,
            (f"{schema}%", busy),
        ).fetchall()
    return [pid for (pid,) in rows]


def end(server, pids):
    with psycopg.connect(server.url, autocommit=True) as connection:
        for pid in pids:
            connection.execute("SELECT pg_terminate_backend(%s, 5000)", (pid,))


class TestRestart:
    @pytest.mark.parametrize("how", HOWS)
    @FREE_OR_LIMITED
    def test_between_verbs_nothing_is_noticed(self, server, engine, how, limits):
        engine.enqueue([NewJob("task", limits=limits)])
        server.restart(how)
        (attempt,) = claim(engine)
        engine.pause("other")  # what comes before a commit that is kept is kept too
        server.restart(how)
        assert [beat.alive for beat in engine.heartbeat([(attempt.seq, attempt.fence)])] == [True]
        server.restart(how)
        assert settle(engine, attempt) == [True]
        server.restart(how)
        engine.enqueue([NewJob("task")])
        server.restart(how)

        assert engine.count() == {State.DONE: 1, State.WAITING: 1}
        assert engine.doctor() == []

    @pytest.mark.parametrize("how", HOWS)
    def test_an_enqueue_that_was_under_way_is_done_once(self, server, own_race, how):
        enqueue = own_race.hold(do.enqueue("a", *LIMITED))
        server.restart(how)

        enqueue.commit()
        assert own_race.desk.claim() == "a"
        assert own_race.desk.engine.count() == {State.RUNNING: 1}

    @pytest.mark.parametrize("how", HOWS)
    @FREE_OR_LIMITED
    def test_a_claim_that_was_under_way_is_done_once(self, server, own_race, how, limits):
        own_race.desk.enqueue("a b", *limits)
        held = own_race.hold(do.claim(1))
        server.restart(how)

        assert held.commit() == "a"
        assert own_race.desk.job("a").attempt == 1
        assert own_race.desk.settle("a") == [True]

    @pytest.mark.parametrize("how", HOWS)
    @FREE_OR_LIMITED
    def test_a_settlement_that_was_under_way_is_done_once(self, server, own_race, how, limits):
        own_race.desk.enqueue("a b", *limits)
        own_race.desk.claim(1)
        own_race.desk.engine.pause("other")
        held = own_race.hold(do.settle("a"))
        server.restart(how)

        assert held.commit() == [True]
        assert own_race.desk.state("a") is State.DONE
        assert own_race.desk.claim() == "b"

    @pytest.mark.parametrize("how", HOWS)
    def test_a_worker_carries_on_by_itself(self, server, engine, opened, home, how):
        done = []

        def task(number):
            time.sleep(0.01)
            done.append(number)

        def enqueue(numbers, *limits):
            engine.enqueue(
                [NewJob("task", json.dumps({"args": [n]}), limits=limits, queue="default") for n in numbers]
            )

        with working(opened(home), task, concurrency=4, lease=2.0):
            enqueue(range(30), slots("X", 2))
            until(lambda: len(done) > 5)
            server.restart(how)
            enqueue(range(30, 60))
            until(lambda: engine.count() == {State.DONE: 60})
        assert sorted(set(done)) == list(range(60))
        assert engine.doctor() == []

    def test_a_worker_outlasts_a_server_that_is_gone_for_longer_than_anybody_waits(
        self, server, engine, opened, home, impatient
    ):
        done = []

        def task():
            done.append(1)

        with working(opened(home), task, lease=2.0):
            engine.enqueue([NewJob("task")])
            until(lambda: len(done) == 1)
            server.stop()
            try:
                with pytest.raises(StoreDownError):
                    engine.enqueue([NewJob("task")])
                time.sleep(0.5)
            finally:
                server.start()
            engine.enqueue([NewJob("task")])
            # The first runs once more if its lease ended before its outcome could be told.
            until(lambda: engine.count() == {State.DONE: 2})

    def test_a_server_that_comes_back_in_time_is_waited_for(self, server, engine):
        server.stop()
        timer = threading.Timer(0.7, server.start)
        timer.start()
        try:
            engine.enqueue([NewJob("task")])
        finally:
            timer.join()

        assert engine.count() == {State.WAITING: 1}

    def test_a_server_that_stays_away_is_named(self, server, engine, impatient):
        server.stop()
        try:
            for use in uses(engine):
                began = time.monotonic()
                with pytest.raises(StoreDownError) as caught:
                    use()
                one_sentence(caught.value, "cannot reach", server.url.rpartition("@")[2])
                assert time.monotonic() - began < 20
        finally:
            server.start()


class TestCut:
    """A connection ends in the middle of a transaction."""

    def test_a_transaction_whose_connection_was_ended_is_done_once(self, server, own_race, home):
        own_race.desk.enqueue("a b", *LIMITED)
        held = own_race.hold(do.claim(1))
        end(server, backends(server, split_schema(home)[1], busy=True))

        assert held.commit() == "a"
        assert own_race.desk.job("a").attempt == 1

    def test_a_transaction_that_was_waiting_waits_again(self, server, own_race, home):
        own_race.desk.enqueue("a b", *LIMITED)
        held, rival = own_race.meet(do.claim(), do.claim(), at="the gates")
        end(server, backends(server, f"{split_schema(home)[1]}.player1", busy=True))

        rival.waits_for("the gates")
        assert held.commit() == "a"
        assert rival.answer() == ""

    def test_idle_connections_that_were_ended_are_replaced(self, server, engine):
        name = "idle"
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'penstock'"
            )

        engine.enqueue([NewJob(name)])
        assert engine.count() == {State.WAITING: 1}

    def test_a_process_that_is_frozen_in_a_transaction_loses_it(self, home, clock, monkeypatch):
        monkeypatch.setattr(session_module, "_IDLE", "200ms")
        with Race(home, clock) as race:
            race.desk.enqueue("a b", *LIMITED)
            frozen, rival = race.meet(do.claim(), do.claim(), at="the gates")

            assert rival.answer() == "a"
            assert frozen.commit() == ""


class TestLostAnswers:
    """The server has committed, but the answer was lost; or it was never asked to."""

    @pytest.fixture(params=["answer", "request"])
    def lose(self, request, proxy):
        """Lose the next commit, or its answer, on the way; it was lost when the test is over."""

        def lose():
            if request.param == "answer":
                proxy.lose_answer(COMMITTED)
            else:
                proxy.lose_request(b"COMMIT")

        yield lose
        assert proxy.cuts == 1

    @pytest.mark.parametrize("count", [1, 500])
    def test_jobs_without_limits_are_added_once(self, proxy, far, engine, count):
        proxy.lose_answer(ADDED)
        made = far.enqueue([NewJob("task")] * count)

        assert proxy.cuts == 1
        assert {job.id for job in engine.jobs(limit=1_000)} == {answer.id for answer in made}
        assert engine.count() == {State.WAITING: count}

    def test_jobs_of_many_callers_are_added_once(self, proxy, far, engine):
        proxy.lose_answer(ADDED)
        made = at_once(16, lambda _: far.enqueue([NewJob("task")] * 3))

        assert proxy.cuts == 1
        assert {job.id for job in engine.jobs(limit=1_000)} == {job.id for jobs in made for job in jobs}
        assert engine.count() == {State.WAITING: 48}

    def test_jobs_with_limits_are_added_once(self, far, engine, lose):
        lose()
        made = far.enqueue([NewJob("task", limits=LIMITED)] * 3)

        assert {job.id for job in engine.jobs()} == {answer.id for answer in made}
        assert engine.gate("X").waiting == 3
        assert engine.doctor() == []

    def test_a_job_with_an_id_of_its_own_is_no_duplicate_of_itself(self, far, engine, lose):
        lose()
        (made,) = far.enqueue([NewJob("task", id="mine")])

        assert made.id == "mine"
        assert not made.reused
        assert engine.count() == {State.WAITING: 1}

    @FREE_OR_LIMITED
    def test_a_claim_is_made_once(self, far, engine, lose, limits):
        engine.enqueue([NewJob("task", limits=limits), NewJob("task", limits=limits)])
        lose()
        (attempt,) = claim(far)

        (running,) = engine.jobs(state=State.RUNNING)
        assert (running.id, running.attempt) == (attempt.id, 1)
        assert settle(engine, attempt) == [True]
        assert engine.doctor() == []

    @FREE_OR_LIMITED
    def test_a_settlement_is_accepted_once(self, far, engine, lose, limits):
        engine.enqueue([NewJob("task", limits=limits), NewJob("task", limits=limits)])
        (attempt,) = claim(engine)
        lose()

        assert settle(far, attempt) == [True]
        assert settle(far, attempt) == [False]
        assert engine.count() == {State.DONE: 1, State.WAITING: 1}
        assert len(claim(engine)) == 1
        assert engine.doctor() == []

    @FREE_OR_LIMITED
    def test_an_exchange_is_made_once(self, far, engine, lose, limits):
        engine.enqueue([NewJob("task", limits=limits)] * 3)
        (attempt,) = claim(engine)
        lose()

        answers, next_claim = far.exchange(
            [Settlement(attempt.seq, attempt.fence, Done())], ["default"], 1, worker="worker"
        )
        assert answers == [True]
        assert settle(engine, *next_claim.jobs) == [True]
        assert engine.count() == {State.DONE: 2, State.WAITING: 1}
        assert engine.doctor() == []

    @FREE_OR_LIMITED
    def test_a_commit_that_the_server_hears_of_late_is_made_once(self, proxy, far, engine, limits):
        hear = proxy.hold_request(b"COMMIT")
        timer = threading.Timer(0.5, hear)
        timer.start()
        (made,) = far.enqueue([NewJob("task", limits=limits, due=1)])
        timer.join()
        time.sleep(0.1)

        assert proxy.cuts == 1
        assert [job.id for job in engine.jobs()] == [made.id]
        assert engine.doctor() == []

    @FREE_OR_LIMITED
    def test_a_settlement_that_the_server_hears_of_late_is_accepted(self, proxy, far, engine, limits):
        engine.enqueue([NewJob("task", limits=limits), NewJob("task", limits=limits)])
        (attempt,) = claim(engine)
        hear = proxy.hold_request(b"COMMIT")
        timer = threading.Timer(0.5, hear)
        timer.start()

        assert settle(far, attempt) == [True]
        timer.join()
        assert engine.count() == {State.DONE: 1, State.WAITING: 1}
        assert engine.doctor() == []

    def test_a_store_with_a_single_connection_can_still_ask(self, proxy, opened, engine, monkeypatch):
        monkeypatch.setattr(store_module, "CONNECTIONS", 1)
        far = opened(proxy.url)
        proxy.lose_answer(COMMITTED)
        answers = []
        asking = threading.Thread(
            target=lambda: answers.extend(far.enqueue([NewJob("task", limits=LIMITED)])), daemon=True
        )
        asking.start()
        asking.join(10)

        assert not asking.is_alive()
        assert len(answers) == 1
        assert engine.count() == {State.WAITING: 1}


class TestPassingTrouble:
    @pytest.fixture
    def broken(self, server, home, engine):
        """Have the server itself fail so many times when a table is written to, with this error."""

        def arrange(table, code, times):
            schema = split_schema(home)[1]
            with psycopg.connect(server.url, autocommit=True) as connection:
                connection.execute(
                    f"""
                    SET search_path = {schema};
                    CREATE SEQUENCE writes;
                    CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                        IF nextval('{schema}.writes') <= {times} THEN
                            RAISE EXCEPTION 'as arranged' USING ERRCODE = '{code}';
                        END IF;
                        RETURN NULL;
                    END $$;
                    CREATE TRIGGER fail AFTER INSERT OR UPDATE OR DELETE ON {table}
                        FOR EACH STATEMENT EXECUTE FUNCTION fail();
                    """
                )

            def writes():
                with psycopg.connect(server.url, autocommit=True) as connection:
                    return connection.execute(f"SELECT last_value FROM {schema}.writes").fetchone()[0]

            return writes

        return arrange

    @pytest.mark.parametrize(
        "table", ["job", "ready", "lane_job", "lane", "gate", "running", "done", "attempt", "receipt"]
    )
    def test_whatever_fails_is_done_again_as_a_whole(self, engine, broken, table):
        writes = broken(table, "40P01", 2)
        again = RetryPolicy(attempts=3)
        engine.enqueue([NewJob("task", limits=LIMITED, retry=again)] * 2)
        engine.enqueue([NewJob("free")] * 2)
        attempts = claim(engine, 10)
        assert [a.task for a in attempts] == ["task", "free", "free"]
        engine.settle([Settlement(a.seq, a.fence, Failed("ValueError", "no")) for a in attempts[:1]])
        assert settle(engine, *attempts[1:]) == [True, True]

        assert writes() > 2
        assert engine.count() == {State.DONE: 2, State.WAITING: 1, State.SCHEDULED: 1}
        assert len(engine.failures(attempts[0].id)) == 1
        assert engine.doctor() == []
        assert len(claim(engine, 10)) == 1

    @pytest.mark.parametrize("table", ["job", "lane_job", "ready"])
    def test_a_table_that_cannot_grow_is_told_of(self, engine, broken, impatient, table):
        broken(table, "53100", 1_000_000)
        with pytest.raises(StoreError, match=r"disk of PostgreSQL at 127\.0\.0\.1.* is full"):
            engine.enqueue([NewJob("task", limits=() if table == "ready" else LIMITED)])

        assert engine.count() == {}
        assert engine.doctor() == []

    @pytest.fixture
    def trouble(self, monkeypatch):
        """Have the next statements with these *words* in them fail after the server has run them."""

        def arrange(words, error, times):
            failed = []
            for name in ("_execute", "many", "last"):
                run = getattr(PostgresSession, name)

                def fail(self, sql, *values, run=run):
                    answer = run(self, sql, *values)
                    if words in sql and len(failed) < times:
                        failed.append(words)
                        raise error("as arranged")
                    return answer

                monkeypatch.setattr(PostgresSession, name, fail)
            return failed

        return arrange

    @pytest.mark.parametrize(
        "error",
        [errors.DeadlockDetected, errors.SerializationFailure, errors.LockNotAvailable, errors.DiskFull,
         errors.OutOfMemory, errors.TooManyConnections],
    )  # fmt: skip
    def test_what_may_pass_is_tried_again(self, engine, trouble, error):
        engine.enqueue([NewJob("task", limits=LIMITED)] * 2)
        (attempt,) = claim(engine)
        failed = trouble("UPDATE gate SET running", error, 1)

        assert settle(engine, attempt) == [True]
        assert len(failed) == 1
        assert engine.count() == {State.DONE: 1, State.WAITING: 1}
        assert engine.gate("X").running == 0
        assert engine.doctor() == []

    def test_a_disk_that_stays_full_is_named(self, engine, trouble, impatient):
        trouble("FROM gate", errors.DiskFull, 1_000_000)
        with pytest.raises(StoreError, match=r"disk of PostgreSQL at 127\.0\.0\.1.* is full"):
            engine.enqueue([NewJob("task", limits=LIMITED)])

    @pytest.mark.parametrize("error", [errors.DeadlockDetected, errors.SerializationFailure])
    def test_a_caller_that_never_gets_through_hears_that_it_is_busy(self, engine, trouble, impatient, error):
        trouble("FROM gate", error, 1_000_000)
        with pytest.raises(StoreBusyError, match="stayed busy"):
            engine.enqueue([NewJob("task", limits=LIMITED)])
        assert engine.count() == {}

    def test_what_will_not_pass_is_not_tried_again(self, engine, trouble):
        failed = trouble("FROM gate", errors.UndefinedColumn, 1_000_000)
        with pytest.raises(StoreError, match="as arranged"):
            engine.enqueue([NewJob("task", limits=LIMITED)])

        assert len(failed) == 1

    def test_two_who_wait_for_each_other_both_get_through(self, engine):
        meet = threading.Barrier(2)
        runs = []

        def work(number):
            first, second = ("one", "two") if number else ("two", "one")

            def locked(db):
                runs.append(first)
                db.lock([first])
                if len(runs) <= 2:
                    meet.wait(30)
                db.lock([second])
                return first

            return engine.store.write(locked, locks=store_module.Locks.NONE)

        assert at_once(2, work) == ["two", "one"]
        assert len(runs) == 3

    def test_a_work_that_raises_leaves_nothing_behind(self, engine):
        def work(db):
            db.run("INSERT INTO queue_pause (tenant, queue, at) VALUES (?, ?, ?)", "", "q", 1)
            raise LookupError("mine")

        with pytest.raises(LookupError, match="mine"):
            engine.store.write(work)
        assert engine.queues() == []
        engine.pause("q")
        assert [queue["name"] for queue in engine.queues()] == ["q"]

    def test_an_interrupted_work_leaves_nothing_behind(self, engine):
        def work(db):
            db.run("INSERT INTO queue_pause (tenant, queue, at) VALUES (?, ?, ?)", "", "q", 1)
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            engine.store.write(work)
        engine.enqueue([NewJob("task", queue="q")])
        assert len(engine.claim(["q"], 1, worker="worker").jobs) == 1


class TestOpening:
    """What cannot be opened is named at once, with what to do, and without a password."""

    @staticmethod
    def refused(url, *words, error=StoreDownError, **options):
        began = time.monotonic()
        with pytest.raises(error) as caught:
            open_engine(url, **options)
        assert time.monotonic() - began < 20
        one_sentence(caught.value, *words)
        assert "secret" not in str(caught.value)
        assert "secret" not in repr(caught.value.__cause__)

    def test_a_server_that_is_down(self):
        place = f"127.0.0.1:{free_port()}"
        self.refused(f"postgresql://me:secret@{place}/jobs", "cannot reach", place, "jobs")

    def test_a_database_that_does_not_exist(self, server):
        self.refused(
            server.url.removesuffix("/postgres") + "/nothing", "nothing", "does not exist", "127.0.0.1"
        )

    def test_a_user_who_does_not_exist(self, server):
        self.refused(server.url.replace("postgres@", "stranger:secret@"), "stranger", "does not exist")

    def test_a_password_that_was_typed_wrong(self, server):
        self.refused(
            server.url.replace("postgres@", "postgres:secret%zz@"), "percent-encoded", error=PenstockError
        )

    def test_a_parameter_that_nobody_knows(self, server):
        self.refused(f"{server.url}?flavour=green", "flavour", error=PenstockError)

    def test_a_user_who_may_not_make_a_schema(self, server, home):
        with self.stranger(server) as url:
            self.refused(f"{url}?schema={split_schema(home)[1]}", "permission denied", "grant")

    def test_a_user_who_may_not_use_the_tables(self, server, home, opened):
        opened(home)
        schema = split_schema(home)[1]
        with self.stranger(server, f"GRANT USAGE ON SCHEMA {schema} TO stranger") as url:
            self.refused(f"{url}?schema={schema}", "permission denied", "grant")

    def test_a_user_who_may_do_no_more_than_use_the_tables(self, server, home, opened):
        opened(home)
        schema = split_schema(home)[1]
        grants = (
            f"GRANT USAGE ON SCHEMA {schema} TO stranger",
            f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO stranger",
            f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA {schema} TO stranger",
        )
        with self.stranger(server, *grants) as url, closing(open_engine(f"{url}?schema={schema}")) as engine:
            engine.enqueue([NewJob("task"), NewJob("task", limits=LIMITED)])
            assert settle(engine, *claim(engine, 2)) == [True, True]

    def test_the_second_of_two_servers(self, server, home):
        place = server.url.rpartition("@")[2].partition("/")[0]
        two = home.replace(place, f"127.0.0.1:{free_port()},{place}")
        with closing(open_engine(two)) as engine:
            engine.enqueue([NewJob("task")])
            assert engine.count() == {State.WAITING: 1}

    def test_a_schema_that_vanishes_is_missed(self, server, home, opened):
        engine = opened(home)
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute(f"DROP SCHEMA {split_schema(home)[1]} CASCADE")
        for use in uses(engine):
            with pytest.raises(SchemaError) as caught:
                use()
            one_sentence(caught.value, "penstock migrate")

    @staticmethod
    @contextmanager
    def stranger(server, *grants):
        """Yield the address of a database for a user who may do only that."""
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("CREATE ROLE stranger LOGIN")
            try:
                for grant in grants:
                    connection.execute(grant)
                yield server.url.replace("postgres@", "stranger@")
            finally:
                connection.execute("DROP OWNED BY stranger")
                connection.execute("DROP ROLE stranger")


class TestClosing:
    def test_a_store_that_was_closed_says_so(self, home):
        engine = open_engine(home)
        revision = engine.revision()
        engine.close()

        for use in (engine.revision, lambda: engine.wait(revision, 5), *uses(engine)):
            with pytest.raises(StoreDownError, match="was closed"):
                use()

    @pytest.mark.parametrize("topic", Topic)
    def test_a_thread_that_waits_need_not_wait_for_what_will_never_come(self, home, topic):
        engine = open_engine(home)
        told = []

        def wait():
            try:
                while True:  # a listener that has just connected counts as a change
                    engine.wait(engine.revision(topic), 30, topic)
            except StoreDownError as error:
                told.append(str(error))

        waiting = threading.Thread(target=wait, daemon=True)
        waiting.start()
        time.sleep(0.1)
        engine.close()
        waiting.join(30)

        assert len(told) == 1
        assert "was closed" in told[0]

    def test_no_connection_and_no_thread_stays_behind(self, server, home):
        before = set(threading.enumerate())
        engine = open_engine(f"{home}&application_name=short")
        engine.enqueue([NewJob("task")])
        engine.wait(engine.revision(), 0.1)
        assert backends(server, "short")
        engine.close()

        until(lambda: backends(server, "short") == [])
        until(lambda: set(threading.enumerate()) <= before)

    def test_an_engine_that_is_dropped_closes_its_connections_without_the_garbage_collector(
        self, server, home
    ):
        gc.disable()
        try:
            engine = open_engine(f"{home}&application_name=dropped")
            engine.enqueue([NewJob("task")])
            assert backends(server, "dropped")
            del engine

            until(lambda: backends(server, "dropped") == [])
        finally:
            gc.enable()

    def test_a_child_that_was_forked_is_refused_and_takes_nothing_from_its_parent(self, home):
        script = """
import os, signal, sys
from penstock.engine import open_engine
from penstock.errors import StoreDownError
from penstock.job import NewJob

engine = open_engine(sys.argv[1])
engine.enqueue([NewJob("task")])
engine.revision()
engine.store._inserts._busy = True  # as while another thread inserts
child = os.fork()
engine.store._inserts._busy = not child
if not child:
    signal.alarm(60)
    for use in (engine.count, engine.revision, lambda: engine.enqueue([NewJob("task")])):
        try:
            use()
        except StoreDownError as error:
            assert "fork" in str(error), error
        else:
            os._exit(1)
    engine.close()
    del engine
    sys.exit(0)
_, status = os.waitpid(child, 0)
print(status, sum(engine.count().values()), engine.enqueue([NewJob("task")])[0].id > "")
"""
        ran = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", script, home], cwd=ROOT / "src",
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert (ran.stdout, ran.returncode) == ("0 1 True\n", 0), ran.stderr


def one_sentence(error, *words):
    text = str(error)
    assert "\n" not in text
    assert "Traceback" not in text
    for word in words:
        assert word in text
