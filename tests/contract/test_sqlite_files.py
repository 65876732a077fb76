"""The files of a SQLite database: removed, replaced or damaged while processes have it open; and who may read them."""

import json
import os
import shutil
import sqlite3
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from penstock.clock import SECOND, monotonic, pause
from penstock.engine import open_engine
from penstock.errors import StoreBrokenError, StoreDamagedError, StoreDownError, StoreReplacedError
from penstock.job import NewJob, Settlement
from penstock.lifecycle.outcomes import Done
from penstock.lifecycle.states import State
from penstock.store.sqlite import SqliteStore
from tests.contract.test_sqlite import note

PAGE = 4096
JOB = NewJob("task")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "jobs.db"


@pytest.fixture
def engine(path):
    with closing(open_engine(str(path))) as engine:
        engine.enqueue([JOB])
        yield engine


@pytest.fixture
def copy(tmp_path):
    """A copy that could be put in place of the database."""
    with closing(open_engine(str(tmp_path / "copy.db"))) as engine:
        engine.enqueue([JOB, JOB])
    return tmp_path / "copy.db"


def uses(engine):
    """Everything that can be asked of a store."""
    return {
        "enqueue": lambda: engine.enqueue([JOB]),
        "claim": lambda: engine.claim(["default"], 1, worker="w"),
        "count": engine.count,
        "revision": engine.revision,
        "wait": lambda: engine.wait(-1, 5.0),
        "doctor": engine.doctor,
        "upkeep": engine.upkeep,
        "advice": engine.advice,
    }


class TestLost:
    @pytest.mark.parametrize("log", ["", "-wal", "-shm"], ids=["database", "log", "index"])
    @pytest.mark.parametrize("happened", ["removed", "replaced"])
    def test_an_enqueue_is_refused_once_a_file_is_gone(self, engine, path, happened, log):
        file = path.with_name(path.name + log)
        file.unlink()
        if happened == "replaced":
            file.touch()

        with pytest.raises(StoreReplacedError) as caught:
            engine.enqueue([JOB])

        assert str(file) == caught.value.file
        assert f"{file} was {happened}" in str(caught.value)
        assert "stop every process" in str(caught.value)

    @pytest.mark.parametrize("use", ["enqueue", "claim", "count", "revision", "wait", "doctor", "upkeep"])
    def test_every_use_notices_a_copy_that_was_moved_into_place(self, engine, path, copy, use):
        copy.replace(path)

        with pytest.raises(StoreReplacedError):
            _until_it_raises(uses(engine)[use])

    def test_an_enqueue_whose_file_goes_during_the_commit_is_refused(self, engine, path):
        engine.store.connection.set_trace_callback(lambda text: path.unlink() if text == "COMMIT" else None)

        with pytest.raises(StoreReplacedError):
            engine.enqueue([JOB])

        engine.store.connection.set_trace_callback(None)

    def test_every_caller_that_was_gathered_hears_of_it(self, path):
        with closing(SqliteStore(str(path))) as store:
            store.write(lambda db: db.run("CREATE TABLE note (text TEXT)"))
            gathered = []

            def lose(_):
                gathered.extend(pool.submit(store.write, note("lost")) for _ in range(8))
                _until(lambda: len(store._writer._waiting) == 8)
                path.unlink()

            with ThreadPoolExecutor(8) as pool, pytest.raises(StoreReplacedError):
                store.write(lose)

        assert [StoreReplacedError] * 8 == [type(one.exception()) for one in gathered]

    def test_a_thread_that_waits_is_told_at_once(self, engine, path):
        def wait():
            revision = engine.revision()
            began.set()
            engine.wait(revision, 60.0)

        began = threading.Event()
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(wait)
            assert began.wait(30)
            path.unlink()

            assert isinstance(waiting.exception(30), StoreReplacedError)

    def test_nothing_goes_on_when_the_file_is_put_back_under_a_process_that_missed_it(self, engine, path):
        path.rename(path.with_name("away"))
        with pytest.raises(StoreReplacedError):
            engine.enqueue([JOB])
        path.with_name("away").rename(path)

        for use in uses(engine).values():
            with pytest.raises(StoreReplacedError):
                use()

    def test_after_all_have_closed_and_opened_again_the_right_file_is_used(self, engine, path, copy):
        _replace(path, copy)
        with pytest.raises(StoreReplacedError):
            engine.enqueue([JOB])

        engine.close()

        with closing(open_engine(str(path))) as again:
            assert {State.WAITING: 2} == again.count()
            assert [] == again.doctor()

    def test_a_process_that_lost_its_file_leaves_the_new_ones_log_alone(self, engine, path, copy):
        _replace(path, copy)
        with closing(open_engine(str(path))) as new:
            new.enqueue([JOB])
            with pytest.raises(StoreReplacedError):
                engine.enqueue([JOB])

            engine.close()

            new.enqueue([JOB])
        with closing(open_engine(str(path))) as again:
            assert {State.WAITING: 4} == again.count()
            assert [] == again.doctor()

    def test_what_was_committed_is_kept_when_only_the_log_was_removed(self, engine, path):
        path.with_name("jobs.db-wal").unlink()
        with pytest.raises(StoreReplacedError):
            _until_it_raises(engine.count)

        engine.close()

        with closing(open_engine(str(path))) as again:
            assert {State.WAITING: 1} == again.count()

    def test_a_change_of_the_working_directory_is_no_loss(self, tmp_path, monkeypatch):
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        monkeypatch.chdir(tmp_path)
        with closing(open_engine("jobs.db")) as engine, closing(sqlite3.connect("jobs.db")) as connection:
            monkeypatch.chdir(elsewhere)

            engine.enqueue([JOB])
            engine.enqueue([JOB], connection=connection)
            connection.commit()
            assert {State.WAITING: 2} == engine.count()
            assert [] == engine.doctor()
        assert [] == list(elsewhere.iterdir())

    @pytest.mark.parametrize("use", ["enqueue", "claim", "count", "revision", "wait"])
    def test_a_store_that_is_closed_under_a_caller_is_closed_and_not_lost(self, engine, use, monkeypatch):
        """When its last connection is closed SQLite removes the log."""
        store = engine.store
        check = store._check_open

        def close_after() -> None:
            check()
            monkeypatch.setattr(store, "_check_open", check)
            engine.close()

        monkeypatch.setattr(store, "_check_open", close_after)

        with pytest.raises(StoreDownError, match="was closed"):
            uses(engine)[use]()

    def test_a_link_that_points_elsewhere_is_noticed(self, tmp_path, path, copy):
        link = tmp_path / "link.db"
        link.symlink_to(path)
        with closing(open_engine(str(link))) as engine:
            engine.enqueue([JOB])
            link.unlink()
            link.symlink_to(copy)

            with pytest.raises(StoreReplacedError):
                engine.enqueue([JOB])

    def test_another_name_and_another_process_that_comes_and_goes_are_no_loss(self, engine, path, tmp_path):
        (tmp_path / "other.db").hardlink_to(path)
        (tmp_path / "link.db").symlink_to(path)

        for name in (path, tmp_path / "link.db"):
            with closing(open_engine(str(name))) as other:
                other.enqueue([JOB])
        engine.store.write(lambda db: db.one("SELECT 1"))

        assert {State.WAITING: 3} == engine.count()

    def test_a_database_in_memory_has_no_file_to_lose(self):
        with closing(open_engine(":memory:")) as engine:
            engine.enqueue([JOB])

            assert {State.WAITING: 1} == engine.count()
            assert [] == engine.doctor()

    def test_a_job_in_a_callers_transaction_is_refused_once_the_file_is_gone(self, engine, path):
        with closing(sqlite3.connect(path)) as connection:
            path.rename(path.with_name("away"))
            path.touch()

            with pytest.raises(StoreReplacedError):
                engine.enqueue([JOB], connection=connection)

    def test_a_file_that_cannot_be_looked_for_is_no_loss_but_an_error(self, engine, path, monkeypatch):
        def refuse(name):
            raise PermissionError(13, "Permission denied", name)

        with monkeypatch.context() as patched:
            patched.setattr(os, "stat", refuse)
            with pytest.raises(StoreDownError, match="cannot look"):
                engine.enqueue([JOB])

        engine.enqueue([JOB])


class TestDamaged:
    def test_the_doctor_finds_every_page_that_sqlites_own_check_finds(self, path):
        """25 pages, one at a time."""
        with closing(open_engine(str(path))) as engine:
            engine.enqueue([NewJob("task", json.dumps({"args": ["x" * 700]})) for _ in range(1_000)])
            jobs = engine.claim(["default"], 500, worker="w").jobs
            engine.settle([Settlement(job.seq, job.fence, Done(json.dumps("y" * 900))) for job in jobs])
        pages = path.stat().st_size // PAGE
        whole = path.with_name("whole.db")
        shutil.copy(path, whole)
        missed, found = [], 0
        for page in {1 + number * (pages - 1) // 24 for number in range(25)}:
            shutil.copy(whole, path)
            _overwrite(path, page, bytes(PAGE))
            if _sound(path):
                continue
            found += 1
            try:
                with closing(open_engine(str(path))) as engine:
                    engine.doctor()
                missed.append(page)
            except StoreDamagedError:
                pass

        assert ([], True) == (missed, found >= 20)

    def test_the_doctor_finds_an_index_that_does_not_fit_its_table(self, engine, path):
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("CREATE TABLE extra (a, b)")
            connection.execute("CREATE INDEX extra_a ON extra (a)")
            connection.execute("INSERT INTO extra VALUES (1, 2)")
            connection.execute("PRAGMA writable_schema = ON")
            connection.execute(
                "UPDATE sqlite_master SET sql = 'CREATE INDEX extra_a ON extra (b)' WHERE name = 'extra_a'"
            )
        engine.close()

        with closing(open_engine(str(path))) as again, pytest.raises(StoreDamagedError) as caught:
            again.doctor()

        assert any("extra_a" in line for line in caught.value.found)

    @pytest.mark.parametrize("filling", [b"\0", b"\xa5"], ids=["zeros", "noise"])
    @pytest.mark.parametrize("first", [True, False], ids=["the first page", "all but the first page"])
    def test_a_damaged_database_is_not_taken_for_another_programs(self, path, first, filling):
        with closing(open_engine(str(path))) as engine:
            engine.enqueue([JOB] * 200)
        for page in [1] if first else range(2, path.stat().st_size // PAGE + 1):
            _overwrite(path, page, filling * PAGE)

        with pytest.raises(StoreDamagedError) as caught:
            open_engine(str(path))

        text = str(caught.value)
        assert f"{path} is damaged" in text
        assert "stop every process" in text
        assert ".recover" in text
        assert "\n" not in text

    def test_damage_under_a_process_that_has_it_open_stops_all_its_work(self, engine, path):
        engine.enqueue([JOB] * 5_000)
        _forget_what_is_cached(engine.store)
        for page in range(1, path.stat().st_size // PAGE + 1):
            _overwrite(path, page, b"\xa5" * PAGE)

        with pytest.raises(StoreDamagedError):
            _until_it_raises(lambda: engine.enqueue([JOB]))

        for use in uses(engine).values():
            with pytest.raises(StoreDamagedError):
                use()

    def test_a_statement_with_malformed_json_is_no_damage(self, engine):
        with pytest.raises(Exception, match="malformed JSON") as caught:
            engine.store.read(lambda db: db.all("SELECT value FROM json_each('{')"))

        assert not isinstance(caught.value, StoreBrokenError)
        engine.enqueue([JOB])


class TestModes:
    """What a job was given is not for others to read."""

    @pytest.fixture(params=[0o000, 0o022, 0o077], ids=oct)
    def umask(self, request):
        before = os.umask(request.param)
        yield request.param
        os.umask(before)

    def test_new_files_are_their_owners_alone(self, umask, path):
        with closing(open_engine(str(path))) as engine:
            engine.enqueue([JOB])

            assert {"jobs.db": 0o600, "jobs.db-wal": 0o600, "jobs.db-shm": 0o600} == _modes(path.parent)

    def test_a_new_file_is_never_readable_by_others_not_even_before_it_is_opened(
        self, umask, path, monkeypatch
    ):
        seen = []

        def connect(files):
            seen.append(_modes(path.parent))
            raise LookupError

        monkeypatch.setattr("penstock.store.sqlite.store.connect", connect)
        with pytest.raises(LookupError):
            open_engine(str(path))

        assert [{"jobs.db": 0o600}] == seen

    def test_a_file_that_exists_keeps_its_mode_and_its_log_has_it_too(self, umask, path):
        open_engine(str(path)).close()
        path.chmod(0o660)

        with closing(open_engine(str(path))) as engine:
            engine.enqueue([JOB])

            assert {"jobs.db": 0o660, "jobs.db-wal": 0o660, "jobs.db-shm": 0o660} == _modes(path.parent)

    def test_the_target_of_a_link_that_points_to_nothing_is_its_owners_alone(self, umask, tmp_path):
        (tmp_path / "link.db").symlink_to(tmp_path / "jobs.db")
        open_engine(str(tmp_path / "link.db")).close()

        assert 0o600 == stat.S_IMODE((tmp_path / "jobs.db").stat().st_mode)

    def test_a_uri_is_refused(self):
        with pytest.raises(StoreDownError, match="name the file itself"):
            open_engine("file:jobs.db?mode=ro")

    def test_a_folder_in_which_nothing_can_be_created_is_named(self, path, monkeypatch):
        def refuse(*_):
            raise PermissionError(13, "Permission denied")

        with monkeypatch.context() as patched:
            patched.setattr(os, "open", refuse)
            with pytest.raises(StoreDownError, match=r"jobs\.db: Permission denied; check"):
                open_engine(str(path))


def _until(true):
    end = monotonic() + 30 * SECOND
    while not true():
        assert monotonic() < end
        pause(0.001)


def _until_it_raises(use):
    """Use the store again and again: processes that only read notice a little later."""
    _until(lambda: use() is None and False)


def _replace(path, copy):
    """Put a copy in place of the database, and none in place of its logs."""
    for log in ("-wal", "-shm"):
        path.with_name(path.name + log).unlink()
    copy.replace(path)


def _overwrite(path, page, content):
    with path.open("r+b") as file:
        file.seek((page - 1) * PAGE)
        file.write(content)


def _sound(path):
    """Tell whether SQLite finds nothing."""
    with closing(sqlite3.connect(path)) as connection:
        try:
            return [("ok",)] == connection.execute("PRAGMA integrity_check").fetchall()
        except sqlite3.DatabaseError:
            return False


def _forget_what_is_cached(store):
    """Have every page in the file and none in memory."""
    store.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for connection in (store.connection, store._reader):
        connection.execute("PRAGMA shrink_memory")


def _modes(folder):
    return {file.name: stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()}
