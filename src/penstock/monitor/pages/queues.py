"""Queues: how many of their jobs run and wait, how that went, and what was decided about them."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import asdict

from penstock.job import Past, Place, Pool, QueueLook
from penstock.monitor.lookback import pace
from penstock.monitor.page import View
from penstock.monitor.requests import Query

TOLD: Final = 50  # queues of which is told how they did: those that have most to do


class QueueRow(QueueLook, frozen=True):
    """A queue, how many of its jobs started in each of the last minutes, and waited in each of the last hour.

    Both are known of the busiest queues only.
    """

    starts: float | None = None
    trend: list[int] | None = None


class Queues(Struct):
    """All queues that have jobs or rules, and the pools that they are in."""

    queues: list[QueueRow]
    pools: list[Pool]


def show(view: View, _: Query) -> Queues:
    """Return the queues."""
    looks = view.engine.queue_looks(tenant=view.tenant)
    busy = busiest(looks)[:TOLD]
    pasts = view.engine.queues_past(places(busy))
    told = {(row.tenant, row.queue): row for row in rows_of(busy, pasts)}
    found = [told.get((look.tenant, look.queue)) or QueueRow(**asdict(look)) for look in looks]
    return Queues(found, view.engine.pools(view.tenant))


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
