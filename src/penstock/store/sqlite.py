"""Penstock on one SQLite file, shared by any number of threads and processes.

Writers of one process gather: whoever holds the lock runs everything that waits for it in one
transaction and one flush to disk (each piece of work behind a savepoint of its own, so one that
fails takes no other with it).  There is no writer thread: an idle caller goes straight through.

Invariant: `write` returns only after its work is committed, and on disk where it is to be kept.
"""

import os
import re
import sqlite3
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Final, Generic, TypeVar

import msgspec

from penstock.clock import SECOND, monotonic, pause
from penstock.errors import InvalidError, StoreBusyError, StoreDownError, StoreError
from penstock.store import migrations
from penstock.store.session import Hold, Moment, Row, Session, Topic

T = TypeVar("T")

_encode: Final = msgspec.json.Encoder().encode

GATHER: Final = 64  # pieces of work in one transaction, so that nobody waits long
BUSY_TRIES: Final = 20_000
BUSY_PAUSE: Final = 0.001
READ_PATIENCE: Final = 5_000  # ms; readers wait only while another process mends the log after a crash
BUSY_POLL: Final = (
    0.001  # seconds between two looks for what other processes committed, shortly after they did
)
IDLE_POLL: Final = 0.007
BUSY_FOR: Final = 2 * SECOND
MARK: Final = 0x50454E53  # "PENS", by which a file is known as ours
LEAST_VERSION: Final = (3, 35, 0)
_EACH: Final = re.compile(r"each\(\?\)")
_LOCK: Final = re.compile(r"FOR UPDATE( OF \w+)?( SKIP LOCKED)?")


def _typed(text: str) -> str:
    # Only an INTEGER primary key is the row's own number in SQLite; any other costs a second tree.
    return text.replace("BIGINT PRIMARY KEY", "INTEGER PRIMARY KEY").replace("BYTEA", "BLOB")


KIND: Final = migrations.Kind(
    has_version="SELECT 1 FROM sqlite_master WHERE name = 'schema_version'",
    counter=(
        "CREATE TABLE IF NOT EXISTS counter (value BIGINT NOT NULL)",
        "INSERT INTO counter (value) SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM counter)",
    ),
    translated=_typed,
    postgres=False,
)


@cache
def dialect(sql: str) -> str:
    """Turn a statement into SQLite's words; one writer holds the whole file, so rows need no locks."""
    return _LOCK.sub("", _EACH.sub("json_each(?)", sql)).replace("IN EVERY (", "IN (")


class SqliteSession:
    """A transaction on one connection."""

    __slots__ = ("_connection", "kept")

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.kept = False

    def keep(self) -> None:
        self.kept = True

    def all(self, sql: str, *values: object) -> list[Row]:
        return self._execute(sql, values).fetchall()

    def one(self, sql: str, *values: object) -> Row | None:
        row: Row | None = self._execute(sql, values).fetchone()
        return row

    def run(self, sql: str, *values: object) -> int:
        return self._execute(sql, values).rowcount

    def many(self, sql: str, rows: Iterable[Sequence[object]]) -> None:
        self._connection.executemany(dialect(sql), rows)

    def last(self, sql: str, rows: Iterable[Sequence[object]]) -> None:
        self.many(sql, rows)

    def send_last(self) -> None: ...

    def numbers(self, count: int) -> range:
        row = self._connection.execute(
            "UPDATE counter SET value = value + ? RETURNING value", (count,)
        ).fetchone()
        return range(int(row[0]) - count + 1, int(row[0]) + 1)

    def fence(self) -> int:
        return self.numbers(1)[0]

    # One writer at a time holds the whole file, and everybody sees every commit.

    @property
    def gated(self) -> bool:
        return True

    def need_gates(self) -> None: ...

    def lock(self, names: Sequence[str]) -> None: ...

    def tell(self, topic: Topic) -> None: ...

    def moment(self) -> Moment | None:
        return None

    def _execute(self, sql: str, values: tuple[object, ...]) -> sqlite3.Cursor:
        for value in values:
            if type(value) is list:
                values = tuple(_encode(v).decode() if type(v) is list else v for v in values)
                break
        return self._connection.execute(dialect(sql), values)


class _Piece(Generic[T]):
    """One caller's work, waiting for its turn in a gathered transaction."""

    __slots__ = ("answer", "answered", "error", "finished", "keep", "work")

    def __init__(self, work: Callable[[Session], T], keep: bool) -> None:  # noqa: FBT001 - only `write` makes one
        self.work = work
        self.keep = keep
        self.finished = False
        self.answered = False
        self.answer: T
        self.error: BaseException | None = None


class SqliteStore:
    """One database file."""

    remote = False
    add_free = None

    def __init__(self, path: str, *, migrate: bool = True) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._read_lock = threading.Lock()
        self._waiting: deque[_Piece[object]] = deque()
        self._changed = threading.Condition()
        self._commits = 0
        self._flushing = True
        self._last_change = 0
        self._process = os.getpid()
        self._closed = False
        self._memory = path == ":memory:"
        if sqlite3.sqlite_version_info < LEAST_VERSION:
            raise StoreDownError(f"SQLite {sqlite3.sqlite_version} is too old; penstock needs 3.35 or later")
        self.connection = self._connect()
        try:
            self._prepare(migrate=migrate)
        except BaseException:
            self.connection.close()
            raise
        self._reader = self.connection if self._memory else self._connect()
        if self._memory:
            self._read_lock = self._lock
        else:
            self._reader.execute(f"PRAGMA busy_timeout = {READ_PATIENCE}")
        # One that nobody closes is closed when nobody can use it any more.
        weakref.finalize(self, _close, self._process, self.connection, self._reader)

    def write(self, work: Callable[[Session], T], *, keep: bool = True, hold: Hold = Hold.GATES) -> T:  # noqa: ARG002 - one writer holds it all
        """Run *work* in a transaction; return its answer once that is committed.

        Committed work outlives this process.  If it is to be kept, by *keep* or because *work* asked
        for it, it is also on disk, and outlives the machine's power.
        """
        self._check_open()
        piece = _Piece(work, keep)
        self._waiting.append(piece)  # type: ignore[arg-type]
        with self._lock:
            while not piece.finished:
                self._run_gathered(piece)
        if piece.error is not None:
            raise piece.error
        return piece.answer

    def within(self, connection: object, work: Callable[[Session], T]) -> T:
        """Run *work* in the transaction of a *connection* of the caller's own, which may yet be rolled back."""
        self._check_open()
        if not isinstance(connection, sqlite3.Connection):
            raise InvalidError("connection", f"{connection!r} must be a connection of sqlite3 to {self.path}")
        main = next(file for _, name, file in connection.execute("PRAGMA database_list") if name == "main")
        if self._memory or not main or not Path(main).samefile(self.path):
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
            raise translated(error, self.path) from error
        return answer

    def read(self, work: Callable[[Session], T]) -> T:
        """Run *work*, which only reads, on one consistent view of the store."""
        self._check_open()
        with self._read_lock:
            try:
                self._reader.execute("BEGIN")
                try:
                    return work(SqliteSession(self._reader))
                finally:
                    self._reader.execute("ROLLBACK")
            except sqlite3.Error as error:
                raise translated(error, self.path) from error

    def token(self, topic: Topic = Topic.WORK) -> int:  # noqa: ARG002 - a commit does not say what it is about
        """Return a number that changes whenever any process commits."""
        self._check_open()
        with self._read_lock:
            try:
                return int(self._reader.execute("PRAGMA data_version").fetchone()[0]) + self._commits
            except sqlite3.Error as error:
                raise translated(error, self.path) from error

    def wait(self, topic: Topic, token: int, timeout: float) -> int:
        """Wait until somebody commits after *token* was read, or for *timeout* seconds; return the new token.

        A commit of this process ends the wait at once; those of others are looked for now and then,
        less often when nothing has happened for a while.
        """
        end = monotonic() + int(timeout * SECOND)
        while (now := self.token(topic)) == token and (left := end - monotonic()) > 0:
            busy = monotonic() - self._last_change < BUSY_FOR
            with self._changed:
                self._changed.wait(min(BUSY_POLL if busy else IDLE_POLL, left / SECOND))
        if now != token:
            self._last_change = monotonic()
        return now

    def close(self) -> None:
        """Close the file; what was written stays."""
        self._closed = True
        with self._lock:
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
        """Return what somebody should look after: a file looks after itself."""
        self._check_open()
        return []

    def _check_open(self) -> None:
        if self._closed:
            raise StoreDownError(f"{self.path} was closed")
        if os.getpid() != self._process:
            raise StoreDownError(f"{self.path} was opened before a fork; open it anew in the child")

    def _connect(self) -> sqlite3.Connection:
        path = Path(self.path)
        if not self._memory and not path.parent.is_dir():
            raise StoreDownError(
                f"the folder {path.parent} of the database {path.name} does not exist; create it first"
            )
        connection = None
        try:
            connection = sqlite3.connect(
                self.path, timeout=0, isolation_level=None, check_same_thread=False, cached_statements=512
            )
            self._set_up(connection)
        except BaseException as error:
            if connection is not None:
                connection.close()
            if isinstance(error, sqlite3.Error):
                raise translated(error, self.path) from error
            raise
        return connection

    def _set_up(self, connection: sqlite3.Connection) -> None:
        self._patiently(lambda: self._refuse_strangers(connection))
        self._patiently(lambda: connection.execute("PRAGMA journal_mode = WAL"))
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA cache_size = -16000")
        connection.execute("PRAGMA temp_store = MEMORY")

    def _refuse_strangers(self, connection: sqlite3.Connection) -> None:
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        (mark,) = connection.execute("PRAGMA application_id").fetchone()
        if tables and mark != MARK:
            raise StoreDownError(f"{self.path} is a database of something else; name another file")

    def _prepare(self, *, migrate: bool) -> None:
        state = self.write(lambda db: migrations.pending(db, KIND))
        state.check(self.path, migrate=migrate)
        self.steps = self.migrate() if state.missing else []

    def _run_gathered(self, own: "_Piece[T]") -> None:
        """Run what waits in one transaction, for the caller who brought the piece *own*."""
        pieces: list[_Piece[object]] = []
        before = self.connection.total_changes
        try:
            while self._waiting and len(pieces) < GATHER:
                pieces.append(self._waiting.popleft())
            self._flush_at_commit(wanted=any(piece.keep for piece in pieces))
            self._patiently(lambda: self.connection.execute("BEGIN IMMEDIATE"))
            for piece in pieces:
                self._run_piece(piece)
            self.connection.execute("COMMIT")
            if any(piece.keep for piece in pieces) and not self._flushing:
                self._flush()
        except Exception as error:  # noqa: BLE001 - told to every caller
            self._undo(pieces, error)
        except BaseException:
            self._leave_to_others(pieces, own)
            raise
        else:
            for piece in pieces:
                piece.finished = True
        if self.connection.total_changes != before:
            self._commits += 1
            with self._changed:
                self._changed.notify_all()

    def _undo(self, pieces: "list[_Piece[object]]", error: Exception) -> None:
        """Roll back, and tell every caller."""
        first = next((piece.error for piece in pieces if piece.error is not None), None)
        told = first if first is not None and "savepoint" in str(error) else self._told(error)
        if self.connection.in_transaction:
            self.connection.execute("ROLLBACK")
        for piece in pieces:
            piece.error = piece.error or told
            piece.finished = True

    def _leave_to_others(self, pieces: "list[_Piece[object]]", own: "_Piece[T]") -> None:
        """Give back the others' work: this thread was struck by something that is no business of theirs."""
        undone = self.connection.in_transaction or not all(piece.answered or piece.error for piece in pieces)
        if self.connection.in_transaction:
            self.connection.execute("ROLLBACK")
        for piece in reversed(pieces):
            if undone and piece is not own:
                piece.answered, piece.error = False, None
                self._waiting.appendleft(piece)
            else:
                piece.finished = True

    def _run_piece(self, piece: "_Piece[object]") -> None:
        self.connection.execute("SAVEPOINT piece")
        session = SqliteSession(self.connection)
        try:
            piece.answer = piece.work(session)
            piece.answered = True
            piece.keep = piece.keep or session.kept
        except Exception as error:  # noqa: BLE001 - handed to the caller that brought the work
            piece.error = self._told(error)
            # If a full disk has rolled everything back already, this fails and everybody hears of it.
            self.connection.execute("ROLLBACK TO piece")
        self.connection.execute("RELEASE piece")

    def _flush_at_commit(self, *, wanted: bool) -> None:
        if wanted != self._flushing:
            self.connection.execute(f"PRAGMA synchronous = {'FULL' if wanted else 'NORMAL'}")
            self._flushing = wanted

    def _flush(self) -> None:
        """Put all that was committed on disk: a commit that flushes takes the log before it along."""
        self._flush_at_commit(wanted=True)
        self._patiently(lambda: self.connection.execute("BEGIN IMMEDIATE"))
        self.connection.execute("UPDATE counter SET value = value")
        self.connection.execute("COMMIT")

    def _told(self, error: Exception) -> Exception:
        """Return what a caller hears of *error*."""
        return translated(error, self.path) if isinstance(error, sqlite3.Error) else error

    def _patiently(self, step: Callable[[], object]) -> None:
        # SQLite's own busy handler sleeps ever longer, up to 100 ms, and so loses to busier processes.
        for _ in range(BUSY_TRIES):
            try:
                step()
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) and "busy" not in str(error):
                    raise
                pause(BUSY_PAUSE)
            else:
                return
        raise StoreBusyError(
            f"{self.path} stayed locked by another process; is one of them stopped in a transaction?"
        )


def _close(process: int, *connections: sqlite3.Connection) -> None:
    # A connection that came along with a fork is not the child's to close.
    if os.getpid() == process:
        for connection in connections:
            connection.close()


def translated(error: sqlite3.Error, path: str) -> StoreError:
    """Return *error* in penstock's words."""
    text = str(error)
    if "closed database" in text:
        return StoreDownError(f"{path} was closed")
    if "not a database" in text or "malformed" in text:
        return StoreDownError(f"{path} is not a penstock database ({text}); name another file")
    if "locked" in text or "busy" in text:
        return StoreBusyError(f"{path} is locked by another process")
    if "unable to open" in text or "readonly" in text:
        return StoreDownError(f"cannot open the database {path}: {text}; check the path and its permissions")
    return StoreError(f"the database {path} failed: {text}")
