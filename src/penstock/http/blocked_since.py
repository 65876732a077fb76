"""Since when is a job blocked, and by which rule?"""

from collections import OrderedDict
from typing import Final

from penstock.http.feed import FeedEntry

REMEMBERED: Final = 100_000
_OVER: Final = frozenset({"job.started", "job.cancelled", "job.expired", "job.discarded"})


class BlockedSince:
    """Remembers which rule blocked a job and when, and adds that to the event of its release."""

    def __init__(self) -> None:
        self._blocked: OrderedDict[object, tuple[object, int]] = OrderedDict()

    def note(self, entry: FeedEntry) -> None:
        """Remember what an event tells, or add to it what is remembered."""
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
