"""Queues: how many of their jobs run and wait, how that went, and what was decided about them."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import asdict

from penstock.job import Past, Place, Pool, QueueLook, Standing, TaskLook
from penstock.monitor.lookback import pace
from penstock.monitor.page import View
from penstock.monitor.requests import Query

TOLD: Final = 30  # queues of which is told how they did: those that have most to do


class QueueRow(QueueLook, frozen=True):
    """A queue, how many of its jobs started in each of the last minutes, and waited in each of the last hour.

    Both are known of the busiest queues only.
    """

    starts: float | None = None
    trend: list[int] | None = None


class TaskRow(Struct):
    """A task: what stands of it, how many of its jobs started in each of the last minutes, and how the last hour was.

    *trend* is how many started in each whole minute of it; half of them had waited no longer than *waited_p50*.
    """

    tenant: str
    task: str
    stands: Standing
    starts: float
    trend: list[int]
    waited_p50: int | None
    waited_p95: int | None
    failed: int  # attempts


class Queues(Struct):
    """All queues that have jobs or rules, the busiest tasks, and the pools that queues are in."""

    queues: list[QueueRow]
    tasks: list[TaskRow]
    pools: list[Pool]


def show(view: View, _: Query) -> Queues:
    """Return the queues."""
    looks = view.engine.queue_looks(tenant=view.tenant)
    busy = busiest(looks)[:TOLD]
    pasts = view.engine.queues_past(places(busy))
    told = {(row.tenant, row.queue): row for row in rows_of(busy, pasts)}
    found = [told.get((look.tenant, look.queue)) or QueueRow(**asdict(look)) for look in looks]
    tasks = [_task(look) for look in view.engine.task_looks(tenant=view.tenant)]
    return Queues(found, tasks, view.engine.pools(view.tenant))


def busiest(looks: Sequence[QueueLook]) -> list[QueueLook]:
    """Return queues, those first that have most to do."""
    return sorted(looks, key=lambda each: -(each.waiting.number + each.running.number))


def places(looks: Sequence[QueueLook]) -> list[Place]:
    """Return what queues are called."""
    return [Place(look.tenant, look.queue) for look in looks]


def rows_of(looks: Sequence[QueueLook], pasts: Sequence[Past]) -> list[QueueRow]:
    """Return queues, given how they did."""
    return [
        QueueRow(**asdict(look), starts=pace(past), trend=[moment.waiting for moment in past.moments])
        for look, past in zip(looks, pasts, strict=True)
    ]


def _task(look: TaskLook) -> TaskRow:
    past, whole = look.past, look.past.whole
    trend = [moment.started for moment in past.moments[:-1]]
    return TaskRow(
        look.tenant, look.task, look.stands, pace(past), trend, whole.waited_p50, whole.waited_p95, whole.failed
    )  # fmt: skip
