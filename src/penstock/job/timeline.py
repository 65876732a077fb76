"""What a timeline shows: the attempts of a span of time."""

from typing import Final

from msgspec import Struct

TIMELINE_BY: Final = ("key", "worker", "queue", "task")  # what a timeline may have a row for
TIMELINE_MOST: Final = 20_000  # attempts of one page


class TimedAttempt(Struct, frozen=True):
    """An attempt at a job: when it could first run, was claimed, began and ended, as far as that is known.

    Its *outcome* is that of its history, or `dropped` for a job that its limit let never begin.  One that *returns* is
    followed by another attempt.  It held slots at its *keys*; *behind* is the gate in whose line its job stood.
    An instance is one attempt, from its admission to its end; it has no queue, and its workflow for a task.
    """

    seq: int
    number: int
    id: str
    tenant: str
    queue: str
    task: str
    outcome: str
    since: int
    claimed: int | None
    began: int | None
    ended: int | None
    worker: str
    keys: tuple[str, ...]
    behind: str
    returns: bool = False

    def rows(self, by: str) -> tuple[str, ...]:
        """Return the names of the rows in which it is shown; more than one if it has several keys."""
        match by:
            case "worker":
                return (self.worker,)
            case "queue":
                return (self.queue,)
            case "task":
                return (self.task,)
            case _:
                return self.keys or ("",)


class TimelinePage(Struct, frozen=True):
    """Attempts, those that run first and then the latest that ended; *cursor* is where the next page begins.

    No attempt is missing that ended after *reached*.
    """

    attempts: tuple[TimedAttempt, ...]
    reached: int
    cursor: str | None = None
