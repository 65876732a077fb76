"""Statements that go along with others: one way to the server instead of several, and the same answers."""

import psycopg
import pytest

from penstock.job import NewJob, Settlement
from penstock.lifecycle.outcomes import Done
from penstock.store import lanes as lane_rows
from penstock.store import waiting as waiting_rows
from penstock.store.gates import load_own
from penstock.store.postgres.messages import MOST, PreparedNames, literals
from penstock.store.postgres.session import PostgresSession
from penstock.store.session import GatesNeededError, Locks
from tests.support.desk import rate, slots

COUNT = "SELECT count(*) FROM setting"


@pytest.fixture
def engine(url, opened):
    return opened(url)


@pytest.fixture
def ways(monkeypatch):
    """Every message that is sent from now on, by any thread that runs a transaction."""
    sent = []
    for kind in (psycopg.Connection, psycopg.RawCursor):

        def execute(self, statement, *args, _execute=kind.execute, **options):
            sent.append(statement)
            return _execute(self, statement, *args, **options)

        monkeypatch.setattr(kind, "execute", execute)
    return sent


def settings(db):
    return db.all(COUNT)


def add(db, name="x"):
    db.run("INSERT INTO setting (name, value, at) VALUES (?, '', 0)", name)


def exchange(engine, held, count):
    settlements = [Settlement(job.seq, job.fence, Done()) for job in held]
    settled, claim = engine.exchange(settlements, ["default"], count, worker="w")
    assert all(settled)
    return claim.jobs


class TestAlong:
    def test_an_answer_that_went_along_is_found_later(self, engine, ways):
        def work(db):
            db.along(settings)
            db.all("SELECT 1")
            before = len(ways)
            assert settings(db) == [(0,)]
            assert len(ways) == before

        engine.store.write(work)

    def test_it_is_asked_again_once_the_transaction_has_changed_something(self, engine):
        def work(db):
            db.along(settings)
            db.all("SELECT 1")
            add(db)
            assert settings(db) == [(1,)]

        engine.store.write(work)

    def test_it_is_found_once(self, engine):
        def work(db):
            db.along(settings)
            db.all("SELECT 1")
            settings(db)
            add(db)
            assert settings(db) == [(1,)]

        engine.store.write(work)

    def test_what_it_changed_is_told_whatever_is_changed_meanwhile(self, engine):
        engine.enqueue([NewJob("task", limits=(slots("X", 1),))])

        def work(db):
            (lane,) = lane_rows.ready(db, ("", "default", ""), 1)
            db.along(lambda later: waiting_rows.leave_lanes(later, [lane.head]))
            db.all("SELECT 1")
            add(db)
            assert [row[0] for row in waiting_rows.leave_lanes(db, [lane.head])] == [lane.head]
            assert waiting_rows.leave_lanes(db, [lane.head]) == []
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            engine.store.write(work)

    def test_what_goes_along_with_the_opening_is_asked_after_the_locks_are_held(self, engine, ways):
        ways.clear()

        def work(db):
            assert settings(db) == [(0,)]

        engine.store.write(work, first=settings)
        opening = next(text for text in ways if "BEGIN" in text)
        assert opening.index("pg_advisory_xact_lock") < opening.index("EXECUTE")

    def test_it_is_run_again_with_the_transaction(self, engine):
        locks = []

        def work(db):
            locks.append(db.gated)
            db.need_gates()
            return settings(db)

        assert engine.store.write(work, locks=Locks.NONE, first=settings) == [(0,)]
        assert locks == [False, True]

    def test_nothing_goes_along_where_a_pooler_may_part_messages(self, engine):
        def work(db):
            assert not db.along(settings)
            return settings(db)

        engine.store._prepare = None
        engine.store._drop_idle()
        assert engine.store.write(work, first=settings) == [(0,)]

    def test_a_text_with_a_nul_is_refused_before_anything_is_sent(self, engine):
        def work(db):
            db.last("INSERT INTO setting (name, value, at) VALUES (?, ?, 0)", [("a", "b\0"), ("c", "d")])

        with pytest.raises(Exception, match="NUL"):
            engine.store.write(work)
        assert engine.store.read(settings) == [(0,)]

    def test_statements_beside_a_refused_text_stay_usable(self, engine):
        rename = "UPDATE setting SET value = ? WHERE name = ?"
        pairs = [("a", "b"), ("c", "d")]

        def work(db, name="e\0"):
            db.last(rename, pairs)
            db.last("INSERT INTO setting (name, value, at) VALUES (?, ?, 0)", [(name, "a"), ("f", "b")])

        with pytest.raises(Exception, match="NUL"):
            engine.store.write(work)
        engine.store.write(lambda db: work(db, "e"))
        assert engine.store.read(settings) == [(2,)]
        assert engine.store._prepare is not None

    def test_questions_beside_a_refused_text_stay_usable(self, engine):
        engine.enqueue([NewJob("task", limits=(slots(f"X{n}", 1),)) for n in range(3)])
        (job,) = engine.claim(["default"], 1, worker="w").jobs
        ended = [Settlement(job.seq, job.fence, Done())]
        engine.store._drop_idle()
        with pytest.raises(Exception, match="NUL"):
            engine.exchange(ended, ["de\0"], 1, worker="w")
        assert engine.settle(ended) == [True]
        assert engine.store._prepare is not None


class TestNames:
    def test_a_rollback_leaves_statements_prepared(self, engine):
        def work(db):
            settings(db)
            raise ZeroDivisionError

        engine.store.write(settings, first=settings)
        with pytest.raises(ZeroDivisionError):
            engine.store.write(work, first=settings)
        assert engine.store.write(settings, first=settings) == [(0,)]
        assert engine.store._prepare is not None

    def test_a_claim_in_one_message_works_after_a_rollback(self, engine):
        def work(db):
            raise ZeroDivisionError

        for number in range(3):
            engine.enqueue([NewJob("task", id=str(number))])
            assert len(engine.claim(["default"], 1, worker="w").jobs) == 1
            with pytest.raises(ZeroDivisionError):
                engine.store.write(work)
        assert engine.store._prepare is not None

    def test_names_of_a_message_that_failed_are_not_used_again(self, engine):
        def work(db):
            db.along(lambda later: later.all("SELECT 1 / (SELECT count(*) FROM setting)"))
            return settings(db)

        for _ in range(2):
            with pytest.raises(Exception, match="division by zero"):
                engine.store.write(work)
        assert engine.store.write(settings, first=settings) == [(0,)]
        assert engine.store._prepare is not None

    def test_a_connection_keeps_a_bounded_number(self):
        names = PreparedNames("me")
        texts = [names.call(f"SELECT {n}", "") for n in range(MOST + 1)]
        assert texts[0] == "PREPARE penstock_me_1 AS SELECT 0; EXECUTE penstock_me_1"
        assert texts[MOST].startswith("DEALLOCATE penstock_me_1; PREPARE")
        assert names.call("SELECT 1", " (2)") == "EXECUTE penstock_me_2 (2)"
        assert "PREPARE" in names.call("SELECT 0", "")

    @pytest.mark.parametrize(
        ("value", "text"),
        [
            (None, "NULL"),
            (-5, "-5"),
            ("it's", "'it''s'"),
            ("a\\b", " E'a\\\\b'"),
            (b"\x00\xff", "E'\\\\x00ff'"),
        ],
    )
    def test_values_are_written_as_literals(self, value, text):
        assert literals([value]) == f" ({text})"


class TestExchange:
    @pytest.mark.parametrize("limits", ["slots", "slots and a rate"])
    def test_an_exchange_of_ten_takes_at_most_six_messages(self, engine, ways, limits):
        shared = (rate("api", 1_000_000),) if limits != "slots" else ()
        engine.enqueue([NewJob("task", limits=(slots(f"key{n % 40}", 1), *shared)) for n in range(200)])
        held = []
        for _ in range(10):
            held = exchange(engine, held, 10)
        ways.clear()
        exchange(engine, held, 10)

        sent = [text for text in ways if "NOTIFY" not in str(text)]
        assert len(sent) <= 6, "\n".join(map(str, sent))

    def test_a_gate_is_looked_up_by_its_number_whatever_the_number_of_keys(self, engine):
        engine.enqueue([NewJob("task", limits=(slots(f"key{n}", 1),)) for n in range(50)])
        plans = []

        class Explained:
            def __init__(self, db):
                self._db = db

            def all(self, sql, *values):
                plans.extend(row[0] for row in self._db.all(f"EXPLAIN {sql}", *values))
                return []

        engine.store.write(lambda db: load_own(Explained(db), [1, 2, 3]))
        assert any("gate_pkey" in line for line in plans), "\n".join(plans)
        assert not any("gate_kind" in line for line in plans), "\n".join(plans)

    def test_a_transaction_that_needs_the_gates_finds_its_attempts_when_it_is_run_again(self, engine):
        engine.enqueue([NewJob("task", limits=(slots("X", 1), slots("Y", 1)))])
        (job,) = engine.claim(["default"], 1, worker="w").jobs
        engine._gated = engine._alone = 0

        assert engine.settle([Settlement(job.seq, job.fence, Done())]) == [True]
        assert engine.doctor() == []


def test_a_statement_is_taken_for_a_change_if_it_changes_something(engine):
    seen = {}

    def work(db):
        assert isinstance(db, PostgresSession)
        for sql in (
            "SELECT 1",
            "WITH RECURSIVE w (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM w WHERE n < 2) SELECT n FROM w",
            "SELECT name FROM setting FOR UPDATE SKIP LOCKED",
            "WITH gone AS (DELETE FROM setting RETURNING name) SELECT * FROM gone",
            "INSERT INTO setting (name, value, at) VALUES ('y', '', 0) RETURNING name",
        ):
            db.wrote = False
            db.all(sql)
            seen[sql.split()[0], "DELETE" in sql] = db.wrote
        raise GatesNeededError if not db.gated else ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        engine.store.write(work)
    assert seen == {
        ("SELECT", False): False,
        ("WITH", False): False,
        ("WITH", True): True,
        ("INSERT", False): True,
    }
