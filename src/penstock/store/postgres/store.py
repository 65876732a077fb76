"""Penstock in one schema of a PostgreSQL database, shared by any number of processes and machines.

Any number of transactions run at once.  What they may not do at once is kept apart by a few locks of
the whole schema, taken before anything else (see `Locks`), and by locks on the rows of jobs, taken in the
order of their numbers.  So no transaction waits for rows while it holds something that the holder of these rows
waits for.

Invariant: `write` returns only after its work is committed exactly once.  If the connection breaks
while it is being committed, the server is asked what became of it.
"""

import logging
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, TypeVar
from weakref import WeakKeyDictionary

import psycopg
from psycopg import sql as quoting

from penstock.clock import MILLISECOND, SECOND, since_boot
from penstock.errors import InvalidError, StoreDownError, StoreError, TooLongError
from penstock.job import Topic
from penstock.store import attempts, migrations
from penstock.store.postgres import health
from penstock.store.postgres.address import Address
from penstock.store.postgres.bulk_insert import BulkInsert, statement
from penstock.store.postgres.errors import UNPREPARED, Patience, hopeless, passing, translated
from penstock.store.postgres.fast_claim import take
from penstock.store.postgres.session import (
    Connection,
    ConnectionState,
    Opening,
    PostgresSession,
    adapt,
    is_direct,
)
from penstock.store.postgres.signals import Signals
from penstock.store.session import (
    BoundedError,
    GatesNeededError,
    JobRow,
    Locks,
    Moment,
    NamesTakenError,
    Question,
    Session,
    StartedJobs,
    questions_of,
)

T = TypeVar("T")

LEAST_VERSION: Final = 140_000
CONNECTIONS: Final = 20  # of one process, at once
CONNECT_TIMEOUT: Final = 5
PREPARE_AFTER: Final = 3  # uses of a statement until the server keeps its plan

KIND: Final = migrations.Kind(
    has_version="SELECT 1 WHERE to_regclass('schema_version') IS NOT NULL",
    counter=("CREATE SEQUENCE IF NOT EXISTS number",),
    translated=lambda text: text.replace(" TEXT", ' TEXT COLLATE "C"'),
    postgres=True,
)

log = logging.getLogger("penstock.store")


class PostgresStore:
    """One schema."""

    remote = True

    def __init__(self, address: Address, *, migrate: bool = True) -> None:
        self.address = address
        self._opening = Opening(address.schema)
        self._prepare: int | None = PREPARE_AFTER
        self._idle: deque[Connection] = deque()
        self._states: WeakKeyDictionary[Connection, ConnectionState] = WeakKeyDictionary()
        self._room = threading.BoundedSemaphore(CONNECTIONS)
        self._process = os.getpid()
        self._closed = False
        self._signals = Signals(address.listen, address.connect, address.schema)
        self._inserts = BulkInsert()
        weakref.finalize(self, _close, self._process, self._idle, self._signals)
        self._prepare_schema(migrate=migrate)

    def write(
        self,
        work: Callable[[Session], T],
        *,
        keep: bool = True,
        locks: Locks = Locks.GATES,
        first: Callable[[Session], object] | None = None,
    ) -> T:
        """Run *work* in a transaction; return its answer once that is committed.

        It is run again if it turned out to need the gates, or if the server gave up on it for a passing
        reason.
        """
        patience = Patience()
        questions = [] if first is None else questions_of(first)
        while True:
            try:
                return self._write_once(work, locks, questions, keep=keep)
            except GatesNeededError:
                locks = Locks.GATES
            except NamesTakenError as error:
                self._await_names(error.names)
            except psycopg.Error as error:
                self._bear(error, patience)

    def within(self, connection: object, work: Callable[[Session], T]) -> T:
        """Run *work* in the transaction of a *connection* of the caller's own, which may yet be rolled back."""
        self._check_open()
        if not isinstance(connection, psycopg.Connection):
            problem = f"must be a connection of psycopg to {self.address.shown}"
            if isinstance(connection, psycopg.AsyncConnection):
                problem = "is an async connection, which cannot be used here; hand over a psycopg.Connection"
            raise InvalidError("connection", f"{connection!r} {problem}")
        session = PostgresSession(connection)
        try:
            # Begins a transaction, unless the connection commits after every statement.
            connection.execute("SELECT")
            with connection.transaction():
                session.step_in(self._opening.joining())
                answer = work(session)
                # Sent when the caller commits, and not if the caller rolls back.
                for name, payload in self._signals.notices(session.topics):
                    session.all("SELECT pg_notify(?, ?)", name, payload)
                session.step_out()
        except GatesNeededError:
            raise InvalidError(
                "connection",
                "a job that has another one dropped cannot be enqueued in a transaction of your own",
            ) from None
        except psycopg.Error as error:
            raise translated(error, self.address.shown) from error
        return answer

    def add_free(self, rows: Sequence[JobRow]) -> None:
        """Add jobs without limits, which have no number yet, in one statement for all threads that do so now."""
        self._check_open()  # a child that was forked would wait for threads that it has not
        self._inserts.add(rows, self._add_free)

    def take_free(
        self, queue: str, most: int, worker: str, lease: int, tasks: list[str] | None
    ) -> StartedJobs | None:
        """Start jobs without limits in one message, if a claim has nothing else to look at."""
        patience = Patience()
        while True:
            try:
                return self._take_once(queue, most, worker, lease, tasks)
            except psycopg.Error as error:
                self._bear(error, patience)

    def read(self, work: Callable[[Session], T]) -> T:
        """Run *work*, which only reads, on one consistent view of the store."""
        patience = Patience()
        while True:
            try:
                with self._connection() as connection:
                    session = PostgresSession(connection)
                    try:
                        session.look(self._opening.reading())
                        return work(session)
                    finally:
                        _end(session, connection)
            except psycopg.Error as error:
                self._bear(error, patience)

    def survey(self, work: Callable[[Session], T], span: int) -> T:
        """Do what `read` does with *work* that may take long; give up a statement after *span* microseconds."""
        try:
            with self._connection() as connection:
                session = PostgresSession(connection)
                try:
                    session.look(self._opening.surveying(max(span // MILLISECOND, 1)))
                    return work(session)
                finally:
                    _end(session, connection)
        except psycopg.errors.QueryCanceled as error:
            raise TooLongError(
                f"a look at {self.address.shown} was given up after {span / SECOND:g} s"
            ) from error
        except psycopg.Error as error:
            raise translated(error, self.address.shown) from error

    def revision(self, topic: Topic) -> int:
        """Return a number that changes whenever any process commits something about *topic*."""
        self._check_open()
        return self._signals.revision(topic)

    def changes(self) -> str:
        """Return a text that is another one whenever any process has committed something."""
        return self.read(health.changes)

    def wait(self, topic: Topic, revision: int, timeout: float) -> int:
        """Wait until the revision of *topic* changes, or for *timeout* seconds; return the new one."""
        self._check_open()
        now = self._signals.wait(topic, revision, timeout)
        self._check_open()
        return now

    def migrate(self) -> list[str]:
        """Bring the schema up to date; return the names of the steps taken."""
        try:
            with self._connection() as connection:
                session = PostgresSession(connection)
                try:
                    session.look(self._opening.migrating())
                    taken = migrations.apply(session, KIND)
                    session.commit()
                finally:
                    _end(session, connection)
                return taken
        except psycopg.Error as error:
            raise translated(error, self.address.shown) from error

    def examine(self) -> None:
        """Do nothing: the server looks after its own files."""

    def advice(self) -> list[str]:
        """Return what an operator should look after in the database, though nothing is wrong with the jobs."""
        return self.read(health.advice)

    def close(self) -> None:
        """Let go of all connections."""
        self._closed = True
        _close(self._process, self._idle, self._signals)

    def _write_once(
        self, work: Callable[[Session], T], locks: Locks, first: Sequence[Question], *, keep: bool
    ) -> T:
        lost: psycopg.Error | None = None
        done = False
        with self._connection() as connection:
            state = self._states[connection]
            session = PostgresSession(connection, state)
            try:
                session.begin(self._opening.writing(locks, keep=keep), keep=keep, first=first)
                answer = work(session)
                try:
                    session.commit()
                except psycopg.OperationalError as error:
                    if not connection.closed:
                        raise
                    lost = error  # the answer, not necessarily the transaction
                done = True
            finally:
                _end(session, connection)
                if not done and session.topics_if_undone:
                    self._signals.told(session.topics_if_undone)
        # Asked once the connection is given back: if all callers lost theirs, none could ask otherwise.
        if lost is not None and session.wrote and not self._is_there(state, lost):
            raise lost
        if session.topics:
            self._signals.told(session.topics)
        return answer

    def _add_free(self, rows: Sequence[JobRow]) -> None:
        # After a quiet time the notification goes along at once; else the notifier sends it.
        notice = self._signals.notice_at_once({Topic.WORK})
        adding, values = statement(self.address.schema, rows, notice)
        patience = Patience()
        unsure = False
        while True:
            try:
                with self._connection() as connection:
                    if not unsure or not self._has(connection, rows[0][1]):
                        answer = psycopg.RawCursor(connection).execute(adding, values).fetchone()
                        if answer is not None and answer[0]:
                            raise BoundedError
                    break
            except psycopg.Error as error:
                # If the answer was lost the rows may be there, and all are if the first one is.
                unsure = True
                self._bear(error, patience)
        self._signals.told({Topic.WORK}, others=notice is None)

    def _take_once(
        self, queue: str, most: int, worker: str, lease: int, tasks: list[str] | None
    ) -> StartedJobs | None:
        with self._connection() as connection:
            state = self._states[connection]
            if connection.prepare_threshold is None:
                return None  # there is a pooler, which may give each message to another session
            fence, asked = 0, since_boot()
            try:
                fence = PostgresSession(connection, state).next_fence(self._opening)
                opening = self._opening.writing(Locks.STARTS, keep=True)
                return take(connection, state, opening, queue, most, worker, lease, tasks)
            except BaseException as error:
                undone = not connection.closed
                connection.close()  # whether the statement was prepared is not known
                if undone or not isinstance(error, psycopg.Error):
                    raise
                lost = error
        if not self._is_there(state, lost):
            raise lost
        now, rows = self.read(lambda db: attempts.started(db, fence))
        return StartedJobs(Moment(now, now - asked, now - since_boot()), fence, now, rows) if rows else None

    def _has(self, connection: Connection, id_: object) -> bool:
        question = quoting.SQL("SELECT 1 FROM {}.job WHERE id = %s").format(
            quoting.Identifier(self.address.schema)
        )
        return connection.execute(question, (id_,)).fetchone() is not None

    def _await_names(self, names: Sequence[str]) -> None:
        """Wait until no other transaction has locked these names."""
        self.write(lambda db: db.lock(names), keep=False, locks=Locks.NONE)

    def _is_there(self, state: ConnectionState, lost: psycopg.Error) -> bool:
        """Tell whether a transaction was committed though its answer was lost."""
        try:
            return self.write(state.had_last, locks=Locks.NONE)
        except StoreError:
            raise StoreDownError(
                f"{self.address.shown} was lost while it committed, so that this may or may not have been written; "
                "ask again, with the same job id if jobs were enqueued"
            ) from lost

    def _bear(self, error: psycopg.Error, patience: Patience) -> None:
        """Wait a little after an *error* that may pass, or raise what penstock calls it."""
        if error.sqlstate in UNPREPARED and self._prepare is not None:
            log.info("statements cannot be prepared, as through a pooler; going on without")
            self._prepare = None
            self._drop_idle()
            return
        if self._closed:
            raise StoreDownError(f"{self.address.shown} was closed") from error
        if not passing(error) or hopeless(error) or not patience.wait():
            raise translated(error, self.address.shown) from error

    @contextmanager
    def _connection(self) -> Iterator[Connection]:
        self._check_open()
        with self._room:
            connection = self._idle.pop() if self._idle else self._connect()
            try:
                yield connection
            finally:
                if connection.closed or self._closed or connection.prepare_threshold != self._prepare:
                    connection.close()
                else:
                    self._idle.append(connection)

    def _connect(self) -> Connection:
        connection = psycopg.connect(
            self.address.connect,
            autocommit=True,
            prepare_threshold=self._prepare,
            connect_timeout=CONNECT_TIMEOUT,
        )
        if connection.info.server_version < LEAST_VERSION:
            connection.close()
            raise StoreDownError(f"{self.address.shown} is too old; penstock needs PostgreSQL 14 or later")
        if self._prepare is not None and not is_direct(connection):
            # Other clients of the pooler prepare statements under the same names, and the server would run those.
            log.info("statements are not prepared: there is a pooler before the server")
            self._prepare = connection.prepare_threshold = None
        connection.prepared_max = 500
        adapt(connection)
        self._states[connection] = ConnectionState()
        return connection

    def _drop_idle(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def _prepare_schema(self, *, migrate: bool) -> None:
        try:
            with self._connection() as connection:
                session = PostgresSession(connection)
                try:
                    session.look(self._opening.reading())
                    state = migrations.pending(session, KIND)
                finally:
                    _end(session, connection)
        except psycopg.Error as error:
            raise translated(error, self.address.shown) from error
        state.check(self.address.shown, migrate=migrate)
        self.steps = self.migrate() if state.missing else []

    def _check_open(self) -> None:
        if self._closed:
            raise StoreDownError(f"{self.address.shown} was closed")
        if os.getpid() != self._process:
            raise StoreDownError(f"{self.address.shown} was opened before a fork; open it again in the child")


def _end(session: PostgresSession, connection: Connection) -> None:
    """Roll back what was not committed."""
    if connection.closed:
        return
    try:
        if connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            session.roll_back()
    except psycopg.Error:
        connection.close()


def _close(process: int, idle: deque[Connection], signals: Signals) -> None:
    # What came along with a fork is not the child's to close.
    if os.getpid() == process:
        signals.close()
        while idle:
            idle.pop().close()
