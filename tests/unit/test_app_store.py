import sqlite3
import sys
from contextlib import closing

import pytest

from penstock import App, InvalidError, SchemaError, State, StoreDownError, StoreError
from penstock.testing import engine_in_memory
from tests.support.forked import trouble_in_a_fork


def noop() -> None: ...


def test_nothing_is_opened_before_it_is_needed(tmp_path):
    app = App(tmp_path / "jobs.db")
    task = app.task(noop)

    assert not list(tmp_path.iterdir())

    task.enqueue()
    app.close()

    assert (tmp_path / "jobs.db").exists()


def test_a_closed_app_opens_again_when_it_is_used(tmp_path):
    with App(tmp_path / "jobs.db") as app:
        job = app.task(noop).enqueue()

    with app:
        assert job.state is State.WAITING


def test_closing_an_app_that_was_never_used_does_nothing(tmp_path):
    App(tmp_path / "jobs.db").close()

    assert not list(tmp_path.iterdir())


def test_the_url_can_come_from_the_environment(tmp_path, monkeypatch):
    app = App()
    monkeypatch.setenv("PENSTOCK_URL", str(tmp_path / "elsewhere.db"))

    with app:
        app.task(noop).enqueue()

    assert (tmp_path / "elsewhere.db").exists()


def test_an_app_without_a_store_says_how_to_name_one(monkeypatch):
    monkeypatch.delenv("PENSTOCK_URL", raising=False)

    named = r"^url: no store was named: write App\('jobs.db'\), or set PENSTOCK_URL"
    with pytest.raises(InvalidError, match=named):  # nothing is down
        App().task(noop).enqueue()


def test_postgresql_without_its_driver_says_what_to_install(monkeypatch):
    """Once: `StoreDownError`, though nothing is down."""
    monkeypatch.setitem(sys.modules, "penstock.store.postgres", None)

    missing = r"^url: PostgreSQL needs psycopg: pip install 'penstock\[postgres\]'"
    with pytest.raises(InvalidError, match=missing):
        App("postgresql://127.0.0.1/jobs").task(noop).enqueue()


def test_a_scheme_that_is_unknown_is_answered_with_all_that_are():
    with pytest.raises(InvalidError, match=r"^url: redis:// is not .*postgresql://.* or a server's http://"):
        App("redis://127.0.0.1").task(noop).enqueue()


def test_a_missing_folder_is_one_clear_sentence(tmp_path):
    with pytest.raises(StoreDownError, match=r"the folder .*nowhere.* does not exist"):
        App(tmp_path / "nowhere" / "jobs.db").task(noop).enqueue()


def test_a_file_that_is_no_database_is_one_clear_sentence(tmp_path):
    path = tmp_path / "jobs.db"
    path.write_text("dear diary, " * 200)

    with pytest.raises(StoreError, match=r"jobs\.db"):
        App(path).task(noop).enqueue()


def test_a_store_of_a_newer_penstock_is_one_clear_sentence(tmp_path):
    path = tmp_path / "jobs.db"
    with App(path) as app:
        app.task(noop).enqueue()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("INSERT INTO schema_version (version) VALUES (9999)")
        connection.commit()

    with pytest.raises(SchemaError, match="newer penstock"):
        App(path).task(noop).enqueue()


def test_a_forked_child_opens_a_store_of_its_own(tmp_path):
    app = App(tmp_path / "jobs.db")
    task = app.task(noop)
    first = app.engine

    def work():
        task.enqueue()
        assert app.engine is not first

    trouble = trouble_in_a_fork(work)

    assert not trouble, trouble
    assert app.engine is first
    assert {State.WAITING: 1} == {state: count for state, count in app.engine.count().items() if count}
    app.close()


def test_an_engine_that_was_given_is_left_open():
    engine = engine_in_memory()
    App(engine=engine).close()

    assert not engine.jobs()
    engine.close()
