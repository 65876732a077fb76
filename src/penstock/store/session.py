"""One transaction, as the statements of this package see it; and a store, as the engine sees it."""

from collections.abc import Callable, Iterable, Sequence
from enum import Enum, auto
from typing import Any, NamedTuple, Protocol, TypeVar

T = TypeVar("T")

Row = tuple[Any, ...]
Work = Any


class Hold(Enum):
    """What a transaction keeps from others while it runs, where a store has more than one writer.

    The gates are one thing: whoever looks at any gate, lane or line holds them all, and nobody else
    does.  Whoever holds nothing may add jobs, and settle, start and renew jobs without limits.
    """

    NOTHING = auto()
    STARTS = auto()  # no rule of a queue or a type changes meanwhile; many may hold this together
    GATES_IF_FREE = auto()  # the gates, if nobody else has them now
    GATES = auto()
    RULES = auto()  # the gates, and nobody starts anything meanwhile


class Topic(Enum):
    """What a transaction may bring about that others wait for."""

    WORK = auto()  # something may start that could not before, or somebody should stop
    ENDS = auto()  # a job ended
    SLOTS = auto()  # somebody in another process was lent slots that it waited for


class GatesNeededError(Exception):
    """A transaction that does not hold the gates came upon one; it is run again with them."""


class BoundedError(Exception):
    """Jobs were to be added at once, but one of their queues has a bound: nothing was added."""


class NamesTakenError(Exception):
    """Somebody else decides about a name; whoever holds the gates lets go of them before waiting for that."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(names)
        self.names = names


class Moment(NamedTuple):
    """The time by the store's own clock, and how far that is ahead of this machine's time since its start."""

    now: int
    offset: int


class Taken(NamedTuple):
    """Jobs that were started at a *moment*, as `jobs.start_first` tells of them, and when to look next."""

    moment: Moment
    fence: int
    next_at: int | None
    rows: list[Row]


class Session(Protocol):
    """Runs statements, in the language of `penstock.store.statements`, inside one transaction."""

    def all(self, sql: str, *values: object) -> list[Row]:
        """Run a statement and return its rows."""
        ...

    def one(self, sql: str, *values: object) -> Row | None:
        """Run a statement and return its first row."""
        ...

    def run(self, sql: str, *values: object) -> int:
        """Run a statement and return how many rows it touched."""
        ...

    def many(self, sql: str, rows: Iterable[Sequence[object]]) -> None:
        """Run a statement once for each of *rows*."""
        ...

    def last(self, sql: str, rows: Iterable[Sequence[object]]) -> None:
        """Run a statement for each of *rows* when the transaction ends: nothing else in it depends on that."""
        ...

    def send_last(self) -> None:
        """Run what was left for the end: something in this transaction depends on it after all."""
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
        """Whether this transaction holds the gates."""
        ...

    def need_gates(self) -> None:
        """Go on only if this transaction holds the gates; else it is run again with them."""
        ...

    def lock(self, names: Sequence[str]) -> None:
        """Keep others from deciding about these names until the transaction ends.

        To be called before anything is read that depends on them.
        """
        ...

    def tell(self, topic: Topic) -> None:
        """Wake those who wait for *topic* once this is committed."""
        ...


class Store(Protocol):
    """A database that holds jobs, gates and queues."""

    @property
    def remote(self) -> bool:
        """Whether workers may go on when the machine of the database loses its power."""
        ...

    @property
    def add_free(self) -> Callable[[Sequence[Row]], None] | None:
        """What adds jobs without limits and without a number yet, if that is quicker than in a transaction.

        Raises `BoundedError` if one of their queues has a bound.
        """
        ...

    @property
    def take_free(self) -> Callable[[str, int, str, int], Taken | None] | None:
        """What starts jobs of a queue, at most so many, for a worker and so long, if that is quicker than otherwise.

        It does nothing and returns None if a claim has more to think of than jobs without limits.
        """
        ...

    def write(self, work: Callable[[Session], T], *, keep: bool = True, hold: Hold = Hold.GATES) -> T:
        """Run *work* in a transaction, perhaps more than once; return its answer once that is committed."""
        ...

    def within(self, connection: object, work: Callable[[Session], T]) -> T:
        """Run *work* in the transaction of a *connection* of the caller's own, which may yet be rolled back."""
        ...

    def read(self, work: Callable[[Session], T]) -> T:
        """Run *work*, which only reads, on one consistent view of the store."""
        ...

    def token(self, topic: Topic) -> int:
        """Return a number that changes whenever any process commits something about *topic*."""
        ...

    def wait(self, topic: Topic, token: int, timeout: float) -> int:
        """Wait until the token of *topic* changes, or for *timeout* seconds; return the new one."""
        ...

    @property
    def steps(self) -> list[str]:
        """The names of the steps that opening took to bring the schema up to date."""
        ...

    def examine(self) -> None:
        """Raise `StoreDamagedError` if the database finds by its own check that it is damaged."""
        ...

    def advice(self) -> list[str]:
        """Return what somebody should look after, though nothing is wrong with the jobs."""
        ...

    def close(self) -> None:
        """Let go of the database; what was written stays."""
        ...
