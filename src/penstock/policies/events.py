"""What a limit tells its listeners.

Every `queued` is followed by exactly one of `acquired`, `rejected` and `cancelled`; every `acquired` by one `released`.
Listeners are called outside the lock.  One that fails is logged, and changes nothing.
"""

import logging
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Literal

from penstock.policies.guard import guard

Kind = Literal[
    "queued", "acquired", "released", "rejected", "cancelled", "limit_changed", "lease_lost",
    "opened", "half_open", "closed",
]  # fmt: skip

log = logging.getLogger("penstock.policies")


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitEvent:
    """Something that happened at a limit; *waited* and *held* in seconds."""

    kind: Kind
    limit: str
    key: Hashable = None
    scope: str = "step"
    job_id: str | None = None
    in_use: int = 0
    queued: int = 0
    waited: float = 0.0
    held: float = 0.0
    reason: str | None = None
    max_concurrent: int = 0


Listener = Callable[[LimitEvent], object]
Listeners = Listener | Iterable[Listener] | None


def listeners(given: Listeners) -> list[Listener]:
    """Return those who want to hear, as many as were *given*."""
    if given is None:
        return []
    return [given] if callable(given) else list(given)


def post(to: Iterable[Listener], event: LimitEvent) -> None:
    """Have *event* told once the lock is free."""
    guard.outbox.append((tell, (tuple(to), event)))


def tell(to: Iterable[Listener], event: LimitEvent) -> None:
    """Tell *event* now."""
    for listener in to:
        try:
            listener(event)
        except Exception:
            log.exception("a listener of %s failed at %s", event.limit, event.kind)
