"""What was decided: maintenance, and the numbers of keys and queues."""

from msgspec import Struct

from penstock.job import GateLook, Maintenance, QueueLook
from penstock.monitor.page import View
from penstock.monitor.requests import Query


class Settings(Struct):
    """What was decided.  *maintenance* is about all tenants."""

    maintenance: Maintenance | None
    gates: list[GateLook]
    queues: list[QueueLook]


def show(view: View, _: Query) -> Settings:
    """Return what was decided."""
    maintenance = view.engine.maintenance() if view.tenant is None else None
    queues = [each for each in view.engine.queue_looks(tenant=view.tenant, counted=1) if _is_decided(each)]
    return Settings(maintenance, view.engine.decided_gates(tenant=view.tenant), queues)


def _is_decided(queue: QueueLook) -> bool:
    return queue.paused is not None or queue.numbers is not None or queue.most is not None
