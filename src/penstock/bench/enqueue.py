"""W1: enqueue one by one and in bulk, from one caller and from sixteen threads."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from penstock.bench.figures import Figure, at_least
from penstock.bench.run_context import RunContext, batches, job, opened
from penstock.engine import Engine

THREADS: Final = 16
BULK: Final = 1_000
_JOB: Final = job("noop")


def run(context: RunContext) -> list[Figure]:
    """Measure how many durable jobs a second callers can hand in."""
    singles = context.size(3_000, 500)
    bulk = context.size(50_000, 10_000)
    alone = _measured(context, "one by one, one caller", singles, _singles)
    together = _measured(context, f"one by one, {THREADS} threads", singles * 2, _threaded(_singles))
    gain = together.value / alone.value
    # On SQLite the one caller has no way to a server to wait for.
    wanted = at_least(gain, 4) if context.stores.postgres else None
    return [
        alone,
        together,
        Figure("W1", f"{THREADS} threads / one caller", gain, "x", wanted),
        _measured(context, f"in bulk of {BULK:,}, one caller", bulk, _bulk),
        _measured(context, f"in bulk of {BULK:,}, {THREADS} threads", bulk, _threaded(_bulk)),
    ]


def _measured(context: RunContext, name: str, count: int, work: Callable[[Engine, int], None]) -> Figure:
    context.say(f"W1 {name}: {count:,} jobs")
    with opened(context.url("w1")) as engine:
        engine.enqueue([_JOB])
        began = time.perf_counter()
        work(engine, count)
        spent = time.perf_counter() - began
    context.clear("w1")
    return Figure("W1", name, count / spent, "jobs/s")


def _singles(engine: Engine, count: int) -> None:
    for _ in range(count):
        engine.enqueue([_JOB])


def _bulk(engine: Engine, count: int) -> None:
    for batch in batches((_JOB for _ in range(count)), BULK):
        engine.enqueue(batch)


def _threaded(work: Callable[[Engine, int], None]) -> Callable[[Engine, int], None]:
    def all_at_once(engine: Engine, count: int) -> None:
        with ThreadPoolExecutor(THREADS) as pool:
            for share in [pool.submit(work, engine, count // THREADS) for _ in range(THREADS)]:
                share.result()

    return all_at_once
