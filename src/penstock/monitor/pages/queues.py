"""Queues: how many of their jobs run and wait, and what was decided about them."""

from msgspec import Struct

from penstock.job import Pool, QueueLook
from penstock.monitor.page import View
from penstock.monitor.requests import Query


class Queues(Struct):
    """All queues that have jobs or rules, and the pools that they are in."""

    queues: list[QueueLook]
    pools: list[Pool]


def show(view: View, _: Query) -> Queues:
    """Return the queues."""
    return Queues(view.engine.queue_looks(tenant=view.tenant), view.engine.pools(view.tenant))
