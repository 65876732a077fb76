"""One SQLite file as the engine sees it: one connection that writes, one that reads."""

import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final, TypeVar

from penstock.clock import SECOND, monotonic
from penstock.errors import InvalidError, StoreDownError, TooLongError
from penstock.job import Topic
from penstock.store import migrations
from penstock.store.session import Locks, Session
from penstock.store.sqlite.errors import is_interrupt
from penstock.store.sqlite.files import Files
from penstock.store.sqlite.opening import MARK, connect
from penstock.store.sqlite.session import SqliteSession
from penstock.store.sqlite.translation import KIND
from penstock.store.sqlite.writer import Writer

T = TypeVar("T")

READ_PATIENCE: Final = 5_000  # ms; readers wait only while another process mends the log after a crash
BUSY_POLL: Final = (
    0.001  # seconds between two looks for what other processes committed, shortly after they did
)
IDLE_POLL: Final = 0.007
BUSY_FOR: Final = 2 * SECOND
STEPS: Final = (
    10_000  # of SQLite's machine, some tenths of a millisecond, after which a survey looks at the clock
)


class SqliteStore:
    """One database file."""

    remote = False
    add_free = None
    take_free = None

    def __init__(self, path: str, *, migrate: bool = True) -> None:
        self.path = path
        self._read_lock = threading.Lock()
        self._changed = threading.Condition()
        self._commits = 0
        self._last_change = 0
        self._process = os.getpid()
        self._closed = False
        self._memory = path == ":memory:"
        self._files = Files(path)
        self.connection = connect(self._files)
        self._writer = Writer(self.connection, self._files, self._committed)
        try:
            self._prepare(migrate=migrate)
            self._files.remember(self.connection)
            self._reader = self.connection if self._memory else connect(self._files)
        except BaseException:
            self.connection.close()
            raise
        if self._memory:
            self._read_lock = self._writer.lock
        else:
            self._reader.execute(f"PRAGMA busy_timeout = {READ_PATIENCE}")
        # A store that is not closed is closed when it cannot be used any more.
        weakref.finalize(self, _close, self._process, self.connection, self._reader)

    def write(
        self,
        work: Callable[[Session], T],
        *,
        keep: bool = True,
        locks: Locks = Locks.GATES,  # noqa: ARG002 - one writer holds it all
        first: Callable[[Session], object] | None = None,  # noqa: ARG002 - there is no way to save
    ) -> T:
        """Run *work* in a transaction; return its answer once that is committed.

        Committed work outlives this process.  If *keep* is set, or *work* asked for it, it is on disk too and
        outlives a power cut.
        """
        self._check_open()
        try:
            return self._writer.write(work, keep=keep)
        except sqlite3.Error as error:  # it was closed meanwhile
            raise self._files.told(error) from error

    def within(self, connection: object, work: Callable[[Session], T]) -> T:
        """Run *work* in the transaction of a *connection* of the caller's own, which may yet be rolled back."""
        self._check_open()
        if not isinstance(connection, sqlite3.Connection):
            raise InvalidError("connection", f"{connection!r} must be a connection of sqlite3 to {self.path}")
        main = next(file for _, name, file in connection.execute("PRAGMA database_list") if name == "main")
        if self._memory or not main or not Path(main).samefile(self._files.place):
            raise InvalidError(
                "connection", f"is open on {main or 'a database in memory'}, not on {self.path}"
            )
        try:
            if not connection.in_transaction and connection.isolation_level is not None:
                connection.execute("BEGIN")
            connection.execute("SAVEPOINT penstock")
            try:
                answer = work(SqliteSession(connection))
            except BaseException:
                connection.execute("ROLLBACK TO penstock")
                connection.execute("RELEASE penstock")
                raise
            connection.execute("RELEASE penstock")
        except sqlite3.Error as error:
            raise self._files.told(error) from error
        self._files.check()
        return answer

    def read(self, work: Callable[[Session], T]) -> T:
        """Run *work*, which only reads, on one consistent view of the store."""
        self._check_open()
        with self._read_lock:
            try:
                self._reader.execute("BEGIN")
                try:
                    answer = work(SqliteSession(self._reader))
                finally:
                    self._reader.execute("ROLLBACK")
            except sqlite3.Error as error:
                raise self._files.told(error) from error
        self._files.glance()
        return answer

    def survey(self, work: Callable[[Session], T], span: int) -> T:
        """Do what `read` does with *work* that may take long; give up after *span* microseconds.

        On a connection of its own, so that no other caller waits for it; a database in memory has but one.
        """
        self._check_open()
        end = monotonic() + span
        with self._surveyor() as connection:
            connection.set_progress_handler(lambda: monotonic() > end, STEPS)
            try:
                connection.execute("BEGIN")
                try:
                    answer = work(SqliteSession(connection))
                finally:
                    connection.execute("ROLLBACK")
            except sqlite3.Error as error:
                if is_interrupt(error):
                    raise TooLongError(
                        f"a look at {self.path} was given up after {span / SECOND:g} s"
                    ) from error
                raise self._files.told(error) from error
            finally:
                connection.set_progress_handler(None, 0)
        self._files.glance()
        return answer

    def revision(self, topic: Topic = Topic.WORK) -> int:  # noqa: ARG002 - a commit does not say what it is about
        """Return a number that changes whenever any process commits."""
        self._check_open()
        with self._read_lock:
            try:
                seen = int(self._reader.execute("PRAGMA data_version").fetchone()[0]) + self._commits
            except sqlite3.Error as error:
                raise self._files.told(error) from error
        self._files.glance()
        return seen

    def changes(self) -> str:
        """Return a text that is another one whenever any process has committed something."""
        return str(self.revision())

    def wait(self, topic: Topic, revision: int, timeout: float) -> int:
        """Wait until any process commits after *revision* was read, or for *timeout* seconds; return the new revision.

        A commit of this process ends the wait at once; those of others are looked for now and then,
        less often when nothing has happened for a while.
        """
        end = monotonic() + int(timeout * SECOND)
        while (now := self.revision(topic)) == revision and (left := end - monotonic()) > 0:
            busy = monotonic() - self._last_change < BUSY_FOR
            with self._changed:
                self._changed.wait(min(BUSY_POLL if busy else IDLE_POLL, left / SECOND))
        if now != revision:
            self._last_change = monotonic()
        return now

    def close(self) -> None:
        """Close the file; what was written stays."""
        self._closed = True
        with self._writer.lock:
            self._files.forget()
            self.connection.close()
        if not self._memory:
            with self._read_lock:
                self._reader.close()

    def migrate(self) -> list[str]:
        """Bring the schema up to date; return the names of the steps taken."""

        def work(db: Session) -> list[str]:
            db.run(f"PRAGMA application_id = {MARK}")
            return migrations.apply(db, KIND)

        return self.write(work)

    def advice(self) -> list[str]:
        """Return what an operator should look after: a file looks after itself."""
        self._check_open()
        return []

    def examine(self) -> None:
        """Let SQLite read the whole file and compare its indexes; raise `StoreDamagedError` if it finds damage."""
        self._check_open()
        if self._memory:
            return
        # On a connection of its own: it takes long, and no other caller has to wait for it.
        with closing(connect(self._files)) as connection:
            try:
                found = [str(line) for (line,) in connection.execute("PRAGMA integrity_check")]
            except sqlite3.Error as error:
                raise self._files.told(error) from error
        if found != ["ok"]:
            raise self._files.damaged(found)

    @contextmanager
    def _surveyor(self) -> Iterator[sqlite3.Connection]:
        if self._memory:
            with self._read_lock:
                yield self._reader
        else:
            with closing(connect(self._files)) as connection:
                connection.execute(f"PRAGMA busy_timeout = {READ_PATIENCE}")
                yield connection

    def _check_open(self) -> None:
        if self._closed:
            raise StoreDownError(f"{self.path} was closed")
        if os.getpid() != self._process:
            raise StoreDownError(f"{self.path} was opened before a fork; open it again in the child")
        if self._files.broken is not None:
            self._files.check()

    def _prepare(self, *, migrate: bool) -> None:
        state = self.write(lambda db: migrations.pending(db, KIND))
        state.check(self.path, migrate=migrate)
        self.steps = self.migrate() if state.missing else []

    def _committed(self) -> None:
        self._commits += 1
        with self._changed:
            self._changed.notify_all()


def _close(process: int, *connections: sqlite3.Connection) -> None:
    # A connection that came along with a fork is not the child's to close.
    if os.getpid() == process:
        for connection in connections:
            connection.close()
