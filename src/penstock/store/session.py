"""One transaction, as the statements of this package see it; and a store, as the engine sees it."""

from collections.abc import Callable, Iterable, Sequence
from enum import Enum, auto
from typing import Any, NamedTuple, Protocol, TypeVar, cast

from penstock.job import Topic

T = TypeVar("T")

Row = tuple[Any, ...]
Queue = tuple[str, str]  # a tenant, empty if it belongs to none, and the name that its queue has there
Part = tuple[str, str, str]  # the same, and that of a task, or empty for all others
# A job in the order of `jobs.JOB_COLUMNS`; it has no number yet where `bulk_insert` adds it.
JobRow = tuple[
    int | None, str, str, str, str, str, int, int, str, str, int | None, int | None, str, str | None, int,
]  # fmt: skip
# A job without limits that begins: seq, id, task, args, timeout, meta, tenant, enqueued, expires, own lease, workflow,
# attempts and losses before.  Unpacked where `Claimed` is made, and nowhere else: a NamedTuple costs 3 % of a claim.
StartedRow = tuple[
    int, str, str, str, int | None, str, str, int, int | None, int | None, str | None, int, int
]  # fmt: skip


class Locks(Enum):
    """The locks that a transaction takes before anything else, where a store has more than one writer.

    The gates are one lock: a transaction that looks at any gate, lane or line holds all of them.  Transactions that
    look at lanes of their own only (`engine.admission.own_lanes`), and lock these, hold them together.  A transaction
    without locks may add jobs, and settle, start and renew jobs without limits.
    """

    NONE = auto()
    STARTS = auto()  # shared: no rule of a queue or a type changes meanwhile
    GATES_IF_FREE = auto()  # the gates, unless another transaction has them now
    LANES = auto()  # the gates, shared with other transactions that lock the lanes which they look at
    GATES = auto()
    RULES = auto()  # the gates, and no other transaction starts anything meanwhile


class GatesNeededError(Exception):
    """A transaction that does not hold the gates came upon one; it is run again with them."""


class BoundedError(Exception):
    """Nothing was added at once, because one of the queues has a bound."""


class NamesTakenError(Exception):
    """Another transaction has locked a name.  This one holds the gates, so it is rolled back before it waits."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(names)
        self.names = names


class Moment(NamedTuple):
    """The time by the store's own clock, and how far that is ahead of this machine's time since its start.

    It is ahead by *offset* at most, and by *least* at least.
    """

    now: int
    offset: int
    least: int


class Question(NamedTuple):
    """A statement that returns rows, and its values."""

    sql: str
    values: tuple[object, ...]


class _Asked:
    """Stands in for a session: notes what is asked, and answers nothing."""

    def __init__(self) -> None:
        self.questions: list[Question] = []

    def all(self, sql: str, *values: object) -> list[Row]:
        self.questions.append(Question(sql, values))
        return []


def questions_of(ask: "Callable[[Session], object]") -> list[Question]:
    """Return what a function of this package asks by `Session.all`, without an answer to any of it."""
    asked = _Asked()
    ask(cast("Session", asked))
    return asked.questions


class StartedJobs(NamedTuple):
    """Jobs that were started at a *moment*, under one *fence*, and when a claim should look next."""

    moment: Moment
    fence: int
    next_at: int | None
    rows: list[StartedRow]


class Session(Protocol):
    """Runs statements, in the language of `penstock.store.statements`, inside one transaction."""

    def all(self, sql: str, *values: object) -> list[Row]:
        """Run a statement and return its rows."""
        ...

    def one(self, sql: str, *values: object) -> Row | None:
        """Run a statement and return its first row."""
        ...

    def along(self, ask: "Callable[[Session], object]") -> bool:
        """Send what *ask* asks on one way with the next statement, and after it; False if this store does not.

        Whatever asks the same later finds the answer here.  *ask* may change the store only if that is certain to
        follow.  Other answers are forgotten once this transaction changes something: they may be out of date.
        """
        ...

    def run(self, sql: str, *values: object) -> int:
        """Run a statement and return how many rows it touched."""
        ...

    def many(self, sql: str, rows: Iterable[Sequence[object]]) -> None:
        """Run a statement once for each of *rows*, no two of which may change the same row: in any order."""
        ...

    def last(self, sql: str, rows: Iterable[Sequence[object]]) -> None:
        """Run a statement for each of *rows* when the transaction ends; nothing else in it depends on them."""
        ...

    def send_last(self) -> None:
        """Run now what `last` has left for the end, because something in this transaction depends on it."""
        ...

    def keep(self) -> None:
        """Have this transaction on disk before its caller hears of it, even if the machine loses its power."""
        ...

    def numbers(self, count: int) -> Sequence[int]:
        """Reserve *count* ascending numbers for ids and places."""
        ...

    def fence(self) -> int:
        """Return a number that no other transaction has."""
        ...

    def moment(self) -> Moment | None:
        """Return the time by the store's own clock, if it has one."""
        ...

    @property
    def gated(self) -> bool:
        """Whether this transaction holds the gates alone."""
        ...

    @property
    def shares_gates(self) -> bool:
        """Whether this transaction holds the gates together with others."""
        ...

    def need_gates(self) -> None:
        """Go on only if this transaction holds the gates alone; else it is run again with them."""
        ...

    def lock(self, names: Sequence[str]) -> None:
        """Lock these names until the transaction ends; `moment` is then the moment at which they are.

        Call it before reading anything that depends on them.
        """
        ...

    def tell(self, topic: Topic) -> None:
        """Wake the threads that wait for *topic* once this is committed."""
        ...

    def tell_if_undone(self, topic: Topic) -> None:
        """Wake them if this is rolled back: what it had locked may have been passed over."""
        ...


class Store(Protocol):
    """A database that holds jobs, gates and queues."""

    @property
    def remote(self) -> bool:
        """Whether workers may go on when the machine of the database loses its power."""
        ...

    @property
    def add_free(self) -> Callable[[Sequence[JobRow]], None] | None:
        """A function that adds jobs without limits and without a number yet, if it is quicker than a transaction.

        Raises `BoundedError` if one of their queues has a bound.
        """
        ...

    @property
    def take_free(self) -> Callable[[str, int, str, int, list[str] | None], StartedJobs | None] | None:
        """A function that starts jobs of a queue, if it is quicker than a transaction.

        Its arguments are the queue, how many at most, the worker, the length of the lease, and the tasks that the
        worker knows (None: all).  It does nothing and returns None if a claim has more to look at than jobs without
        limits, or meets one of another task.
        """
        ...

    def write(
        self,
        work: Callable[[Session], T],
        *,
        keep: bool = True,
        locks: Locks = Locks.GATES,
        first: Callable[[Session], object] | None = None,
    ) -> T:
        """Run *work* in a transaction, perhaps more than once; return its answer once that is committed.

        What it asks *first* may go along with the statements that begin the transaction (see `Session.along`).
        """
        ...

    def within(self, connection: object, work: Callable[[Session], T]) -> T:
        """Run *work* in the transaction of a *connection* of the caller's own, which may yet be rolled back."""
        ...

    def read(self, work: Callable[[Session], T]) -> T:
        """Run *work*, which only reads, on one consistent view of the store."""
        ...

    def survey(self, work: Callable[[Session], T], span: int) -> T:
        """Do what `read` does with *work* that may take long, so that no other caller waits for it.

        Raises `TooLongError` if a statement still runs after *span* microseconds.
        """
        ...

    def revision(self, topic: Topic) -> int:
        """Return a number that changes whenever any process commits something about *topic*."""
        ...

    def wait(self, topic: Topic, revision: int, timeout: float) -> int:
        """Wait until the revision of *topic* changes, or for *timeout* seconds; return the new one."""
        ...

    def changes(self) -> str:
        """Return a text that is another one whenever any process has committed something."""
        ...

    @property
    def steps(self) -> list[str]:
        """The names of the steps that opening took to bring the schema up to date."""
        ...

    def examine(self) -> None:
        """Raise `StoreDamagedError` if the database finds by its own check that it is damaged."""
        ...

    def advice(self) -> list[str]:
        """Return what an operator should look after in the database, though nothing is wrong with the jobs."""
        ...

    def close(self) -> None:
        """Let go of the database; what was written stays."""
        ...
