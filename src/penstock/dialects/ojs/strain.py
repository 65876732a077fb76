"""Which queues are full, or nearly, and when that changes."""

from dataclasses import dataclass
from typing import Final

from penstock.clock import SECOND, monotonic
from penstock.edge.feed import Feed
from penstock.errors import QueueFullError

_APART: Final = SECOND  # how often refusals of one queue are told


@dataclass(slots=True)
class _Queue:
    warned: bool = False
    refused: int = 0  # since it was last told
    told: int = -_APART


class Strain:
    """Tells once when a queue is nearly full and when it no longer is; and of refusals, once a second."""

    def __init__(self) -> None:
        self._queues: dict[str, _Queue] = {}

    def refused(self, feed: Feed, error: QueueFullError) -> None:
        """Note that a queue had no room."""
        queue = self._queues.setdefault(error.queue, _Queue())
        queue.refused += 1
        queue.warned = True
        if monotonic() - queue.told >= _APART:
            facts = {"depth": error.depth, "max_depth": error.bound, "rejected": queue.refused}
            feed.tell("backpressure.rejected", queue=error.queue, **facts)
            queue.told, queue.refused = monotonic(), 0

    def seen(self, feed: Feed, queue: str, depth: int, most: int, *, nearly: bool) -> None:
        """Note how full a queue is."""
        known = self._queues.get(queue)
        if nearly and (known is None or not known.warned):
            self._queues[queue] = _Queue(warned=True)
            feed.tell("backpressure.warning", queue=queue, depth=depth, max_depth=most)
        elif known is not None and not nearly:
            del self._queues[queue]
            feed.tell("backpressure.cleared", queue=queue, depth=depth, max_depth=most)
