"""What a limit counts, and what it tells its listeners.

Every `queued` is followed by exactly one of `acquired`, `rejected` and `cancelled`; every `acquired` by one `released`.
Listeners are called outside the lock.  One that fails is logged, and changes nothing.
"""

import logging
from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import count
from typing import Final, Literal

from penstock.clock import SECOND
from penstock.policies.process_lock import lock

Kind = Literal[
    "queued", "acquired", "released", "rejected", "cancelled", "limit_changed", "lease_lost",
    "opened", "half_open", "closed",
]  # fmt: skip


log = logging.getLogger("penstock.policies")

# The id of the work in whose name calls are made, for their events.
work_id: Final[ContextVar[str | None]] = ContextVar("penstock_work_id", default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitEvent:
    """Something that happened at a limit; *waited* and *held* in seconds."""

    kind: Kind
    limit: str
    key: Hashable = None
    job_id: str | None = None
    in_use: int = 0
    queued: int = 0
    waited: float = 0.0
    held: float = 0.0
    reason: str | None = None
    max_concurrent: int = 0


Listener = Callable[[LimitEvent], object]
Listeners = Listener | Iterable[Listener] | None


@dataclass(frozen=True, slots=True)
class Stats:
    """A snapshot of a limit: what is in use and what happened so far."""

    name: str
    limit: int
    in_use: int
    queued: int
    keys: int
    acquired: int
    rejected: dict[str, int] = field(default_factory=dict)
    cancelled: int = 0
    abandoned: int = 0
    mean_hold: float = 0.0


class Counters:
    """Counts what happens at a limit, and tells listeners of it."""

    __slots__ = ("abandoned", "acquired", "cancelled", "listeners", "name", "rejected", "unlocked")

    def __init__(self, name: str, on_event: Listeners = None) -> None:
        self.name = name
        self.listeners: list[Listener] = (
            [] if on_event is None else [on_event] if callable(on_event) else list(on_event)
        )
        self.acquired = 0
        self.unlocked = count()  # starts without the lock; to count with `next` is one step for all threads
        self.cancelled = 0
        self.abandoned = 0
        self.rejected: Counter[str] = Counter()

    def tell(
        self,
        kind: Kind,
        key: Hashable,
        in_use: int,
        queued: int,
        *,
        waited: int = 0,
        held: int = 0,
        reason: str | None = None,
        limit: int = 0,
    ) -> None:
        """Tell listeners, once the lock is free."""
        event = LimitEvent(
            kind=kind,
            limit=self.name,
            key=key,
            job_id=work_id.get(),
            in_use=in_use,
            queued=queued,
            waited=waited / SECOND,
            held=held / SECOND,
            reason=reason,
            max_concurrent=limit,
        )
        lock.outbox.append((_tell, (tuple(self.listeners), event)))

    def stats(self, limit: int, in_use: int, queued: int = 0, keys: int = 0, mean_hold: float = 0.0) -> Stats:
        """Return a snapshot of what was counted, with these numbers of the moment."""
        return Stats(
            self.name, limit, in_use, queued, keys,
            self.starts(), dict(self.rejected), self.cancelled, self.abandoned, mean_hold,
        )  # fmt: skip

    def starts(self) -> int:
        """Return how many calls were let in."""
        # A `count` shows how far it is in its `repr` only, as in "count(3)".
        return self.acquired + int(repr(self.unlocked).removeprefix("count(").removesuffix(")"))


def _tell(listeners: Iterable[Listener], event: LimitEvent) -> None:
    for listener in listeners:
        try:
            listener(event)
        except Exception:
            log.exception("a listener of %s failed at %s", event.limit, event.kind)
