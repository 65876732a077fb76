"""Schemas in a database: made once, by the process that comes first, and independent of each other."""

import os
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from penstock.engine import open_engine
from penstock.errors import InvalidError, SchemaError, StoreError
from penstock.job import NewJob
from penstock.lifecycle.states import State
from penstock.lifecycle.unique import Unique
from penstock.limits.rules import Numbers
from penstock.store import migrations
from penstock.store.postgres import PostgresStore, address
from penstock.store.postgres.store import KIND
from tests.postgres.race import QUIET, Race, do, quiet
from tests.support.desk import slots
from tests.support.postgres import drop_schema, fresh_schema, shared_url, split_schema
from tests.support.timing import at_once

SCHEMA = Path(__file__).parents[1] / "schema" / "postgres.sql"

COLUMNS = """
    SELECT c.relname, a.attname || ' ' || format_type(a.atttypid, a.atttypmod)
        || CASE WHEN a.attcollation <> t.typcollation THEN ' COLLATE ' || quote_ident(n.collname) ELSE '' END
        || CASE WHEN a.attstorage <> t.typstorage THEN ' STORAGE ' || a.attstorage::text ELSE '' END
        || CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END
        || coalesce(' DEFAULT ' || pg_get_expr(d.adbin, d.adrelid), '')
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid JOIN pg_type t ON t.oid = a.atttypid
    LEFT JOIN pg_collation n ON n.oid = a.attcollation
    LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
    WHERE c.relnamespace = %s::regnamespace AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped
    ORDER BY c.relname, a.attnum
"""
OPTIONS = """
    SELECT relname, array_to_string(reloptions, ', ') FROM pg_class
    WHERE relnamespace = %s::regnamespace AND relkind = 'r' AND reloptions IS NOT NULL
"""
CONSTRAINTS = """
    SELECT t.relname, 'CONSTRAINT ' || conname || ' ' || pg_get_constraintdef(k.oid, true)
    FROM pg_constraint k JOIN pg_class t ON t.oid = k.conrelid
    WHERE t.relnamespace = %s::regnamespace AND k.contype <> 'n' ORDER BY k.contype, conname
"""
INDEXES = """
    SELECT t.relname, pg_get_indexdef(i.indexrelid, 0, true)
    FROM pg_index i JOIN pg_class t ON t.oid = i.indrelid
    WHERE t.relnamespace = %s::regnamespace
    AND NOT EXISTS (SELECT 1 FROM pg_constraint k WHERE k.conindid = i.indexrelid) ORDER BY 2
"""
SEQUENCES = "SELECT relname FROM pg_class WHERE relnamespace = %s::regnamespace AND relkind = 'S' ORDER BY 1"


def dump(url):
    """Return what the catalogue says about a schema, table by table."""
    plain, schema = split_schema(url)
    with psycopg.connect(plain) as connection:
        home = sql.Identifier(schema).as_string()
        connection.execute(f"SET search_path = {home}")

        def ask(question):
            return connection.execute(question, (home,)).fetchall()

        inside, indexes = {}, {}
        for table, part in [*ask(COLUMNS), *ask(CONSTRAINTS)]:
            inside.setdefault(table, []).append(f"    {part}")
        for table, index in ask(INDEXES):
            indexes[table] = f"{indexes.get(table, '')}{index};\n"
        stored = {table: f" WITH ({options})" for table, options in ask(OPTIONS)}
        tables = [
            f"CREATE TABLE {table} (\n"
            + ",\n".join(parts)
            + f"\n){stored.get(table, '')};\n{indexes.get(table, '')}"
            for table, parts in inside.items()
        ]
        return "\n".join([*(f"CREATE SEQUENCE {name};\n" for (name,) in ask(SEQUENCES)), *tables])


def versions(url):
    plain, schema = split_schema(url)
    with psycopg.connect(plain) as connection:
        return connection.execute(
            sql.SQL("SELECT version FROM {} ORDER BY 1").format(sql.Identifier(schema, "schema_version"))
        ).fetchall()


def one_sentence(error, *words):
    text = str(error)
    assert "\n" not in text
    for word in words:
        assert word in text


class TestMaking:
    def test_the_schema_is_the_one_written_down(self, new_url):
        """After a new migration: `PENSTOCK_WRITE_SCHEMA=1 pytest tests/postgres -k written_down`, and read the diff."""
        open_engine(new_url).close()
        made = dump(new_url)
        if os.environ.get("PENSTOCK_WRITE_SCHEMA"):
            SCHEMA.write_text(made)

        assert made == SCHEMA.read_text()

    def test_ten_who_open_a_new_schema_at_once_make_it_once(self, new_url):
        def start(_):
            with closing(open_engine(new_url)) as engine:
                engine.enqueue([NewJob("task"), NewJob("task", limits=(slots("X", 1),))])

        at_once(10, start)

        assert versions(new_url) == [(number + 1,) for number in range(len(migrations.names()))]
        assert dump(new_url) == SCHEMA.read_text()
        with closing(open_engine(new_url)) as engine:
            assert engine.count() == {State.WAITING: 20}
            assert engine.doctor() == []

    def test_from_nothing_to_the_present_and_no_further(self, new_url):
        store = PostgresStore(address(new_url))
        state = store.read(lambda db: migrations.pending(db, KIND))

        assert (state.found, state.missing) == (state.known, ())
        assert store.migrate() == []
        store.close()

    def test_a_schema_that_needs_migration_is_not_migrated_unasked(self, new_url):
        with pytest.raises(SchemaError) as caught:
            open_engine(new_url, migrate=False)

        one_sentence(caught.value, "penstock migrate", split_schema(new_url)[1])
        assert dump_or_nothing(new_url) == ""

    def test_a_schema_of_a_newer_penstock_is_refused_and_left_as_it_is(self, new_url):
        open_engine(new_url).close()
        plain, schema = split_schema(new_url)
        with psycopg.connect(plain) as connection:
            connection.execute(
                sql.SQL("INSERT INTO {} VALUES (9999)").format(sql.Identifier(schema, "schema_version"))
            )
        before = dump(new_url)
        with pytest.raises(SchemaError) as caught:
            open_engine(new_url)

        one_sentence(caught.value, "newer", "9999", "upgrade")
        assert dump(new_url) == before

    def test_a_step_that_fails_leaves_no_half_of_it(self, new_url, monkeypatch):
        true = migrations.statements
        monkeypatch.setattr(
            migrations, "statements", lambda *step: [*true(*step), "CREATE TABLE oops oops oops"]
        )
        with pytest.raises(StoreError):
            open_engine(new_url)
        assert dump_or_nothing(new_url) == ""
        monkeypatch.undo()

        open_engine(new_url).close()
        assert dump(new_url) == SCHEMA.read_text()

    def test_a_schema_with_other_peoples_tables_is_shared_with_them(self, new_url):
        plain, schema = split_schema(new_url)
        with psycopg.connect(plain) as connection:
            connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
            connection.execute(
                sql.SQL("CREATE TABLE {} (name text)").format(sql.Identifier(schema, "customer"))
            )
        open_engine(new_url).close()

        assert "CREATE TABLE customer" in dump(new_url)


class TestNames:
    @pytest.mark.parametrize(
        "name",
        ["", "a-b", "1a", 'a"b', "a b", "a;b", "a.b", "é", "x" * 64],
        ids=lambda name: name[:5] or "empty",
    )
    def test_a_bad_name_is_refused(self, name):
        with pytest.raises(InvalidError) as caught:
            open_engine(f"{shared_url()}?schema={name.replace(';', '%3B').replace(' ', '%20')}")

        one_sentence(caught.value, "schema=", "letters")

    @pytest.mark.parametrize("name", ["Mixed_Case", "select", "_", "x" * 63], ids=lambda name: name[:10])
    def test_a_good_name_is_used_as_it_is(self, name):
        url = f"{shared_url()}?schema={name}"
        drop_schema(url)
        try:
            engine = open_engine(url)
            engine.enqueue([NewJob("task"), NewJob("task", limits=(slots("X", 1),))])
            assert len(engine.claim(["default"], 2, worker="worker").jobs) == 2
            assert engine.doctor() == []
            engine.close()

            assert dump(url) == SCHEMA.read_text()
        finally:
            drop_schema(url)

    def test_a_name_that_the_server_keeps_for_itself_is_refused(self):
        with pytest.raises(StoreError) as caught:
            open_engine(f"{shared_url()}?schema=pg_mine")

        one_sentence(caught.value, "pg_mine")

    def test_the_name_is_penstock_unless_another_is_given(self):
        assert address("postgresql://somewhere/jobs").schema == "penstock"
        assert address("postgres://somewhere/jobs?schema=mine&connect_timeout=3").schema == "mine"


class TestTwoSchemas:
    @pytest.fixture
    def races(self, url, clock):
        """Two stores in one database, of one clock."""
        other = fresh_schema(shared_url())
        with Race(url, clock) as here, Race(other, clock) as there:
            yield here, there
        drop_schema(other)

    def test_they_do_not_see_each_others_jobs_gates_and_rules(self, races):
        here, there = (race.desk for race in races)
        here.enqueue("a", slots("X", 1))
        there.enqueue("a b", slots("X", 1))
        here.engine.configure("queue", "q", Numbers(slots=0))
        here.engine.pause("r")

        assert here.claim() == ""
        assert there.claim() == "a"
        assert there.engine.count() == {State.RUNNING: 1, State.WAITING: 1}
        assert [queue["name"] for queue in there.engine.queues()] == ["q"]

    def test_they_do_not_wait_for_each_others_gates(self, races):
        here, there = races
        there.desk.enqueue("a", slots("X", 1))

        with here.gates_taken():
            assert there.start(do.claim()).answer() == "a"
            there.start(do.configure("queue", "q", Numbers(slots=1))).answer()

    def test_they_do_not_wait_for_each_others_rules(self, races):
        here, there = races
        there.desk.enqueue("a")
        here.hold(do.pause("q"))

        assert there.start(do.claim()).answer() == "a"

    def test_they_do_not_wait_for_each_others_names(self, races):
        here, there = races

        def call(desk):
            return desk.engine.enqueue([NewJob("task", unique=Unique("key"))])

        here.hold(call)
        (made,) = there.start(call).answer()
        assert not made.reused

    def test_they_do_not_hear_each_other(self, races):
        here, there = (race.desk for race in races)
        token = quiet(there.engine)
        here.enqueue("a")

        assert there.engine.wait(token, QUIET) == token


def dump_or_nothing(url):
    plain, schema = split_schema(url)
    with psycopg.connect(plain) as connection:
        known = connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (schema,)).fetchone()
    return dump(url) if known else ""
