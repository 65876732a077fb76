"""Short ways to wait for what must happen, to have much happen at once, and to see how much did."""

import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from typing import TypeVar

T = TypeVar("T")
PATIENCE = 60.0
SLOWEST = 0.05


def until(
    look: Callable[[], T], seconds: float = PATIENCE, told: Callable[[], object] = str, every: float = 0.005
) -> T:
    """Look again and again until there is something to see; return it.  What is *told* explains a failure.

    It is seen late by a twentieth of the time it took: to look more often takes time from what is waited for.
    """
    began = time.monotonic()
    while not (seen := look()):
        waited = time.monotonic() - began
        assert waited < seconds, f"nothing came within {seconds} s; {told()}"
        time.sleep(max(every, min(waited / 20, SLOWEST)))
    return seen


def at_once(count: int, work: Callable[[int], T]) -> list[T]:
    """Do *work* in so many threads, all beginning together; return what they return."""
    together = threading.Barrier(count)

    def one(number: int) -> T:
        together.wait(30)
        return work(number)

    with ThreadPoolExecutor(count) as threads:
        return list(threads.map(one, range(count)))


def most_at_once(spans: Iterable[tuple[float, float]]) -> int:
    """Return how many of *spans*, (began, ended), were under way at once at the most."""
    changes = sorted(change for began, ended in spans for change in ((began, 1), (ended, -1)))
    return max(accumulate(step for _, step in changes), default=0)
