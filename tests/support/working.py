"""Workers for tests: one that runs in a thread, and handlers made of functions."""

import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from penstock.lifecycle.outcomes import Outcome
from penstock.worker import Handler, Worker
from tests.support.stub_engine import StubEngine


def handlers(*functions: Callable[..., Any], timeout: int | None = None) -> dict[str, Handler]:
    """Return a handler for each of *functions*, by its name."""
    return {f.__name__: Handler(f, inspect.iscoroutinefunction(f), timeout=timeout) for f in functions}


def work(
    engine: StubEngine, *functions: Callable[..., Any], timeout: int | None = None, **options: Any
) -> None:
    """Run *functions* until the engine has nothing more."""
    Worker(engine, handlers(*functions, timeout=timeout), **options).run(until_idle=True)


def end_of(engine: StubEngine, function: Callable[..., Any], *, timeout: int | None = None) -> Outcome:
    """Enqueue one job of *function* and run it; return how its attempt ended."""
    job = engine.enqueue(function.__name__, timeout=timeout)
    work(engine, function)
    return engine.outcomes[job]


def holding() -> tuple[Callable[[], None], threading.Event, threading.Event]:
    """Return a plain handler called *hold*, what is set when it has begun, and what lets it go on."""
    begun, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        begun.set()
        go_on.wait(10)

    return hold, begun, go_on


@contextmanager
def working(engine: StubEngine, *functions: Callable[..., Any], **options: Any) -> Iterator[Worker]:
    """Run *functions* in a worker while the block lasts."""
    worker = Worker(engine, handlers(*functions), **options)
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        yield worker
    finally:
        worker.stop_now()
        thread.join(10)
        assert not thread.is_alive()
