"""The tables that a query may read, and where their rows come from: a survey of one tenant."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Final, TypeAlias

import msgspec

from penstock.clock import MILLISECOND
from penstock.dialects.silo.query_tree import INT, MAP, TEXT, Value
from penstock.dialects.silo.stored import NO_TENANT, SHARD, bytes_of, kept_in, shown_priority, task_id
from penstock.engine.surveys import Place, Survey, Text
from penstock.limits.rules import Limit
from penstock.limits.spec import limits_from_json
from penstock.store.surveys import SurveyedJob

Row: TypeAlias = tuple[Value, ...]
Batches: TypeAlias = Iterator[list[Row]]
# What a column must be: one of these values, or any if it is not named.
Wanted: TypeAlias = Mapping[str, frozenset[str]]

STATUSES: Final = {
    "scheduled": "Scheduled", "waiting": "Waiting", "running": "Running", "done": "Succeeded", "failed": "Failed",
    "discarded": "Failed", "cancelled": "Cancelled", "expired": "Cancelled",
}  # fmt: skip
_PLACES: Final[dict[str, Place]] = {
    "Scheduled": "pending", "Waiting": "pending", "Running": "running", "Succeeded": "ended", "Failed": "ended",
    "Cancelled": "ended",
}  # fmt: skip
_BATCH: Final = 200  # rows with longer texts
_MOST_IDS: Final = 1_000  # that are looked up one by one
_PENDING: Final = frozenset({"scheduled", "waiting"})
_COUNTED: Final = frozenset({"shard_id", "tenant", "task_group", "priority", "status_kind"})


@dataclass(frozen=True, slots=True)
class Table:
    """A table: the types of its columns, and its rows with the columns that are needed.

    *counted* are rows that stand for many, if there is a quicker way to count, and which columns they have.
    """

    columns: dict[str, str]
    rows: Callable[["Reading"], Batches]
    counted: Callable[["Reading"], Iterator[tuple[Row, int]]] | None = None
    countable: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Reading:
    """Whose rows are read, with which columns, and what some of these must be."""

    survey: Survey
    tenant: str
    columns: Sequence[str]
    wanted: Wanted

    def owned(self) -> dict[str, Value]:
        """Return what is the same in all rows."""
        return {"shard_id": SHARD, "tenant": self.tenant or NO_TENANT}


_decode: Final = msgspec.msgpack.Decoder(ext_hook=lambda _code, _data: None).decode
_encode: Final = msgspec.json.Encoder(decimal_format="number").encode


def json_of(args: str | None) -> str | None:
    """Return a payload as JSON; None if it has no JSON, or is too long."""
    try:
        return None if args is None else _encode(_decode(bytes_of(args))).decode()
    except (ValueError, TypeError, RecursionError, msgspec.MsgspecError):
        return None


def _limits_of(meta: str | None) -> str | None:
    shown = []
    for limit in [] if meta is None else kept_in(meta).limits:
        for kind, facts in limit.items():
            key = facts.get("key", f"{facts.get('name', '')}_{facts.get('unique_key', '')}")
            value = facts.get("max_concurrency", facts.get("default_max_concurrency", facts.get("limit")))
            shown.append({"limit_type": kind, "key": key, "value": value})
    return _encode(shown).decode()


def _milliseconds(at: int | None) -> int | None:
    return None if at is None else at // MILLISECOND


def _start(job: SurveyedJob) -> int:
    return (job.changed if job.due is None else job.due) // MILLISECOND


_OF_JOB: Final[dict[str, Callable[[SurveyedJob], Value]]] = {
    "id": lambda job: job.id,
    "job_id": lambda job: job.id,
    "priority": lambda job: shown_priority(job.priority),
    "enqueue_time_ms": lambda job: _milliseconds(job.enqueued),
    "status_kind": lambda job: STATUSES[job.state],
    "status_changed_at_ms": lambda job: _milliseconds(job.changed),
    "task_group": lambda job: job.queue,
    "current_attempt": lambda job: job.made + 1 if job.state in _PENDING else None,
    "next_attempt_starts_after_ms": lambda job: _start(job) if job.state in _PENDING else None,
    "start_time_ms": _start,
    "attempt": lambda job: job.made + 1,
    "task_id": lambda job: task_id(job.seq, job.fence or 0),
    "held_queues": lambda _job: "",
    "entry_type": lambda job: "requester" if job.fence is None else "holder",
    "timestamp_ms": lambda job: _milliseconds(job.changed),
}  # fmt: skip
_OF_TEXT: Final[dict[str, tuple[Text, Callable[[str | None], Value]]]] = {
    "payload": ("args", json_of),
    "metadata": ("meta", lambda meta: {} if meta is None else kept_in(meta).metadata),
    "limits": ("meta", _limits_of),
}


def _pages(reading: Reading, column: str, place: Place) -> Iterator[list[SurveyedJob]]:
    """Return jobs; by their ids, if these must be in *column*."""
    ids = reading.wanted.get(column)
    if ids is not None and len(ids) <= _MOST_IDS:
        return iter([reading.survey.of_ids([id_ for id_ in ids if "\0" not in id_])])
    return reading.survey.job_pages(place)


def _place(reading: Reading) -> Place:
    """Return where to look for jobs of the states that are wanted."""
    places = {_PLACES[kind] for kind in reading.wanted.get("status_kind", _PLACES) if kind in _PLACES}
    return places.pop() if len(places) == 1 else "anywhere" if places else "running"


def _jobs(reading: Reading) -> Batches:
    pages = _pages(reading, "id", _place(reading))
    owned = reading.owned()
    texts = sorted({_OF_TEXT[name][0] for name in reading.columns if name in _OF_TEXT})
    if not texts:
        makers = [_constant(owned[name]) if name in owned else _OF_JOB[name] for name in reading.columns]
        for page in pages:
            yield [tuple([make(job) for make in makers]) for job in page]
        return
    for page in pages:
        found = zip(page, *[reading.survey.texts(text, page) for text in texts], strict=True)
        rows = (_row(reading.columns, owned, job, dict(zip(texts, (t for _, t in read), strict=True)))
                for job, *read in found)  # fmt: skip
        while batch := list(islice(rows, _BATCH)):
            yield batch
        yield []


def _row(
    columns: Sequence[str], owned: Mapping[str, Value], job: SurveyedJob, texts: Mapping[Text, str | None]
) -> Row:
    row: list[Value] = []
    for name in columns:
        if name in owned:
            row.append(owned[name])
        elif name in _OF_TEXT:
            text, make = _OF_TEXT[name]
            row.append(make(texts[text]))
        else:
            row.append(_OF_JOB[name](job))
    return tuple(row)


def _constant(value: Value) -> Callable[[SurveyedJob], Value]:
    return lambda _job: value


def _counted_jobs(reading: Reading) -> Iterator[tuple[Row, int]]:
    for tally in reading.survey.census(_place(reading)):
        facts = {
            **reading.owned(),
            "task_group": tally.queue,
            "priority": shown_priority(tally.priority),
            "status_kind": STATUSES[tally.state],
        }
        yield tuple(facts[name] for name in reading.columns), tally.jobs


def _tasks(reading: Reading) -> Batches:
    for page in _pages(reading, "job_id", "pending"):
        pending = [job for job in page if job.state in _PENDING]
        limits: Iterator[tuple[SurveyedJob, str | None]] = ((job, None) for job in pending)
        if "variant_type" in reading.columns:
            limits = reading.survey.texts("limits", pending)
        yield [
            _row(reading.columns, {**reading.owned(), "variant_type": _variant(job, text or "")}, job, {})
            for job, text in limits
        ]


def _variant(job: SurveyedJob, limits: str) -> str:
    """Return what a job waits for: a worker, or a limit."""
    if not limits or (job.state == "waiting" and not job.parked):
        return "RunAttempt"
    timed = all(limit.numbers.slots is None and not limit.group for limit in limits_from_json(limits))
    return "CheckRateLimit" if timed else "RequestTicket"


def _queues(reading: Reading) -> Batches:
    entries = reading.wanted.get("entry_type", frozenset({"holder", "requester"}))
    places: list[Place] = ["running"] if "holder" in entries else []
    places += ["pending"] if "requester" in entries else []
    pages: Iterator[list[SurveyedJob]]
    if "job_id" in reading.wanted:
        pages = _pages(reading, "job_id", "anywhere")
    else:
        pages = chain.from_iterable(reading.survey.job_pages(place) for place in places)
    names = reading.wanted.get("queue_name")
    owned = reading.owned()
    for page in pages:
        present = [job for job in page if job.state in {"waiting", "running"}]
        yield [
            _row(reading.columns, {**owned, "queue_name": limit.key}, job, {})
            for job, text in reading.survey.texts("limits", present)
            for limit in _concurrent(text, reading.tenant)
            if names is None or limit.key in names
        ]


def _concurrent(limits: str | None, tenant: str) -> list[Limit]:
    found = limits_from_json(limits) if limits else ()
    return [limit for limit in found if limit.numbers.slots is not None and limit.owner(tenant) == tenant]


def _tenant_counts(reading: Reading) -> Batches:
    counts: dict[str, int] = {}
    for tally in reading.survey.census():
        kind = STATUSES[tally.state]
        counts[kind] = counts.get(kind, 0) + tally.jobs
    owned = reading.owned()
    found = [{**owned, "status_kind": kind, "cnt": count} for kind, count in sorted(counts.items())]
    yield [tuple(facts[name] for name in reading.columns) for facts in found]


def _queue_counts(reading: Reading) -> Batches:
    names = reading.wanted.get("queue_name", frozenset())
    name = min(names) if len(names) == 1 else None
    if name is not None and "\0" in name:
        return
    owned = reading.owned()
    for page in reading.survey.key_pages(name):
        found: list[dict[str, Value]] = [
            {
                **owned,
                "queue_name": key.key,
                "holders": key.running,
                "requesters": key.waiting,
                "max_concurrency": key.numbers.slots,
                "limit_type": "floating_concurrency" if key.floats else "concurrency",
            }
            for key in page
            if key.numbers.slots is not None
        ]
        yield [tuple(facts[name] for name in reading.columns) for facts in found]


_OWNED: Final = {"shard_id": TEXT, "tenant": TEXT}
TABLES: Final = {
    "jobs": Table(
        {
            **_OWNED, "id": TEXT, "priority": "UInt8", "enqueue_time_ms": INT, "payload": TEXT, "status_kind": TEXT,
            "status_changed_at_ms": INT, "task_group": TEXT, "current_attempt": "UInt32",
            "next_attempt_starts_after_ms": INT, "metadata": MAP, "limits": TEXT,
        },
        _jobs,
        _counted_jobs,
        _COUNTED,
    ),
    "tasks": Table(
        {
            **_OWNED, "task_group": TEXT, "start_time_ms": INT, "priority": "UInt8", "job_id": TEXT,
            "attempt": "UInt32", "variant_type": TEXT, "task_id": TEXT, "held_queues": TEXT,
        },
        _tasks,
    ),
    "queues": Table(
        {
            **_OWNED, "queue_name": TEXT, "entry_type": TEXT, "task_id": TEXT, "job_id": TEXT, "priority": "UInt8",
            "timestamp_ms": INT,
        },
        _queues,
    ),
    "tenant_counts": Table({**_OWNED, "status_kind": TEXT, "cnt": INT}, _tenant_counts),
    "queue_counts": Table(
        {
            **_OWNED, "queue_name": TEXT, "holders": INT, "requesters": INT, "max_concurrency": INT,
            "limit_type": TEXT,
        },
        _queue_counts,
    ),
}  # fmt: skip
