"""Short ways to say what happens at bulkheads that are shared; several apps on one file stand for several processes."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from penstock import App
from penstock.errors import StoreError
from penstock.policies import Bulkhead, BulkheadFull
from tests.support.timing import until

PATIENCE = 20


def bulkhead(app: App, slots: Any = 1, **options: Any) -> Bulkhead:
    """Return a bulkhead that all share."""
    return Bulkhead(slots, **{"name": "api", **options}, shared=app)


async def auntil(condition: Callable[[], object]) -> None:
    """Wait for something, in a task."""
    await asyncio.to_thread(until, condition)


def running(app: App, key: str = "api") -> int:
    """Return how many slots of a key are taken, by what the store says."""
    return app.engine.gate(key).running


def waiting(app: App, key: str = "api") -> int:
    """Return how many wait for a key at the store."""
    return app.engine.gate(key).waiting


@contextmanager
def thread(work: Callable[[], object]) -> Iterator[list[Any]]:
    """Do *work* in a thread, and see that it ends; a refusal is its answer, too."""
    answers: list[Any] = []

    def run() -> None:
        try:
            answers.append(work())
        except (StoreError, BulkheadFull) as error:
            answers.append(error)

    one = threading.Thread(target=run, daemon=True)
    one.start()
    yield answers
    one.join(PATIENCE)
    assert not one.is_alive(), "a call hangs"
