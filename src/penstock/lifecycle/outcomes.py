"""How an attempt can end.

A handler ends by returning a value, by raising an error, or by returning or raising one of
`Retry`, `RateLimited` and `Cancel`.  The worker turns each into an outcome for `settle`.
"""

from dataclasses import dataclass
from enum import StrEnum

from msgspec import Struct


class Done(Struct, frozen=True, gc=False):
    """The handler returned; *result* is JSON text."""

    result: str = "null"


@dataclass(frozen=True, slots=True)
class Failed:
    """The handler raised: *kind* is the error's class name, *ancestry* its bases' names too.

    *details* is JSON text that is kept with it; *final* allows no other attempt.  With *shut_until* the gates
    of the job, or that of *shut_key*, let no job through until then.
    """

    kind: str
    message: str
    traceback: str = ""
    ancestry: tuple[str, ...] = ()
    details: str = ""
    final: bool = False
    shut_until: int | None = None
    shut_key: str | None = None


@dataclass(frozen=True, slots=True)
class Again:
    """The handler asked to run once more, *after* so many microseconds (None: the retry policy's delay).

    Counts as a failed attempt.
    """

    after: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Limited:
    """The called system said "too many": shut *key*'s gate until *until* and wait in line again.

    Uses up no attempt.  *key* None means every gate the job carries; a job that does not carry it is
    scheduled for then, and the mistake is kept with its failures.
    """

    until: int
    key: str | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The handler gave the job up."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class HandedBack:
    """The attempt was never begun, or its worker is stopping: it keeps its place and its attempts.

    *after* so many microseconds only, if it must not come back to the same worker at once, for this *reason*.
    """

    begun: bool = False
    after: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Conducted:
    """A pass went over what its instance remembers, and asks for these *commands*: each a `penstock.job.Command`.

    *seen* is the version of the memo that it went over; None if it does not know.
    """

    commands: tuple[object, ...]
    seen: int | None = None


Outcome = Done | Failed | Again | Limited | Cancelled | HandedBack | Conducted


class Ending(StrEnum):
    """What became of an attempt, in one word; *running* is still to end."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    AGAIN = "again"
    LIMITED = "limited"
    CANCELLED = "cancelled"
    HANDED_BACK = "handed_back"
    LOST = "lost"  # its worker was not heard from
