"""What is worth a look: what was decided and is forgotten easily, and what does not do well."""

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from penstock.clock import SECOND
from penstock.job import QueueLook
from penstock.monitor import words
from penstock.monitor.page import View
from penstock.monitor.pages.workers import Worker

SOON: Final = 3_600 * SECOND  # an override that ends so soon is told of
MOST: Final = 12  # points


class Point(Struct):
    """Something worth a look: how *grave* it is, about what, and what more there is to say of it.

    *key* and *queue* say where to look, each of a *tenant*; *at* is a moment that belongs to it.
    """

    grave: str  # grave, warn or mild
    text: str
    more: str = ""
    key: str = ""
    queue: str = ""
    worker: str = ""
    task: str = ""
    tenant: str = ""
    at: int | None = None


def a_look(view: View, queues: Sequence[QueueLook], workers: Sequence[Worker]) -> list[Point]:
    """Return what is worth a look, the gravest first."""
    found = [*_floating(view), *_gates(view), *_queues(queues), *_workers(workers), *_unknown(view)]
    rank = {"grave": 0, "warn": 1, "mild": 2}
    return sorted(found, key=lambda point: rank[point.grave])[:MOST]


def _gates(view: View) -> Iterator[Point]:
    for gate in view.engine.decided_gates(tenant=view.tenant):
        if gate.shut_until is not None:
            yield Point("warn", "is shut", gate.shut_reason, gate.key, tenant=gate.tenant, at=gate.shut_until)
        if gate.override is None:
            continue
        if gate.numbers.slots == 0:
            yield Point("warn", "is paused", key=gate.key, tenant=gate.tenant, at=gate.override_until)
        elif gate.override_until is not None and gate.override_until < view.now + SOON:
            more = f"{words.numbers(gate.override)} until then"
            yield Point(
                "warn",
                "has an override that ends",
                more,
                gate.key,
                tenant=gate.tenant,
                at=gate.override_until,
            )


def _floating(view: View) -> Iterator[Point]:
    for limit in view.engine.floating_page(tenant=view.tenant).limits:
        if limit.failures:
            times = "once" if limit.failures == 1 else f"{limit.failures} times"
            text = f"floats at {limit.value}; its handler failed {times}"
            yield Point("grave", text, limit.last_error[:200], limit.key, tenant=limit.tenant)


def _queues(queues: Sequence[QueueLook]) -> Iterator[Point]:
    for queue in queues:
        if queue.paused is not None:
            waiting = f"{words.number(queue.waiting.number)} wait" if queue.waiting.number else ""
            yield Point("warn", "is paused", waiting, queue=queue.queue, tenant=queue.tenant)


def _workers(workers: Sequence[Worker]) -> Iterator[Point]:
    for each in workers:
        if each.silent:
            more = f"{words.number(each.worker.jobs)} running; they go to others once their leases are over"
            yield Point("warn", "has been silent", more, worker=each.worker.worker)


def _unknown(view: View) -> Iterator[Point]:
    if view.tenant is not None:
        return
    for task in view.engine.unknown_tasks():
        text = "waits, and no worker asks for it"
        more = f"{words.number(task.waiting)} jobs in queue {task.queue}"
        yield Point("grave", text, more, task=task.task, queue=task.queue, at=task.since)
