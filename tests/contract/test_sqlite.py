"""The SQLite file: many threads and processes, and files that are not ours to touch."""

import os
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from penstock.engine import open_engine
from penstock.errors import InvalidError, SchemaError, StoreDownError, StoreError
from penstock.job import NewJob, Topic
from penstock.lifecycle.states import State
from penstock.store import migrations
from penstock.store.session import Session
from penstock.store.sqlite import SqliteStore
from penstock.store.sqlite.files import Files
from penstock.store.sqlite.opening import _refuse_strangers
from penstock.store.sqlite.translation import KIND
from penstock.store.sqlite.writer import GATHER, PendingWrite

ROOT = Path(__file__).parents[2]
SCHEMA = ROOT / "tests" / "schema" / "sqlite.sql"
NOBODY = 65534

WRITER = """
import sys
from penstock.engine import open_engine
from penstock.job import NewJob, Settlement
from penstock.lifecycle.outcomes import Done
from penstock.limits.rules import Limit, Numbers

engine = open_engine(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
done = 0
for number in range(40):
    engine.enqueue([NewJob("task", limits=(Limit("X", Numbers(slots=2)),)) for _ in range(2)])
    claim = engine.claim(["default"], 3, worker=sys.argv[2])
    assert len(claim.jobs) <= 2
    done += sum(engine.settle([Settlement(job.seq, job.fence, Done()) for job in claim.jobs]))
print(done)
engine.close()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
def sqlite(path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(str(path))
    store.write(lambda db: db.run("CREATE TABLE note (text TEXT)"))
    yield store
    store.close()


def notes(store: SqliteStore) -> list[str]:
    return [text for (text,) in store.read(lambda db: db.all("SELECT text FROM note ORDER BY text"))]


def note(text: str, *, fail: bool = False):
    def work(db: Session) -> str:
        db.run("INSERT INTO note (text) VALUES (?)", text)
        if fail:
            raise LookupError(text)
        return text

    return work


@contextmanager
def held(store: SqliteStore) -> Iterator[None]:
    """Keep the store's writer busy while the block lasts."""
    inside, go = threading.Event(), threading.Event()

    def work(_: Session) -> None:
        inside.set()
        assert go.wait(30)

    thread = threading.Thread(target=store.write, args=(work,))
    thread.start()
    assert inside.wait(30)
    try:
        yield
    finally:
        go.set()
        thread.join()


def run_together(script: str, *arguments: list[str]) -> list[str]:
    """Run a script in a process for each list of arguments, once all are ready; return what each prints."""
    pipe = subprocess.PIPE
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", script, *own], cwd=ROOT / "src", stdin=pipe, stdout=pipe, text=True
        )
        for own in arguments
    ]
    try:
        for process in processes:
            assert process.stdout.readline() == "ready\n"  # type: ignore[union-attr]
        for process in processes:
            process.stdin.write("go\n")  # type: ignore[union-attr]
            process.stdin.flush()  # type: ignore[union-attr]
        return [process.communicate(timeout=60)[0] for process in processes]
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.communicate()


class TestGathering:
    def test_pieces_of_many_threads_are_gathered_and_none_is_lost(self, sqlite: SqliteStore) -> None:
        count = 3 * GATHER + 7
        commits: list[str] = []
        answers, errors = _all_at_once(sqlite, count, bad=set(), commits=commits)

        assert errors == {}
        assert answers == {number: f"{number:04}" for number in range(count)}
        assert notes(sqlite) == [f"{number:04}" for number in range(count)]
        assert len(commits) < count  # gathered
        assert len(commits) >= -(-count // GATHER)  # but not without bound

    def test_one_that_raises_takes_no_other_with_it(self, sqlite: SqliteStore) -> None:
        bad = {3, 70, 71, 100}
        answers, errors = _all_at_once(sqlite, 130, bad=bad)

        assert set(errors) == bad
        assert all(isinstance(error, LookupError) for error in errors.values())
        assert set(answers) == set(range(130)) - bad
        assert notes(sqlite) == [f"{number:04}" for number in sorted(answers)]

    def test_one_whose_statement_is_wrong_takes_no_other_with_it(self, sqlite: SqliteStore) -> None:
        with ThreadPoolExecutor(2) as pool, held(sqlite):
            wrong = pool.submit(sqlite.write, lambda db: db.run("INSERT INTO nothing VALUES (1)"))
            pool.submit(sqlite.write, note("good"))

        assert isinstance(wrong.exception(), StoreError)
        assert notes(sqlite) == ["good"]

    def test_a_work_that_raises_changes_nothing(self, sqlite: SqliteStore) -> None:
        revision = sqlite.revision()

        with pytest.raises(LookupError):
            sqlite.write(note("bad", fail=True))

        assert notes(sqlite) == []
        assert not sqlite.connection.in_transaction
        sqlite.write(note("good"))
        assert notes(sqlite) == ["good"]
        assert sqlite.revision() != revision

    def test_an_interrupted_work_changes_nothing_and_the_next_goes_on(self, sqlite: SqliteStore) -> None:
        def interrupted(db: Session) -> None:
            note("bad")(db)
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            sqlite.write(interrupted)

        assert notes(sqlite) == []
        assert sqlite.write(note("good")) == "good"

    def test_a_reader_sees_one_moment_only(self, sqlite: SqliteStore) -> None:
        def work(db: Session) -> tuple[int, int]:
            before = len(db.all("SELECT * FROM note"))
            sqlite.write(note("meanwhile"))
            return before, len(db.all("SELECT * FROM note"))

        assert sqlite.read(work) == (0, 0)
        assert notes(sqlite) == ["meanwhile"]


class TestProcesses:
    def test_two_processes_work_on_one_file(self, path: Path) -> None:
        engine = open_engine(str(path))
        done = [int(text) for text in run_together(WRITER, [str(path), "one"], [str(path), "two"])]

        counts = engine.count()
        assert counts[State.DONE] == sum(done)
        assert sum(counts.values()) == 160
        assert engine.doctor() == []
        engine.close()

    def test_another_process_is_noticed(self, sqlite: SqliteStore, path: Path) -> None:
        revision = sqlite.revision()
        with closing(SqliteStore(str(path))) as other:
            other.write(note("hello"))

            assert sqlite.wait(Topic.WORK, revision, 30) != revision
        assert sqlite.wait(Topic.WORK, sqlite.revision(), 0.01) == sqlite.revision()


class TestFiles:
    def test_a_folder_that_does_not_exist_is_named(self, tmp_path: Path) -> None:
        _refused(tmp_path / "missing" / "jobs.db", StoreDownError, "missing", "create it")
        assert list(tmp_path.iterdir()) == []

    def test_a_folder_in_place_of_a_file_is_refused(self, tmp_path: Path) -> None:
        _refused(tmp_path, StoreDownError, str(tmp_path))

    def test_a_file_that_is_not_a_database_is_left_alone(self, path: Path) -> None:
        path.write_text("my shopping list, which is longer than a header of one hundred bytes " * 20)
        before = _everything(path.parent)

        _refused(path, StoreDownError, "jobs.db", "not a penstock database")
        assert _everything(path.parent) == before

    def test_somebody_elses_database_is_left_alone(self, path: Path) -> None:
        _someone_elses(path, "CREATE TABLE customer (name TEXT)", "INSERT INTO customer VALUES ('Ann')")
        before = _everything(path.parent)

        _refused(path, StoreDownError, "jobs.db", "something else")
        assert _everything(path.parent) == before
        assert _journal_mode(path) == "delete"

    @pytest.mark.parametrize("look", ["SELECT count", "PRAGMA application_id"])
    def test_a_database_that_another_process_makes_meanwhile_is_ours(self, path: Path, look: str) -> None:
        class Meanwhile(sqlite3.Connection):
            def execute(self, statement: str, *parameters: object) -> sqlite3.Cursor:
                if statement.startswith(look):
                    SqliteStore(str(path)).close()
                return super().execute(statement, *parameters)

        with closing(sqlite3.connect(path, factory=Meanwhile)) as connection:
            _refuse_strangers(connection, Files(str(path)))

    @pytest.mark.parametrize("version", [0, 1, 7])
    def test_somebody_elses_database_that_counts_versions_too_is_left_alone(
        self, path: Path, version: int
    ) -> None:
        _someone_elses(
            path,
            "CREATE TABLE customer (name TEXT)",
            "CREATE TABLE schema_version (version BIGINT NOT NULL)",
            f"INSERT INTO schema_version VALUES ({version})",
        )
        before = _everything(path.parent)

        _refused(path, StoreDownError)

        assert _everything(path.parent) == before

    def test_an_empty_file_becomes_a_store(self, path: Path) -> None:
        path.touch()
        with closing(open_engine(str(path))) as engine:
            engine.enqueue([NewJob("task")])

            assert engine.count() == {State.WAITING: 1}

    def test_a_file_of_a_newer_penstock_is_refused_and_left_as_it_is(self, path: Path) -> None:
        open_engine(str(path)).close()
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("INSERT INTO schema_version (version) VALUES (9999)")
        before = _dump(path)

        _refused(path, SchemaError, "newer", "9999", "upgrade")
        assert _dump(path) == before

    def test_a_file_that_needs_migration_is_not_migrated_unasked(self, path: Path) -> None:
        _refused(path, SchemaError, "penstock migrate", migrate=False)

    @pytest.mark.parametrize("wal", [True, False], ids=["of ours", "not yet created"])
    def test_a_file_that_cannot_be_written_is_named(self, wal: bool) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            path = folder / "jobs.db"
            if wal:
                open_engine(str(path)).close()
            else:
                path.touch()
            path.chmod(0o444)
            folder.chmod(0o555)
            try:
                with _without_privileges():
                    _refused(path, StoreDownError, "jobs.db", "permissions")
            finally:
                folder.chmod(0o755)

    @pytest.mark.parametrize("url", ["mysql://here/jobs", "redis://here"])
    def test_a_store_of_another_kind_is_refused(self, url: str) -> None:
        _refused(url, InvalidError, url.partition(":")[0], "http://")

    def test_a_url_and_a_path_name_the_same_file(self, path: Path) -> None:
        with closing(open_engine(f"sqlite:///{path}")) as engine:
            engine.enqueue([NewJob("task")])
        with closing(open_engine(str(path))) as engine:
            assert engine.count() == {State.WAITING: 1}


class TestMigrations:
    def test_from_nothing_to_the_present_and_no_further(self, path: Path) -> None:
        with closing(SqliteStore(str(path))) as store:
            state = store.read(lambda db: migrations.pending(db, KIND))

            assert (state.found, state.missing) == (state.known, ())
            assert store.migrate() == []

    def test_opening_again_keeps_what_is_there(self, path: Path) -> None:
        for number in range(3):
            with closing(open_engine(str(path))) as engine:
                engine.enqueue([NewJob("task")])
                assert engine.count() == {State.WAITING: number + 1}

    def test_several_who_open_a_new_file_at_once_migrate_it_once(self, path: Path) -> None:
        with ThreadPoolExecutor(8) as pool:
            opened = [pool.submit(lambda: open_engine(str(path)).close()) for _ in range(8)]

        assert [one.exception() for one in opened] == [None] * 8
        with closing(sqlite3.connect(path)) as connection:
            versions = connection.execute("SELECT version FROM schema_version ORDER BY 1").fetchall()
            counters = connection.execute("SELECT count(*) FROM counter").fetchone()
        assert versions == [(number + 1,) for number in range(len(versions))]
        assert counters == (1,)

    def test_a_step_that_fails_leaves_no_half_of_it(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        true = migrations.statements
        monkeypatch.setattr(
            migrations, "statements", lambda *step: [*true(*step), "CREATE TABLE oops oops oops"]
        )
        with pytest.raises(StoreError):
            open_engine(str(path))
        assert _dump(path) == ""
        monkeypatch.undo()

        open_engine(str(path)).close()
        assert _dump(path)

    def test_the_schema_is_the_one_written_down(self, path: Path) -> None:
        """After a new migration: `PENSTOCK_WRITE_SCHEMA=1 pytest tests/contract/test_sqlite.py`, and read the diff."""
        open_engine(str(path)).close()
        made = _dump(path)
        if os.environ.get("PENSTOCK_WRITE_SCHEMA"):
            SCHEMA.write_text(made)

        assert made == SCHEMA.read_text()


def _all_at_once(
    store: SqliteStore, count: int, bad: set[int], commits: list[str] | None = None
) -> tuple[dict[int, str], dict[int, BaseException]]:
    """Have *count* threads write while the writer is busy; return their answers and errors by number."""
    with ThreadPoolExecutor(count) as pool, held(store):
        written = [pool.submit(store.write, note(f"{n:04}", fail=n in bad)) for n in range(count)]
        if commits is not None:
            store.connection.set_trace_callback(
                lambda text: commits.append(text) if text == "COMMIT" else None
            )
    store.connection.set_trace_callback(None)
    errors = {number: error for number, one in enumerate(written) if (error := one.exception())}
    answers = {number: one.result() for number, one in enumerate(written) if number not in errors}
    return answers, errors


def _refused(url: object, kind: type[Exception], *words: str, **options: bool) -> None:
    """Assert that a store cannot be opened, and that one sentence with these words says why."""
    with pytest.raises(kind) as caught:
        open_engine(str(url), **options)
    text = str(caught.value)
    assert "\n" not in text
    assert "Traceback" not in text
    for word in words:
        assert word in text


def _someone_elses(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def _everything(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def _journal_mode(path: Path) -> str:
    with closing(sqlite3.connect(path)) as connection:
        return str(connection.execute("PRAGMA journal_mode").fetchone()[0])


def _dump(path: Path) -> str:
    """Return the statements that would make this schema, by name."""
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute(
            "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY tbl_name, type DESC, name"
        ).fetchall()
        return "".join(f"{sql};\n\n" for (sql,) in rows)


@contextmanager
def _without_privileges() -> Iterator[None]:
    """Be the user `nobody` for a while, if we are root: permissions mean nothing to root."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_caller_who_is_struck_in_a_transaction_leaves_the_others_work_undone_but_waiting(
    path: Path,
) -> None:
    store = SqliteStore(str(path))
    before = store.read(lambda db: db.one("SELECT value FROM counter"))
    other = PendingWrite(lambda db: db.numbers(1)[0], keep=True)
    store._writer._waiting.append(other)

    def struck(db: Session) -> None:
        db.numbers(100)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.write(struck)

    assert not other.finished
    assert before == store.read(lambda db: db.one("SELECT value FROM counter"))

    store.write(lambda db: None)

    assert other.finished
    assert other.answer == before[0] + 1


def test_a_store_that_was_closed_says_so(path: Path) -> None:
    store = SqliteStore(str(path))
    store.close()

    for use in (store.revision, lambda: store.read(lambda db: None), lambda: store.write(lambda db: None)):
        with pytest.raises(StoreDownError, match="was closed"):
            use()
