"""What the doctor says about the database itself."""

import psycopg
import pytest

from penstock.engine import open_engine
from penstock.store.postgres import health
from tests.support.postgres import drop_schema, fresh_schema, shared_url, split_schema


def test_a_file_needs_no_advice(tmp_path) -> None:
    engine = open_engine(str(tmp_path / "jobs.db"))

    assert engine.advice() == []
    engine.close()


@pytest.fixture
def url():
    found = fresh_schema(shared_url())
    yield found
    drop_schema(found)


@pytest.fixture
def engine(url):
    engine = open_engine(url)
    yield engine
    engine.close()


def about(engine, word: str) -> list[str]:
    return [sentence for sentence in engine.advice() if word in sentence]


def test_a_missing_index_is_named(engine, url) -> None:
    plain, schema = split_schema(url)
    assert about(engine, "index") == []
    with psycopg.connect(plain) as connection:
        connection.execute(f"DROP INDEX {schema}.running_lease")

    assert len(about(engine, "running_lease")) == 1


def test_a_transaction_that_is_left_open_is_named(engine, url, monkeypatch) -> None:
    plain, _ = split_schema(url)
    monkeypatch.setattr(health, "OLD", 0)
    with psycopg.connect(plain, application_name="forgetful") as connection:
        connection.execute("SELECT pg_current_xact_id()")

        assert len(about(engine, "forgetful")) == 1
    assert about(engine, "forgetful") == []


def test_dead_rows_are_counted(engine, url, monkeypatch) -> None:
    plain, schema = split_schema(url)
    monkeypatch.setattr(health, "MANY_DEAD", 10)
    with psycopg.connect(plain, autocommit=True) as connection:
        connection.execute(f"ALTER TABLE {schema}.wake SET (autovacuum_enabled = false)")
        connection.execute(f"INSERT INTO {schema}.wake SELECT n, 0 FROM generate_series(1, 100) n")
        connection.execute(f"DELETE FROM {schema}.wake")
        connection.execute("SELECT pg_stat_force_next_flush()")
        connection.execute("SELECT 1")

    assert len(about(engine, "table wake has 100 dead rows")) == 1
    assert len(about(engine, "turned off for table wake")) == 1


def test_unsafe_settings_are_named(engine) -> None:
    with psycopg.connect(shared_url()) as connection:
        (fsync,) = connection.execute("SHOW fsync").fetchone()

    assert bool(about(engine, "fsync")) == (fsync == "off")
