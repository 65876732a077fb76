"""The engine's events, in the spec's words."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from penstock.clock import MILLISECOND
from penstock.dialects.ojs.format.names import VERSION, written
from penstock.http.codec import decode, encode
from penstock.http.feed import LOST, FeedEntry
from penstock.job import DROPPED_FOR_ROOM, Event

SOURCE: Final = "ojs://penstock/server"
STATE_CHANGED: Final = "job.state_changed"
STRATEGIES: Final = {"slots": "concurrency", "rate": "rate", "throttle": "throttle", "shut": "dynamic"}

# What a job's event is called, and from which state it leads to which; "" where that depends.
_JOBS: Final[dict[str, tuple[tuple[str, ...], str, str]]] = {
    "job.enqueued": (("job.enqueued",), "", ""),
    "job.started": (("job.started",), "available", "active"),
    "job.done": (("job.completed",), "active", "completed"),
    "job.failed": (("job.failed", "job.discarded"), "active", "discarded"),
    "job.discarded": (("job.failed", "job.discarded"), "active", "discarded"),
    "job.retrying": (("job.failed", "job.retrying"), "active", "retryable"),
    "job.rescued": (("job.retrying",), "active", "available"),
    "job.handed_back": (("job.enqueued",), "active", "available"),
    "job.cancel_asked": (("job.cancelled",), "active", "cancelled"),
    "job.cancelled": (("job.cancelled",), "", "cancelled"),
    "job.expired": (("job.expired",), "available", "discarded"),
}
_ENDS: Final = frozenset({"completed", "discarded", "cancelled"})


class Shown(Struct, frozen=True):
    """One event as it is sent.  *ends*: its job changes no more; *live*: only streams carry it."""

    id: str
    name: str
    tenant: str
    queue: str
    job_type: str
    body: dict[str, Any]
    ends: bool = False
    live: bool = False

    @property
    def data(self) -> dict[str, Any]:
        """What happened."""
        return self.body if self.live else self.body["data"]

    @property
    def text(self) -> bytes:
        """The event as JSON."""
        return encode(self.body)


def shown(entry: FeedEntry) -> tuple[Shown, ...]:
    """Return the spec's events for an event of the engine: none, one or a few."""
    if entry.shown is None:
        entry.shown = tuple(_translated(entry.id, entry.event))
    return entry.shown  # type: ignore[return-value]


def lost(count: int, id_: str, at: int) -> Shown:
    """Return the event that tells a reader how many it missed."""
    return _envelope(id_, LOST, at, None, {}, {"count": count, "dropped_count": count})


def state_now(id_: str, job: Mapping[str, Any], at: int) -> Shown:
    """Return the present state of a job as an event, for a reader too late for its events; *job* is its envelope."""
    body = {
        "job_id": job["id"],
        "queue": job["queue"],
        "type": job["type"],
        "from": job["state"],
        "to": job["state"],
    }
    body["timestamp"] = written(at)
    ends = job["state"] in _ENDS
    return Shown(f"evt_{id_}", STATE_CHANGED, "", job["queue"], job["type"], body, ends=ends, live=True)


def _translated(id_: str, event: Event) -> list[Shown]:
    if event.name in _JOBS:
        return _job(id_, event)
    known = _OTHERS.get(event.name)
    if known is None and event.name.startswith(("workflow.", "backpressure.")):
        known = event.name, _plain
    if known is None:
        return []
    name, data = known
    subject = event.facts.get("job") or event.facts.get("workflow") or event.facts.get("schedule")
    subject = subject or event.facts.get("key") or event.facts.get("queue")
    return [_envelope(id_, name, event.at, subject, event.facts, data(event.facts))]


def _job(id_: str, event: Event) -> list[Shown]:
    names, before, after = _JOBS[event.name]
    facts = event.facts
    if (event.name == "job.cancelled" and facts.get("asked")) or facts.get("again") is False:
        return []  # sent when it was asked for; or sent in a moment, as its end
    if event.name == "job.discarded" and not facts.get("error"):
        names, before = ("job.discarded",), "available"  # nothing failed: a limit or a full queue dropped it
        if facts.get("reason") == DROPPED_FOR_ROOM:
            names = ("backpressure.dropped", "job.discarded")
    if event.name == "job.cancelled":
        before = "active" if facts.get("started") else "available"
    if facts.get("due"):
        names = (*names, "job.scheduled")
    found = []
    for n, name in enumerate(names):
        data = _job_data(event) | _error(name, facts)
        own = f"{id_}-{n}" if n else id_
        found.append(_envelope(own, name, event.at, facts.get("job"), facts, data))
    if after:
        found.append(_changed(f"{id_}-{len(found)}", event, before, after))
    return found


def _job_data(event: Event) -> dict[str, Any]:
    facts = event.facts
    data: dict[str, Any] = _names(facts)
    for fact, name in (("attempt", "attempt"), ("worker", "worker_id"), ("reason", "reason")):
        if facts.get(fact):
            data[name] = facts[fact]
    started, due, after = facts.get("started"), facts.get("due"), facts.get("after")
    if isinstance(started, int):
        data["duration_ms"] = max(0, event.at - started) // MILLISECOND
    if isinstance(due, int):
        data["scheduled_at"] = written(due)
    if isinstance(after, int):
        data["next_retry_at"] = written(event.at + after)
    if event.name == "job.rescued":
        data |= {"next_retry_at": written(event.at), "reason": "lease_lost"}
    elif event.name == "job.handed_back":
        data["reason"] = "handed_back"
    elif event.name == "job.expired":
        data["expired_at"] = written(event.at)
    return data


def _error(name: str, facts: Mapping[str, object]) -> dict[str, Any]:
    text = facts.get("error")
    if not isinstance(text, str) or name not in ("job.failed", "job.retrying", "job.discarded"):
        return {}
    kept = decode(text)
    details = kept.get("details")
    sent = decode(details) if isinstance(details, str) and details else {}
    error = {"code": sent.get("code", kept.get("kind")), "type": sent.get("type") or kept.get("kind")}
    error["message"] = kept.get("message", "")
    if name == "job.discarded":
        return {"total_attempts": facts.get("attempt"), "last_error": error}
    return {"error": error | {"retryable": "after" in facts}}


def _changed(id_: str, event: Event, before: str, after: str) -> Shown:
    names = _names(event.facts)
    body = {"job_id": names.get("job_id"), "queue": names.get("queue"), "type": names.get("job_type")}
    body |= {"from": before, "to": after, "timestamp": written(event.at)}
    made = _envelope(id_, STATE_CHANGED, event.at, None, event.facts, {})
    return msgspec.structs.replace(made, body=body, ends=after in _ENDS, live=True)


def _envelope(
    id_: str, name: str, at: int, subject: object, facts: Mapping[str, object], data: dict[str, Any]
) -> Shown:
    queue = str(facts.get("queue") or "")
    tenant = str(facts.get("tenant") or "")
    body = {"specversion": VERSION, "id": f"evt_{id_}", "type": name, "source": SOURCE, "time": written(at)}
    if subject:
        body["subject"] = str(subject)
    task = str(facts.get("task") or "")
    return Shown(f"evt_{id_}", name, tenant, queue, task, {**body, "data": data})


def _names(facts: Mapping[str, object]) -> dict[str, Any]:
    names: dict[str, Any] = {}
    for fact, name in (("job", "job_id"), ("task", "job_type"), ("tenant", "tenant_id")):
        if facts.get(fact):
            names[name] = facts[fact]
    if facts.get("queue"):
        names["queue"] = str(facts["queue"])
    return names


def _limit(facts: Mapping[str, object]) -> dict[str, Any]:
    data = _names(facts) | {"key": facts["key"]}
    if "rule" in facts:
        data["strategy"] = STRATEGIES.get(str(facts["rule"]), "concurrency")
    for name in ("limit", "current"):
        if name in facts:
            data[name] = facts[name]
    return data


def _adjusted(facts: Mapping[str, object]) -> dict[str, Any]:
    until = facts["until"]
    shut = written(until) if isinstance(until, int) else None
    return _names(facts) | {
        "key": facts["key"],
        "until": shut,
        "reason": facts.get("reason") or "rate_limit_until",
    }


def _cron(facts: Mapping[str, object]) -> dict[str, Any]:
    data = _names(facts) | {"cron_name": facts["schedule"]}
    return data | ({"reason": facts["reason"]} if "reason" in facts else {})


def _plain(facts: Mapping[str, object]) -> dict[str, Any]:
    data = _names(facts)
    if "workflow" in facts:
        data["workflow_id"] = facts["workflow"]
    others = ("job", "task", "tenant", "queue", "workflow")
    return data | {name: value for name, value in facts.items() if name not in others}


_OTHERS: Final[dict[str, tuple[str, Callable[[Mapping[str, object]], dict[str, Any]]]]] = {
    "limit.exceeded": ("rate_limit.exceeded", _limit),
    "limit.released": ("rate_limit.released", _limit),
    "limit.dropped": ("rate_limit.dropped", _limit),
    "limit.adjusted": ("rate_limit.dynamic_adjusted", _adjusted),
    "limit.shut": ("rate_limit.dynamic_adjusted", _adjusted),
    "schedule.fired": ("cron.triggered", _cron),
    "schedule.skipped": ("cron.skipped", _cron),
    "queue.paused": ("queue.paused", _plain),
    "queue.resumed": ("queue.resumed", _plain),
    LOST: (LOST, _plain),
}
