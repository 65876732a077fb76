"""Counters fed by events, with a bounded number of labels."""

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from penstock.clock import SECOND, monotonic
from penstock.http.engine_service import EngineService
from penstock.http.feed import LOST, FeedEntry
from penstock.job import Event, Gauges

MOST: Final = 1_000  # different labels of one number; all that come later count together
OTHER: Final = "other"
Labels = tuple[str, ...]
_FRESH: Final = SECOND  # how long the store's answer is used, at least
_SHARE: Final = 10  # at most one part in so many of the time is spent on asking the store
_SCHEDULED: Final = 100_000
JOBS: Final = {
    "enqueued": "Jobs that were enqueued.",
    "started": "Attempts that were handed to workers.",
    "completed": "Jobs that were done.",
    "failed": "Jobs that failed for good.",
    "retried": "Attempts that failed and will be tried again.",
    "rescued": "Attempts whose workers were not heard from in time.",
    "discarded": "Jobs that ended as discarded, by failing or by a limit.",
    "cancelled": "Jobs that were cancelled.",
    "expired": "Jobs that expired before they started.",
}
INSTANCES: Final = {
    "created": "Instances that were created.",
    "started": "Instances that were admitted, also those that were retried.",
    "completed": "Instances that were done.",
    "failed": "Instances that failed.",
    "cancelled": "Instances that were cancelled.",
    "discarded": "Instances that a limit threw away.",
    "expired": "Instances that expired before they were admitted.",
    "retried": "Instances that had ended and were let in again.",
}
_COUNTED: Final = {
    "job.started": ("started",),
    "job.done": ("completed",),
    "job.failed": ("failed", "discarded"),
    "job.retrying": ("retried",),
    "job.rescued": ("rescued",),
    "job.cancelled": ("cancelled",),
    "job.expired": ("expired",),
}
_DURATIONS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
_WAITS: Final = (0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 600, 1800, 3600)
_REQUESTS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class Metrics:
    """What this process has counted.  Belongs to the event loop."""

    def __init__(self, service: EngineService) -> None:
        self.jobs = {name: LabelCounter() for name in JOBS}
        self.instances = {name: LabelCounter() for name in INSTANCES}
        self.exceeded = LabelCounter()
        self.dropped = LabelCounter()
        self.lost = LabelCounter()
        self.durations = Histogram(_DURATIONS)
        self.queued = Histogram(_WAITS)
        self.waits = Histogram(_WAITS)
        self.requests = Histogram(_REQUESTS)
        self._released: dict[object, tuple[str, str, object]] = {}
        self._scheduled: OrderedDict[object, int] = OrderedDict()
        self._gauges: tuple[int, Gauges] | None = None
        service.feed.follow(self._count)
        service.keep(self)

    def request(self, method: str, route: str, status: int, took: int) -> None:
        """Note a request that took so many microseconds."""
        self.requests.add(took / SECOND, method, route, str(status))

    async def gauges(self, service: EngineService) -> Gauges:
        """Return how full everything is, as of a moment ago."""
        now = monotonic()
        if self._gauges is None or now >= self._gauges[0]:
            found = await service.run(lambda engine: engine.gauges(MOST))
            took = monotonic() - now
            self._gauges = (monotonic() + max(_FRESH, _SHARE * took), found)
        return self._gauges[1]

    def _count(self, entry: FeedEntry) -> None:
        event = entry.event
        facts = event.facts
        if event.name.startswith("job."):
            self._job(event)
        elif event.name.startswith("instance."):
            self._instance(event)
        elif event.name == "limit.exceeded":
            key, tenant, rule = (str(facts.get(name) or "") for name in ("key", "owner", "rule"))
            self.exceeded.add(key, tenant, rule)
        elif event.name == "limit.dropped":
            self.dropped.add(str(facts["key"]), str(facts["owner"]))
        elif event.name == "limit.released":
            self._released[_job(event)] = (str(facts["key"]), str(facts["owner"]), facts.get("since"))
        elif event.name == LOST:
            self.lost.add(count=int(str(facts["count"])))

    def _instance(self, event: Event) -> None:
        what = event.name.partition(".")[2]
        counter = self.instances.get("completed" if what == "done" else what)
        if counter is not None:  # a pause is shown by how many are paused
            counter.add(str(event.facts["workflow"]))

    def _job(self, event: Event) -> None:
        facts = event.facts
        queue, task = str(facts.get("queue")), str(facts.get("task"))
        for name in _COUNTED.get(event.name, ()):
            self.jobs[name].add(queue, task)
        started = facts.get("started")
        if isinstance(started, int):
            self.durations.add(max(0, event.at - started) / SECOND, queue, task)
        if event.name == "job.enqueued" and not facts.get("again"):
            self.jobs["enqueued"].add(queue, task)
            self._schedule(_job(event), facts.get("due"))
        elif event.name == "job.discarded":
            self.jobs["discarded"].add(queue, task)
            if facts.get("error"):
                self.jobs["failed"].add(queue, task)
        elif event.name == "job.started":
            self._started(event, queue, task)

    def _schedule(self, job: object, due: object) -> None:
        if isinstance(due, int):
            self._scheduled[job] = due
            if len(self._scheduled) > _SCHEDULED:
                self._scheduled.popitem(last=False)

    def _started(self, event: Event, queue: str, task: str) -> None:
        job, enqueued = _job(event), event.facts.get("enqueued")
        due = self._scheduled.pop(job, 0) if self._scheduled else 0
        first = event.facts.get("attempt") == 1 and isinstance(enqueued, int)
        since = max(enqueued, due) if first and isinstance(enqueued, int) else None
        if since is not None:
            self.queued.add(max(0, event.at - since) / SECOND, queue, task)
        if job in self._released:
            key, tenant, blocked = self._released.pop(job)
            # Told by another process, or too long ago, it waits since it came as far as is known.
            begin = blocked if blocked is not None else since
            if isinstance(begin, int):
                self.waits.add(max(0, event.at - begin) / SECOND, key, tenant)


class LabelCounter:
    """Counts by labels."""

    def __init__(self) -> None:
        self.counts: dict[Labels, int] = {}

    def add(self, *labels: str, count: int = 1) -> None:
        """Count something."""
        labels = known(self.counts, labels)
        self.counts[labels] = self.counts.get(labels, 0) + count


class Histogram:
    """Histograms by labels: how many values lie in each bucket, and their sum."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.values: dict[Labels, list[float]] = {}

    def add(self, value: float, *labels: str) -> None:
        """Note a value."""
        labels = known(self.values, labels)
        kept = self.values.get(labels)
        if kept is None:
            kept = self.values[labels] = [0] * (len(self.bounds) + 2)
        kept[bisect_left(self.bounds, value)] += 1
        kept[-1] += value


def _job(event: Event) -> tuple[object, object]:
    """Return whose job an event is about, and its id."""
    return event.facts.get("tenant"), event.facts.get("job")


def known(
    among: dict[Labels, object] | dict[Labels, int] | dict[Labels, list[float]], labels: Labels
) -> Labels:
    """Return *labels*, or those for all others once there are too many."""
    return labels if labels in among or len(among) < MOST else (OTHER,) * len(labels)
