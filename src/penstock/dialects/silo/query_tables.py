"""The tables that a query may read, and where their rows come from: a survey of one tenant.

A row is what the survey has; a column is what is read of it, and only if the query comes to it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter, itemgetter
from typing import Any, Final, NamedTuple, TypeAlias

from penstock.clock import MILLISECOND
from penstock.dialects.silo.query_functions import Eval
from penstock.dialects.silo.query_meter import Meter
from penstock.dialects.silo.query_texts import limits_of, metadata_of, payload_of
from penstock.dialects.silo.query_tree import INT, MAP, TEXT, Value
from penstock.dialects.silo.stored import NO_TENANT, SHARD, shown_priority, task_id
from penstock.engine.surveys import Place, Survey, Text
from penstock.limits.rules import Limit
from penstock.limits.spec import limits_from_json
from penstock.store.surveys import SurveyedJob

Batches: TypeAlias = Iterator[list[Any]]

STATUSES: Final = {
    "scheduled": "Scheduled", "waiting": "Waiting", "running": "Running", "done": "Succeeded", "failed": "Failed",
    "discarded": "Failed", "cancelled": "Cancelled", "expired": "Cancelled",
}  # fmt: skip
_PLACES: Final[dict[str, Place]] = {
    "Scheduled": "pending", "Waiting": "pending", "Running": "running", "Succeeded": "ended", "Failed": "ended",
    "Cancelled": "ended",
}  # fmt: skip
_TEXTS: Final[dict[str, Text]] = {"payload": "args", "metadata": "meta", "limits": "meta"}
_MOST_IDS: Final = 1_000  # that are looked up one by one
_PENDING: Final = frozenset({"scheduled", "waiting"})


@dataclass(frozen=True, slots=True)
class Reading:
    """Whose rows are read, which columns are needed, and which texts some columns must have."""

    survey: Survey
    tenant: str
    needed: frozenset[str]
    wanted: Mapping[str, frozenset[str]]


@dataclass(frozen=True, slots=True)
class Table:
    """A table: the types of its columns with what reads them, and its rows.

    *counted* are rows that stand for many, with how many; they have only the columns that are *countable*.
    """

    own: dict[str, tuple[str, Eval]]
    rows: Callable[[Reading], Batches]
    counted: Callable[[Reading], Batches] | None = None
    countable: frozenset[str] = frozenset()

    @property
    def names(self) -> list[str]:
        """The names of all columns."""
        return [*owned(""), *self.own]

    def columns(self, tenant: str, meter: Meter) -> dict[str, tuple[str, Eval]]:
        """Return all columns, for a tenant; *meter* is told of longer texts before they are gone through."""
        same = {name: (TEXT, _always(value)) for name, value in owned(tenant).items()}
        own = {
            name: (type_, _counted(of, _TEXTS[name], meter) if name in _TEXTS else of)
            for name, (type_, of) in self.own.items()
        }
        return {**same, **own}


def owned(tenant: str) -> dict[str, str]:
    """Return what is the same in all rows of a tenant."""
    return {"shard_id": SHARD, "tenant": tenant or NO_TENANT}


def _always(value: str) -> Eval:
    return lambda _row: value


def _counted(of: Eval, text: Text, meter: Meter) -> Eval:
    """Return what reads a column that is made of a longer *text*."""
    source = attrgetter(text)

    def read(row: SurveyedJob) -> Value:
        meter.spend(len(source(row) or ""))
        return of(row)

    return read


def _place(reading: Reading) -> Place:
    """Return where to look for jobs of the states that are wanted."""
    places = {_PLACES[kind] for kind in reading.wanted.get("status_kind", _PLACES) if kind in _PLACES}
    return places.pop() if len(places) == 1 else "anywhere" if places else "running"


def _pages(reading: Reading, column: str, place: Place) -> Iterator[list[SurveyedJob]]:
    """Return jobs; by their ids, if these must be in *column*."""
    ids = reading.wanted.get(column)
    if ids is not None and len(ids) <= _MOST_IDS:
        return iter([reading.survey.of_ids([id_ for id_ in ids if "\0" not in id_])])
    return reading.survey.job_pages(place)


def _jobs(reading: Reading) -> Batches:
    texts = sorted({_TEXTS[name] for name in reading.needed if name in _TEXTS})
    pages = _pages(reading, "id", _place(reading))
    return _with_texts(reading, pages, texts) if texts else pages


def _with_texts(
    reading: Reading, pages: Iterator[list[SurveyedJob]], texts: Sequence[Text]
) -> Iterator[list[SurveyedJob]]:
    for page in pages:
        yield from reading.survey.with_texts(page, texts)


def _counted_jobs(reading: Reading) -> Batches:
    for tallies in reading.survey.tallies(_place(reading)):
        yield [(tally, tally.jobs) for tally in tallies]


def _tasks(reading: Reading) -> Batches:
    pages = _pages(reading, "job_id", "pending")
    pending = ([job for job in page if job.state in _PENDING] for page in pages)
    return _with_texts(reading, pending, ["limits"]) if "variant_type" in reading.needed else pending


def _variant(job: SurveyedJob) -> str:
    """Return what a job waits for: a worker, or a limit."""
    if not job.limits or (job.state == "waiting" and not job.parked):
        return "RunAttempt"
    timed = all(limit.numbers.slots is None and not limit.group for limit in limits_from_json(job.limits))
    return "CheckRateLimit" if timed else "RequestTicket"


class _Entry(NamedTuple):
    """A key that a job holds a slot of, or wants one of."""

    job: SurveyedJob
    key: str


def _queues(reading: Reading) -> Batches:
    entries = reading.wanted.get("entry_type", frozenset({"holder", "requester"}))
    names = reading.wanted.get("queue_name")
    places: list[Place] = ["running"] if "holder" in entries else []
    places += ["pending"] if "requester" in entries else []
    if "job_id" in reading.wanted:
        pages = _pages(reading, "job_id", "anywhere")
    else:
        pages = iter(chain.from_iterable(reading.survey.job_pages(place) for place in places))
    present = ([job for job in page if job.state in {"waiting", "running"}] for page in pages)
    for batch in _with_texts(reading, present, ["limits"]):
        yield [
            _Entry(job, limit.key)
            for job in batch
            for limit in _concurrent(job.limits, reading.tenant)
            if names is None or limit.key in names
        ]


def _concurrent(limits: str | None, tenant: str) -> list[Limit]:
    found = limits_from_json(limits) if limits else ()
    return [limit for limit in found if limit.numbers.slots is not None and limit.owner(tenant) == tenant]


def _tenant_counts(reading: Reading) -> Batches:
    counts: dict[str, int] = {}
    for tallies in reading.survey.tallies("anywhere"):
        yield []  # so that the clock is looked at
        for tally in tallies:
            kind = STATUSES[tally.state]
            counts[kind] = counts.get(kind, 0) + tally.jobs
    yield sorted(counts.items())


def _queue_counts(reading: Reading) -> Batches:
    names = reading.wanted.get("queue_name", frozenset())
    name = min(names) if len(names) == 1 else None
    if name is not None and "\0" in name:
        return
    for page in reading.survey.key_pages(name):
        yield [key for key in page if key.numbers.slots is not None]


def _milliseconds(at: int) -> int:
    return at // MILLISECOND


def _start(job: SurveyedJob) -> int:
    return _milliseconds(job.changed if job.due is None else job.due)


_PRIORITY: Final = ("UInt8", lambda row: shown_priority(row.priority))
_GROUP: Final = (TEXT, lambda row: row.queue)
_JOBS: Final = Table(
    {
        "id": (TEXT, lambda row: row.id),
        "priority": _PRIORITY,
        "enqueue_time_ms": (INT, lambda row: _milliseconds(row.enqueued)),
        "payload": (TEXT, lambda row: payload_of(row.args)),
        "status_kind": (TEXT, lambda row: STATUSES[row.state]),
        "status_changed_at_ms": (INT, lambda row: _milliseconds(row.changed)),
        "task_group": _GROUP,
        "current_attempt": ("UInt32", lambda row: row.made + 1 if row.state in _PENDING else None),
        "next_attempt_starts_after_ms": (INT, lambda row: _start(row) if row.state in _PENDING else None),
        "metadata": (MAP, lambda row: metadata_of(row.meta)),
        "limits": (TEXT, lambda row: limits_of(row.meta)),
    },
    _jobs,
    _counted_jobs,
    frozenset({"shard_id", "tenant", "task_group", "priority", "status_kind"}),
)
_TASKS: Final = Table(
    {
        "task_group": _GROUP,
        "start_time_ms": (INT, _start),
        "priority": _PRIORITY,
        "job_id": (TEXT, lambda row: row.id),
        "attempt": ("UInt32", lambda row: row.made + 1),
        "variant_type": (TEXT, _variant),
        "task_id": (TEXT, lambda row: task_id(row.seq, 0)),
        "held_queues": (TEXT, lambda _row: ""),  # a job holds nothing while it waits
    },
    _tasks,
)
_QUEUES: Final = Table(
    {
        "queue_name": (TEXT, lambda row: row.key),
        "entry_type": (TEXT, lambda row: "requester" if row.job.fence is None else "holder"),
        "task_id": (TEXT, lambda row: task_id(row.job.seq, row.job.fence or 0)),
        "job_id": (TEXT, lambda row: row.job.id),
        "priority": ("UInt8", lambda row: shown_priority(row.job.priority)),
        "timestamp_ms": (INT, lambda row: _milliseconds(row.job.changed)),
    },
    _queues,
)
_TENANT_COUNTS: Final = Table(
    {"status_kind": (TEXT, itemgetter(0)), "cnt": (INT, itemgetter(1))}, _tenant_counts
)
_QUEUE_COUNTS: Final = Table(
    {
        "queue_name": (TEXT, lambda row: row.key),
        "holders": (INT, lambda row: row.running),
        "requesters": (INT, lambda row: row.waiting),
        "max_concurrency": (INT, lambda row: row.numbers.slots),
        "limit_type": (TEXT, lambda row: "floating_concurrency" if row.floats else "concurrency"),
    },
    _queue_counts,
)
TABLES: Final = {
    "jobs": _JOBS,
    "tasks": _TASKS,
    "queues": _QUEUES,
    "tenant_counts": _TENANT_COUNTS,
    "queue_counts": _QUEUE_COUNTS,
}
