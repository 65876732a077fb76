"""What was it that a job had to wait for, and since when?"""

from collections import OrderedDict
from typing import Final

from penstock.http.feed import Entry

REMEMBERED: Final = 100_000
_OVER: Final = frozenset({"job.started", "job.cancelled", "job.expired", "job.discarded"})


class BlockedSince:
    """Remembers which rule stopped a job, and tells it with the event of its release."""

    def __init__(self) -> None:
        self._blocked: OrderedDict[object, tuple[object, int]] = OrderedDict()

    def note(self, entry: Entry) -> None:
        """Learn from an event, or complete it."""
        event = entry.event
        job = event.facts.get("job")
        if event.name == "limit.exceeded":
            self._blocked[job] = (event.facts.get("rule"), event.at)
            if len(self._blocked) > REMEMBERED:
                self._blocked.popitem(last=False)
        elif event.name == "limit.released":
            rule, since = self._blocked.get(job, ("slots", None))
            event.facts.setdefault("rule", rule)
            if since is not None:
                event.facts["since"] = since
        elif event.name in _OVER and self._blocked:
            self._blocked.pop(job, None)
