"""Events of a route's limits, by the names and with the payloads that Routecraft gives them."""

from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final

from penstock.policies import Bulkhead, LimitEvent
from penstock.policies.call_limit import CallLimit
from penstock.policies.events import Listener

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


@dataclass(slots=True)
class Place:
    """A limit and where it is: around the whole *route*, or around one *step*."""

    route: str
    limit: CallLimit
    scope: str
    step: str = "route"

    def listener(self, pattern: str, listener: RouteListener) -> Listener:
        """Return what listens to the limit and tells *listener* in Routecraft's words."""
        family = "concurrency" if isinstance(self.limit, Bulkhead) else "throttle"
        names = _CONCURRENCY if family == "concurrency" else _THROTTLE

        def hear(event: LimitEvent) -> None:
            name = f"route:{family}:{names[event.kind]}" if event.kind in names else ""
            if name and fnmatchcase(name, pattern):
                listener(name, self._payload(event))

        return hear

    def _payload(self, event: LimitEvent) -> dict[str, Any]:
        told: dict[str, Any] = {
            "routeId": self.route,
            "exchangeId": event.job_id,
            "correlationId": event.job_id,
            "stepLabel": self.step,
            "scope": self.scope,
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
