"""A transaction on one connection to PostgreSQL."""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from re import search
from typing import Any, Final
from uuid import uuid4
from zlib import crc32

import psycopg
from psycopg import sql as quoting
from psycopg.adapt import Buffer
from psycopg.rows import tuple_row
from psycopg.types.numeric import Int8BinaryDumper
from psycopg.types.string import StrDumper

from penstock.clock import since_boot
from penstock.job import Topic
from penstock.store.postgres import translation
from penstock.store.postgres.messages import PreparedNames, literals
from penstock.store.session import (
    GatesNeededError,
    Locks,
    Moment,
    NamesTakenError,
    Question,
    Row,
    Session,
    questions_of,
)

Connection = psycopg.Connection[Row]

# Locks of the whole schema, told apart by the second number.
_GATES: Final = 1
_STARTS: Final = 2
_SCHEMA: Final = 3
_NAMES: Final = "penstock:"  # before names to be locked, apart from those of other programs

# Ends a transaction with an error if its number was taken.
UNLESS_TAKEN: Final = """
    ON CONFLICT (connection) DO UPDATE SET at = excluded.at,
    number = CASE WHEN receipt.number < excluded.number THEN excluded.number END
"""

FENCES: Final = 100  # numbers taken at once
_IDLE: Final = "10s"  # the process of a transaction may be stopped, which must not keep the gates for ever
NOW: Final = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
_HASH: Final = "hashtextextended(current_schema() || e.value, 0)"  # by which a name is locked
_DEEPEST: Final = {
    # A plan is made once and kept, also when a table grows a thousandfold: it must not rest on its size.
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_bitmapscan": "off",
    "jit": "off",
}


class Int8(Int8BinaryDumper):
    """Sends every number as eight bytes, so that a statement has one plan whatever the numbers."""

    def dump(self, obj: int) -> Buffer | None:
        return super().dump(obj)


def adapt(context: "Connection | psycopg.RawCursor[Row]") -> None:
    """Have a connection or a cursor send numbers and text as the statements expect them."""
    context.adapters.register_dumper(int, Int8)
    context.adapters.register_dumper(str, StrDumper)


def is_direct(connection: Connection) -> bool:
    """Tell whether the server itself is at the other end; a pooler gives a process number of its own."""
    row = connection.execute("SELECT pg_backend_pid()").fetchone()
    return row is not None and row[0] == connection.info.backend_pid


class Opening:
    """The statements with which transactions in one schema begin."""

    def __init__(self, schema: str) -> None:
        self._name = quoting.Identifier(schema).as_string()
        self._path = quoting.Literal(self._name).as_string()
        self._number = crc32(schema.encode()) - 2**31  # by which its locks are known in the database
        self._texts: dict[tuple[Locks, bool], str] = {}

    def writing(self, locks: Locks, *, keep: bool) -> str:
        """Begin a transaction that writes."""
        if (locks, keep) not in self._texts:
            self._texts[locks, keep] = self._written(locks, keep=keep)
        return self._texts[locks, keep]

    def joining(self) -> str:
        """Join a transaction of the caller's own; it answers with the search path to be restored."""
        return f"SELECT {NOW}, current_setting('search_path'), set_config('search_path', {self._path}, true)"

    def migrating(self) -> str:
        """Begin a transaction that changes the schema, one at a time."""
        return (
            f"BEGIN; SELECT pg_advisory_xact_lock({self._number}, {_SCHEMA});"
            f" CREATE SCHEMA IF NOT EXISTS {self._name}; SET LOCAL search_path = {self._name}"
        )

    def reading(self) -> str:
        """Begin a transaction that only reads."""
        return f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT set_config('search_path', {self._path}, true)"

    def surveying(self, longest: int) -> str:
        """Begin a transaction that only reads, in which a statement takes no longer than so many milliseconds."""
        settings = {"statement_timeout": longest, **_DEEPEST}
        return ", ".join([self.reading(), *(_setting(name, value) for name, value in settings.items())])

    def _written(self, locks: Locks, *, keep: bool) -> str:
        settings = {"idle_in_transaction_session_timeout": _IDLE, **_DEEPEST}
        if not keep:
            settings["synchronous_commit"] = "off"
        local = ", ".join(_setting(name, value) for name, value in settings.items())
        steps = [f"BEGIN; SELECT {NOW}, set_config('search_path', {self._path}, true), {local}"]
        # A lock is awaited in a statement of its own: what is read in the same one is older than the wait.
        if locks is Locks.STARTS:
            steps.append(f"SELECT pg_advisory_xact_lock_shared({self._number}, {_STARTS})")
        if locks is Locks.RULES:
            steps.append(f"SELECT pg_advisory_xact_lock({self._number}, {_STARTS})")
        if locks in {Locks.RULES, Locks.GATES}:
            steps.append(f"SELECT pg_advisory_xact_lock({self._number}, {_GATES})")
        if locks is Locks.LANES:
            steps.append(f"SELECT pg_advisory_xact_lock_shared({self._number}, {_GATES})")
        held = "false"
        if locks is Locks.GATES_IF_FREE:
            held = f"pg_try_advisory_xact_lock({self._number}, {_GATES})"
        elif locks in {Locks.RULES, Locks.GATES}:
            held = "true"
        steps.append(f"SELECT {NOW}, {held}, {str(locks is Locks.LANES).lower()}")
        return "; ".join(steps)


def _setting(name: str, value: object) -> str:
    """Return what changes a setting until the transaction ends."""
    return f"set_config('{name}', '{value}', true)"


class ConnectionState:
    """What one connection keeps: the number of its last transaction, and fences to give out.

    That number is in the store too, in a row of the connection's own.  The server's number of a transaction
    will not do: after a crash another transaction gets it.  So does one get fences that were not used yet, which
    is why they end with the connection.
    """

    def __init__(self) -> None:
        self.fences: deque[int] = deque()
        self.can_take = False  # whether the statement of `fast_claim` was prepared
        self._name = uuid4().hex
        self._number = 0
        self.names = PreparedNames(self._name)

    def next(self, now: int) -> tuple[str, tuple[str, int, int]]:
        """Return the statement that writes the next number down; it fails if that was taken meanwhile."""
        name, number = self.number()
        return f"INSERT INTO receipt (connection, number, at) VALUES ($1, $2, $3) {UNLESS_TAKEN}", (
            name,
            number,
            now,
        )

    def number(self) -> tuple[str, int]:
        """Return the name of the connection, and its next number."""
        self._number += 1
        return self._name, self._number

    def had_last(self, session: Session) -> bool:
        """Tell whether the last transaction was committed; if not, it never will be.

        The question takes the transaction's number.  If the server hears of its commit late, that fails, and all
        it did is undone.
        """
        moment = session.moment()
        taken = session.run(
            """
            INSERT INTO receipt (connection, number, at) VALUES (?, ?, ?)
            ON CONFLICT (connection) DO UPDATE SET number = excluded.number WHERE receipt.number < excluded.number
            """,
            self._name,
            self._number,
            moment.now if moment else 0,
        )
        return not taken


class PostgresSession:
    """A transaction under way."""

    def __init__(self, connection: Connection, state: ConnectionState | None = None) -> None:
        self._connection = connection
        self._state = state
        self._cursor: psycopg.RawCursor[Row] = psycopg.RawCursor(connection, row_factory=tuple_row)
        self._cursor.format = psycopg.pq.Format.BINARY
        # Statements go by name in one message where the server itself keeps their plans.
        prepares = state is not None and connection.prepare_threshold is not None
        self._names = state.names if state is not None and prepares else None
        self._last: list[tuple[str, list[object]]] = []  # what goes along with the commit
        self._along: list[Question] = []  # what goes along with the next statement
        self._answers: list[tuple[Question, list[Row]]] = []  # to what went along
        self._changes: list[tuple[Question, list[Row]]] = []  # the same, where it changed the store
        self._durable = True
        self.topics: set[Topic] = set()
        self.topics_if_undone: set[Topic] = set()
        self.wrote = False
        self.gated = False
        self.shares_gates = False
        self._moment: Moment | None = None
        self._path = ""

    def begin(self, opening: str, *, keep: bool, first: Sequence[Question] = ()) -> None:
        """Begin a transaction that writes; what it asks *first* goes along."""
        self._durable = keep
        asked = since_boot()
        questions = first if self._names is not None else ()
        texts = [opening, *self._calls(questions)]
        # What goes along takes its time, so the clock is read once more after it.
        answers = self._run_message([*texts, f"SELECT {NOW}"] if questions else texts)
        heard = since_boot()
        opened = answers[: -1 - len(questions)] if questions else answers
        self._keep(questions, answers[len(opened) :])
        # The store's clock is at most that far ahead: what is reckoned by it is never too early.
        offset = opened[0][0][0] - asked
        now, self.gated, self.shares_gates = opened[-1][0]
        # The answer to the last question is the youngest.
        self._moment = Moment(now, offset, answers[-1][0][0] - heard)

    def step_in(self, opening: str) -> None:
        """Join a transaction that the caller has begun; `step_out` restores its settings."""
        adapt(self._cursor)
        asked = since_boot()
        row = self._cursor.execute(opening.encode()).fetchone()
        assert row is not None  # noqa: S101 - a SELECT without FROM
        self._moment = Moment(row[0], row[0] - asked, row[0] - since_boot())
        self._path = row[1]

    def step_out(self) -> None:
        """Leave the transaction to the caller."""
        self.send_last()
        self.all("SELECT set_config('search_path', ?, true)", self._path)

    def look(self, opening: str) -> None:
        """Begin a transaction that only reads, or that changes the schema."""
        self._connection.execute(opening)
        self.gated = True

    def commit(self) -> None:
        """Commit, with a receipt that shows afterwards whether the commit took place."""
        if self._state is not None and self.wrote:
            statement, values = self._state.next(self._moment.now if self._moment else 0)
            self._last.append((statement, list(values)))
        if self._names is None:
            self.send_last()
            self._connection.execute("COMMIT")
            return
        last, self._last = self._last, []
        self._run_message([*self._named((text, literals(values)) for text, values in last), "COMMIT"])

    def send_last(self) -> None:
        """Run what was left for the end."""
        last, self._last = self._last, []
        for statement, values in last:
            self._answers.clear()
            self._cursor.execute(statement.encode(), values)

    def roll_back(self) -> None:
        """Undo everything."""
        # A cursor would have the server forget all prepared statements afterwards.
        result = self._connection.pgconn.exec_(b"ROLLBACK")
        if result.status != psycopg.pq.ExecStatus.COMMAND_OK:
            self._connection.close()

    def all(self, sql: str, *values: object) -> list[Row]:
        for kept in (self._answers, self._changes):
            for place, (question, rows) in enumerate(kept):
                if question == (sql, values):
                    del kept[place]
                    return rows
        self._note(sql)
        if self._along:
            return self._ask(Question(sql, values))
        return self._execute(sql, values).fetchall()

    def along(self, ask: Callable[[Session], object]) -> bool:
        if self._names is None:
            return False
        self._along += questions_of(ask)
        return True

    def one(self, sql: str, *values: object) -> Row | None:
        self._note(sql)
        return self._execute(sql, values).fetchone()

    def run(self, sql: str, *values: object) -> int:
        self.wrote = True
        self._answers.clear()
        return self._execute(sql, values).rowcount

    def many(self, sql: str, rows: Iterable[Sequence[object]]) -> None:
        for statement, values in self._several(sql, rows):
            self._answers.clear()
            self._cursor.execute(statement.encode(), values)

    def last(self, sql: str, rows: Iterable[Sequence[object]]) -> None:
        self._last.extend(self._several(sql, rows))

    def keep(self) -> None:
        if not self._durable:
            self.run("SET LOCAL synchronous_commit = on")
            self._durable = True

    def numbers(self, count: int) -> Sequence[int]:
        rows = self.all("SELECT nextval('number') FROM generate_series(1, ?)", count)
        return sorted(number for (number,) in rows)

    def fence(self) -> int:
        assert self._state is not None  # noqa: S101 - only writers ask
        if not self._state.fences:
            self._state.fences.extend(self.numbers(FENCES))
        return self._state.fences.popleft()

    def next_fence(self, opening: Opening) -> int:
        """Return the fence that will be given out next; outside of a transaction."""
        assert self._state is not None  # noqa: S101 - only writers ask
        if not self._state.fences:
            self.begin(opening.writing(Locks.NONE, keep=False), keep=False)
            self._state.fences.extend(self.numbers(FENCES))
            self.commit()
        return self._state.fences[0]

    def moment(self) -> Moment | None:
        return self._moment

    def need_gates(self) -> None:
        if not self.gated:
            raise GatesNeededError

    def lock(self, names: Sequence[str]) -> None:
        # In one order everywhere, so that no two transactions wait for each other.
        ordered = sorted(f"{_NAMES}{name}" for name in names)
        if not self.gated and not self.shares_gates:
            rows = self.all(f"SELECT pg_advisory_xact_lock({_HASH}), {NOW} FROM each(?) e", ordered)
        else:
            # A transaction of a caller's own may hold a name for long; the gates must not wait for that.
            rows = self.all(f"SELECT pg_try_advisory_xact_lock({_HASH}), {NOW} FROM each(?) e", ordered)
            if not all(taken for taken, _ in rows):
                raise NamesTakenError(names)
        if self._moment is not None:
            # What the transactions before this one wrote is older than that.
            self._moment = self._moment._replace(now=max(at for _, at in rows))

    def tell(self, topic: Topic) -> None:
        self.topics.add(topic)

    def tell_if_undone(self, topic: Topic) -> None:
        self.topics_if_undone.add(topic)

    def _note(self, sql: str) -> None:
        if changes(sql):
            self.wrote = True
            self._answers.clear()

    def _execute(self, sql: str, values: tuple[Any, ...]) -> "psycopg.RawCursor[Row]":
        said = _arrays(values)
        return self._cursor.execute(_translated(sql, values).encode(), said or None)

    def _ask(self, question: Question) -> list[Row]:
        """Run a statement and what goes along with it, in one message; return its answer."""
        along, self._along = self._along, []
        answer, *others = self._run_message(self._calls([question, *along]))
        self._keep(along, others)
        return answer

    def _calls(self, questions: Sequence[Question]) -> list[str]:
        if self._names is None:
            return []
        return self._named((_translated(*each), literals(_arrays(each.values))) for each in questions)

    def _named(self, statements: Iterable[tuple[str, str]]) -> list[str]:
        """Return the texts that run statements with their values by name."""
        names = self._names
        assert names is not None  # noqa: S101 - for mypy
        # All values first: one may be refused, and a name that is given must be sent.
        return [names.call(*each) for each in list(statements)]

    def _keep(self, questions: Sequence[Question], answers: Sequence[list[Row]]) -> None:
        """Keep the answers to what went along until they are asked for."""
        for each, rows in zip(questions, answers, strict=False):
            changed = changes(each.sql)
            self.wrote = self.wrote or changed
            (self._changes if changed else self._answers).append((each, rows))

    def _run_message(self, texts: Sequence[str]) -> list[list[Row]]:
        """Run statements in one message; return the rows of each that has any."""
        try:
            cursor = self._connection.execute("; ".join(texts), prepare=False)
        except BaseException:
            if self._names is not None:
                self._names.failed()
            raise
        if self._names is not None:
            self._names.sent()
        answers = []
        while True:
            # Its description would take longer to make than the rows.
            if cursor.pgresult is not None and cursor.pgresult.status == psycopg.pq.ExecStatus.TUPLES_OK:
                answers.append(cursor.fetchall())
            if not cursor.nextset():
                return answers

    def _several(self, sql: str, rows: Iterable[Sequence[object]]) -> list[tuple[str, list[object]]]:
        """Return the one statement, if any, that does for all *rows* what *sql* does for one."""
        columns = list(zip(*rows, strict=True))
        if not columns:
            return []
        self.wrote = True
        constant = translation.same(columns)
        changed, types = translation.several(sql, constant)
        values = [
            column[0] if once else translation.array(column, type_)
            for column, type_, once in zip(columns, types, constant, strict=True)
        ]
        return [(changed, values)]


@cache
def changes(sql: str) -> bool:
    """Tell whether a statement changes what is stored."""
    if not sql.lstrip().startswith(("SELECT", "WITH")):
        return True
    return search(r"\b(INSERT INTO|DELETE FROM|UPDATE \w+ SET)\b", sql) is not None


def _arrays(values: Sequence[object]) -> Sequence[object]:
    """Return values as they travel: lists as the texts of arrays."""
    for value in values:
        if type(value) is list:
            return tuple(
                translation.array(v, translation.type_of(v)) if type(v) is list else v for v in values
            )
    return values


def _translated(sql: str, values: Sequence[object]) -> str:
    return translation.single(sql, tuple(translation.type_of(v) for v in values if type(v) is list))
