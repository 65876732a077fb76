"""What is told of a commit: events to listeners and webhooks, topics to those that wait."""

from collections.abc import Callable
from enum import Enum, auto

from msgspec import Struct


class Topic(Enum):
    """What a transaction may bring about that threads and processes wait for."""

    WORK = auto()  # a job may start that could not before, or an attempt should stop
    ENDS = auto()  # a job ended
    ROOM = auto()  # there may be room again in a queue that was full
    SLOTS = auto()  # a process was lent slots that it waited for


class Event(Struct, frozen=True):
    """Something that happened, told after it was committed."""

    name: str
    at: int
    facts: dict[str, object] = {}


Listener = Callable[[Event], None]


class Webhook(Struct, frozen=True):
    """A URL to which events are posted, and which of them; empty lists stand for all queues and all tasks.

    The *previous* secret signs too, until then.  Secrets are never shown.
    """

    url: str
    events: tuple[str, ...]
    secret: str
    id: str = ""
    tenant: str = ""
    queues: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    active: bool = True
    previous: str = ""
    previous_until: int = 0
    meta: str = "{}"
    created: int = 0
    changed: int = 0

    def __repr__(self) -> str:
        return f"<Webhook {self.id} {self.url}>"
