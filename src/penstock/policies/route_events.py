"""Events of a route's limits, by the names and with the payloads that Routecraft gives them."""

from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any, Final

from penstock.policies.bulkhead import Bulkhead
from penstock.policies.events import LimitEvent, Listener
from penstock.policies.forms import Limit

RouteListener = Callable[[str, dict[str, Any]], object]

_CONCURRENCY: Final = {
    "queued": "queued",
    "acquired": "acquired",
    "released": "released",
    "rejected": "rejected",
    "cancelled": "cancelled",
}
_THROTTLE: Final = {
    "queued": "delayed",
    "acquired": "passed",
    "rejected": "rejected",
    "cancelled": "cancelled",
}
_REASONS: Final = {"queue_full": "queue-full"}
_MS: Final = 1000


def heard(route: str, limit: Limit, pattern: str, listener: RouteListener) -> Listener:
    """Return who listens to *limit* and tells *listener* in the words of a route."""
    family = "concurrency" if isinstance(limit, Bulkhead) else "throttle"
    names = _CONCURRENCY if family == "concurrency" else _THROTTLE

    def hear(event: LimitEvent) -> None:
        name = f"route:{family}:{names[event.kind]}" if event.kind in names else ""
        if name and fnmatchcase(name, pattern):
            listener(name, payload(route, limit, event))

    return hear


def payload(route: str, limit: Limit, event: LimitEvent) -> dict[str, Any]:
    """Return what is told of *event*."""
    told: dict[str, Any] = {
        "routeId": route,
        "exchangeId": event.job_id,
        "correlationId": event.job_id,
        "stepLabel": limit.pool.ledger.step,
        "scope": event.scope,
        "label": event.limit,
    }
    if event.key is not None:
        told["key"] = event.key
    match event.kind:
        case "queued":
            told["queueDepth"] = event.queued
        case "acquired":
            told |= {"waited": event.waited > 0, "inUse": event.in_use, "elapsed": event.waited * _MS}
        case "released":
            told["heldMs"] = event.held * _MS
        case "rejected":
            told["reason"] = _REASONS.get(event.reason or "", event.reason)
        case _:
            pass
    return told
