"""What a limit has done so far, and who hears of it."""

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from itertools import count

from penstock.policies.events import Kind, LimitEvent, Listener, Listeners, listeners, post
from penstock.policies.exchange import current

_SECOND = 1_000_000


@dataclass(frozen=True, slots=True)
class Stats:
    """How a limit stands at one moment, and what it has done so far."""

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


class Ledger:
    """Counts what happens at a limit, and tells it to those who listen."""

    __slots__ = (
        "abandoned",
        "acquired",
        "cancelled",
        "listeners",
        "name",
        "rejected",
        "scope",
        "step",
        "tick",
    )

    def __init__(self, name: str, on_event: Listeners = None, scope: str = "step") -> None:
        self.name = name
        self.scope = scope
        self.step = ""
        self.listeners: list[Listener] = listeners(on_event)
        self.acquired = 0
        # Counts what is done without the lock.
        self.tick = count().__next__
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
        """Have it told, once the lock is free."""
        exchange = current.get()
        event = LimitEvent(
            kind=kind,
            limit=self.name,
            key=key,
            scope=self.scope,
            job_id=None if exchange is None else exchange.id,
            in_use=in_use,
            queued=queued,
            waited=waited / _SECOND,
            held=held / _SECOND,
            reason=reason,
            max_concurrent=limit,
        )
        post(self.listeners, event)

    def starts(self) -> int:
        """Return how many calls were let in."""
        # A counter shows how far it is, as in `count(3)`, but has no other way to tell without moving on.
        counted = repr(self.tick.__self__)  # type: ignore[attr-defined]
        return self.acquired + int(counted.removeprefix("count(").removesuffix(")"))

    def totals(self) -> Iterable[tuple[str, int]]:
        """Return how often what happened."""
        yield "acquired", self.starts()
        yield "cancelled", self.cancelled
        yield "abandoned", self.abandoned
        yield from ((f"rejected_{reason}", count) for reason, count in self.rejected.items())
